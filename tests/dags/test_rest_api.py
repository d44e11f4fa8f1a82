"""Louver's own routes in the API server: who may ask what, what is answered, and what errors look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import time_machine
from support.airflow_by_hand import AirflowByHand

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver_provider.dag_builder import build_dag
from louver_provider.hooks import ledger as ledger_hook

RUN = RunKey("described", "r1")
ONE, TWO = (TaskKey("described", "r1", name) for name in ("one", "two"))
STORY = Definition(
    name="described",
    version="1.0.0",
    nodes=[Step(name="one", task="tests:one"), Step(name="two", task="tests:two", deps={"got": "one"})],
)
VALUE = {
    "amount": Decimal("12.50"),
    "at": datetime(2026, 3, 1, 12, tzinfo=timezone.utc),
    "pair": (1, 1.0),
    "marked": "payload-zq7marker",
}

RUN_URL = "/louver/v1/dags/described/runs/r1"
READ = ("status", "results", "history")
COMMANDS = ("pause", "resume", "stop")
ROUTES = [
    *(("GET", f"{RUN_URL}/{name}") for name in READ),
    *(("POST", f"{RUN_URL}/{name}") for name in COMMANDS),
    ("POST", "/louver/v1/dags/described/events"),
    ("GET", "/louver/v1/openapi.json"),
]
CHANGING = [route for route in ROUTES if route[0] == "POST"]


def one() -> dict[str, Any]:
    """The first step."""
    return dict(VALUE)


def two(got: Any) -> None:
    """The second step; its result is None, which is a value."""


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    # In the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    with (
        time_machine.travel(datetime(2026, 4, 1, 12, tzinfo=timezone.utc), tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        by_hand.deploy(build_dag(STORY, tasks={"tests:one": one, "tests:two": two}))
        yield by_hand


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow: AirflowByHand) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened
    airflow.empty()


@pytest.fixture
def begun(airflow: AirflowByHand, ledger: Ledger) -> Ledger:
    """A run whose first step has succeeded."""
    airflow.trigger("ann", RUN)
    assert lived(airflow, ONE) == "success"
    return ledger


def lived(airflow: AirflowByHand, key: TaskKey) -> str:
    """The scheduler comes to the task, and a worker takes it up; how it ended."""
    for _ in range(5):
        airflow.pass_time(timedelta(seconds=1))
        airflow.schedule()
        if key in airflow.waiting():
            return airflow.work(key)
    raise AssertionError(f"{key} is not scheduled: {airflow.rows.states(key.run)}")


def ask(airflow: AirflowByHand, method: str, path: str, *, role: str = "admin", **given: Any) -> Any:
    """A request with a good token; a POST with a body that every command takes."""
    headers = {"Authorization": f"Bearer {airflow.token('ann', role=role)}"}
    if method == "POST":
        given = {"json": {}, **given}
    return airflow.web.request(method, path, headers=headers, **given)


# Who may


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_gets_anything_without_a_token(airflow: AirflowByHand, method: str, path: str) -> None:
    answer = airflow.web.request(method, path, json={} if method == "POST" else None)

    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    assert answer.json()["detail"] == "Not authenticated"


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_an_expired_token_is_none(airflow: AirflowByHand, method: str, path: str) -> None:
    headers = {"Authorization": f"Bearer {airflow.token('ann', seconds=-3600)}"}

    answer = airflow.web.request(method, path, headers=headers, json={} if method == "POST" else None)

    assert (answer.status_code, answer.json()["detail"]) == (401, "Token Expired")


def test_a_token_in_the_address_is_none(airflow: AirflowByHand) -> None:
    answer = airflow.web.get(f"{RUN_URL}/status", params={"token": airflow.token("ann")})

    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_a_viewer_changes_nothing(airflow: AirflowByHand, begun: Ledger, method: str, path: str) -> None:
    answer = ask(airflow, method, path, role="viewer")

    assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")
    assert begun.list_commands(RUN) == []


@pytest.mark.parametrize("what", READ)
def test_a_viewer_reads(airflow: AirflowByHand, begun: Ledger, what: str) -> None:
    assert ask(airflow, "GET", f"{RUN_URL}/{what}", role="viewer").status_code == 200


@pytest.mark.parametrize(
    ("what", "entity"),
    [("status", "TASK_INSTANCE"), ("results", "XCOM"), ("history", "AUDIT_LOG"), ("stop", "TASK_INSTANCE")],
)
def test_each_route_takes_the_right_of_airflows_own(
    airflow: AirflowByHand, begun: Ledger, monkeypatch: pytest.MonkeyPatch, what: str, entity: str
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    asked: list[tuple[str, str, str | None]] = []

    def refuse(*, method: str, access_entity: Any, details: Any, user: Any) -> bool:
        asked.append((method, access_entity.value, details.id))
        return False

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", refuse)
    method = "GET" if what in READ else "POST"

    answer = ask(airflow, method, f"{RUN_URL}/{what}")

    assert answer.status_code == 403
    assert asked == [("GET" if what in READ else "PUT", entity, "described")]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {}])
@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_a_cookie_from_another_origin_changes_nothing(
    airflow: AirflowByHand, begun: Ledger, method: str, path: str, headers: dict[str, str]
) -> None:
    cookie = {"Cookie": f"_token={airflow.token('ann')}"}

    answer = airflow.web.request(method, path, headers={**cookie, **headers}, json={})

    assert answer.status_code == 403, answer.text
    assert "Bearer" in answer.json()["detail"]
    assert begun.list_commands(RUN) == []


def test_a_cookie_from_airflows_own_pages_is_good(airflow: AirflowByHand, begun: Ledger) -> None:
    headers = {"Cookie": f"_token={airflow.token('ann')}", "Origin": "http://testserver"}

    answer = airflow.web.post(f"{RUN_URL}/stop", headers=headers, json={"node": "two", "wait_seconds": 0})

    assert answer.status_code == 200, answer.text
    (command,) = begun.list_commands(RUN)
    assert (str(command.verb), command.actor) == ("stop", "ann")


# What is answered


def test_the_status_tells_of_every_node(airflow: AirflowByHand, begun: Ledger) -> None:
    body = ask(airflow, "GET", f"{RUN_URL}/status").json()

    assert (body["state"], body["over"], body["airflow_state"]) == ("running", False, "running")
    assert (body["dag_paused"], body["sink"]) == (False, "two")
    assert body["workflow"]["fingerprint"] == STORY.fingerprint
    first, second = body["nodes"]
    assert (first["node"], first["state"], first["attempt"], first["try_number"]) == (
        "one",
        "succeeded",
        1,
        1,
    )
    assert (second["state"], second["attempt"], second["waits_for"]) == ("pending", 0, ["one"])


def test_a_run_that_has_not_begun_says_so(airflow: AirflowByHand, ledger: Ledger) -> None:
    airflow.trigger("ann", RUN)

    body = ask(airflow, "GET", f"{RUN_URL}/status").json()
    results = ask(airflow, "GET", f"{RUN_URL}/results")
    stopped = ask(airflow, "POST", f"{RUN_URL}/stop")

    assert (body["state"], body["airflow_state"], body["nodes"]) == (None, "queued", [])
    assert (results.status_code, stopped.status_code) == (409, 409)
    assert "none of its steps has begun" in results.json()["detail"]
    assert "airflow louver stop" in stopped.json()["detail"]


def test_results_are_typed_for_programs_and_plain_for_people(airflow: AirflowByHand, begun: Ledger) -> None:
    from louver.canonical import encode

    typed = ask(airflow, "GET", f"{RUN_URL}/results")
    plain = ask(airflow, "GET", f"{RUN_URL}/results?form=plain&node=one")

    assert typed.headers["cache-control"] == "no-store"
    assert typed.json()["nodes"]["one"]["value"] == encode(VALUE)
    assert typed.json()["nodes"]["two"] == {
        "map_index": -1,
        "state": "pending",
        "tag": "open",
        "value": None,
        "error": None,
    }
    assert plain.json()["nodes"] == {
        "one": {
            "map_index": -1,
            "state": "succeeded",
            "tag": "ok",
            "value": {
                "amount": "12.50",
                "at": "2026-03-01T12:00:00+00:00",
                "pair": [1, 1.0],
                "marked": "payload-zq7marker",
            },
            "error": None,
        }
    }


def test_results_stand_in_results_alone(
    airflow: AirflowByHand, begun: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    said = [ask(airflow, "GET", f"{RUN_URL}/{what}").text for what in READ]
    ask(airflow, "GET", f"{RUN_URL}/results?node=nobody")

    assert ["zq7marker" in text for text in said] == [False, True, False]
    assert "zq7marker" not in caplog.text


def test_the_history_is_that_of_the_commands(airflow: AirflowByHand, begun: Ledger) -> None:
    rows = ask(airflow, "GET", f"{RUN_URL}/history").json()["rows"]
    stored = ask(airflow, "GET", f"{RUN_URL}/history?stored=true&node=one").json()["rows"]

    assert [row["to_state"] for row in stored] == ["queued", "starting", "running", "succeeded"]
    assert all(row["recorded_by"] for row in stored)
    made = next(row for row in rows if row["airflow"] == "created")
    assert (made["actor"], made["node"], made["recorded_by"]) == ("ann", None, None)


def test_a_command_is_recorded_with_its_author_and_reason(airflow: AirflowByHand, begun: Ledger) -> None:
    body = {"node": "two", "reason": "month end", "wait_seconds": 0}

    (reply,) = ask(airflow, "POST", f"{RUN_URL}/pause", json=body).json()
    (back,) = ask(airflow, "POST", f"{RUN_URL}/resume", json={"node": "two"}).json()

    assert (reply["became"], reply["accepted"], reply["state"]) == ("recorded", True, "pending")
    assert (back["became"], back["accepted"]) == ("taken_back", True)
    first, *_ = begun.list_commands(RUN)
    assert (first.actor, first.reason, str(first.source)) == ("ann", "month end", "api")


def test_what_is_over_takes_no_commands(airflow: AirflowByHand, begun: Ledger) -> None:
    (reply,) = ask(airflow, "POST", f"{RUN_URL}/stop", json={"node": "one"}).json()
    lived(airflow, TWO)
    nothing = ask(airflow, "POST", f"{RUN_URL}/stop")

    assert (reply["became"], reply["accepted"]) == ("refused", False)
    assert nothing.status_code == 409
    assert "nothing to stop" in nothing.json()["detail"]


# Errors


@pytest.mark.parametrize("what", READ)
def test_an_unknown_run_is_named(airflow: AirflowByHand, ledger: Ledger, what: str) -> None:
    answer = ask(airflow, "GET", f"/louver/v1/dags/described/runs/gone/{what}")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Neither the ledger nor Airflow knows a run 'gone' of 'described'; check both ids",
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "results?node=three", None), ("POST", "pause", {"node": "three"})],
)
def test_an_unknown_node_is_named_with_those_there_are(
    airflow: AirflowByHand, begun: Ledger, method: str, path: str, body: Any
) -> None:
    answer = ask(airflow, method, f"{RUN_URL}/{path}", **({"json": body} if body else {}))

    assert answer.status_code == 404
    assert "'three'; it has one, two" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"wait_seconds": 21}, "body.wait_seconds"),
        ({"map_index": 1}, "body.map_index"),
        ({"secret-zq7marker": "secret-zq7marker"}, "body.secret-zq7marker"),
        ({"reason": "zq7marker" * 100}, "body.reason"),
    ],
)
def test_a_bad_request_is_told_place_and_rule_but_not_what_it_said(
    airflow: AirflowByHand, begun: Ledger, body: Any, place: str
) -> None:
    answer = ask(airflow, "POST", f"{RUN_URL}/pause", json=body)

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{place}: ")
    assert "zq7marker" not in answer.json()["detail"].removeprefix(place)


def test_a_ledger_that_is_away_is_no_error_of_whoever_asks(
    airflow: AirflowByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})

    answer = ask(airflow, "GET", f"{RUN_URL}/status")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["status"] == 503


def test_the_interface_is_described(airflow: AirflowByHand) -> None:
    document = ask(airflow, "GET", "/louver/v1/openapi.json").json()

    paths = document["paths"]
    assert sorted(paths) == sorted(
        [
            *(f"/v1/dags/{{dag_id}}/runs/{{run_id}}/{name}" for name in (*READ, *COMMANDS)),
            "/v1/dags/{dag_id}/events",
        ]
    )
    for path, methods in paths.items():
        for method, operation in methods.items():
            assert operation["security"], (path, method)
            assert {"401", "403", "404"} <= set(operation["responses"])
            assert operation["summary"]
            assert operation["description"]
    assert json.dumps(document).count("RunResults") > 0
