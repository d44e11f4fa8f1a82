"""
Events that come in over HTTP: each becomes one run, and the code of the answer tells its sender what to do.

Semantics section 10, cases I01, I03, I05 and I07; the API server, the ledger and Airflow's tables are real.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest
import time_machine
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select, update
from support.airflow_by_hand import AirflowByHand
from support.bucketed import bucketed

from louver.cloudevents import MAX_EVENT_BYTES, EventProfile, OrderProfile, identity, parse_event, run_id_for
from louver.definition import Definition
from louver.intake import REFERENCE, Intake
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.nodes import Step
from louver_provider.api import event_routes
from louver_provider.api.event_routes import MEDIA_TYPE
from louver_provider.dag_builder import build_dag
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.own_acts import EVENT_CONFLICT
from louver_provider.triggering import trigger_once

Louver = Callable[..., tuple[int, str, str]]

NOW = datetime(2026, 4, 1, 12, tzinfo=timezone.utc)
TYPE = "com.example.told.v1"
TOLD = Definition(
    name="told",
    version="1.0.0",
    event_type=TYPE,
    params=["event"],
    nodes=[Step(name="take", task="tests:take", params={"given": "event"})],
)
SILENT = Definition(name="silent", version="1.0.0", nodes=[Step(name="one", task="tests:one")])
ORDER = json.loads((Path(__file__).resolve().parents[2] / "dags/examples/order_event.json").read_text())


def take(given: Any) -> None:
    """Take an event in."""


def one() -> None:
    """A step of a Dag that is not started by events."""


class AnyEvent:
    """A profile that takes every event of its type."""

    event_type = TYPE

    def check(self, event: Any) -> dict[str, Any]:
        return {}

    def from_form(self, fields: Any, *, source: str, id: str) -> Any:
        raise NotImplementedError


@pytest.fixture(scope="module")
def airflow(dags_folder: Path) -> Iterator[AirflowByHand]:
    with (
        time_machine.travel(NOW, tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        by_hand.deploy(build_dag(TOLD, tasks={"tests:take": take}, profile=AnyEvent()))
        by_hand.deploy(build_dag(SILENT, tasks={"tests:one": one}))
        with DAG(dag_id="plain", schedule=None) as plain:
            EmptyOperator(task_id="alone")
        by_hand.deploy(plain)
        found = DagBag(str(dags_folder / "order_workflow.py"), bundle_path=dags_folder).dags["order_workflow"]
        by_hand.deploy(found)
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand, ledger: Ledger) -> Iterator[None]:
    yield
    airflow.empty()
    show("told", is_paused=False, has_import_errors=False)


def show(dag_id: str, **columns: Any) -> None:
    """What Airflow knows of the Dag."""
    with create_session(scoped=False) as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(**columns))


def event(id: str = "1", **members: Any) -> bytes:
    known = {"specversion": "1.0", "id": id, "source": "/s", "type": TYPE, "data": {"note": "zq7marker"}}
    return json.dumps(known | members).encode()


def post(
    airflow: AirflowByHand,
    raw: Any,
    *,
    dag_id: str = "told",
    content_type: str | None = MEDIA_TYPE,
    query: str = "",
    **headers: str,
) -> Any:
    given = {"Authorization": f"Bearer {airflow.token('ann')}", **headers}
    if content_type is not None:
        given["Content-Type"] = content_type
    path = f"/louver/v1/dags/{dag_id}/events{query}"
    return airflow.web.post(path, content=raw, headers=given, follow_redirects=False)


def runs(airflow: AirflowByHand, dag_id: str = "told") -> list[str]:
    return [run.run_id for run in airflow.rows.runs(dag_id)]


def kept(ledger: Ledger, raw: bytes, dag_id: str = "told") -> Any:
    """The row of the event; None where there is none."""
    name = hashlib.sha256(identity(parse_event(raw)).encode()).hexdigest()
    found = ledger.load_event(dag_id, name)
    return None if found is None else found[0]


# Taken in


def test_an_event_is_accepted_with_its_run_and_again_is_answered_with_the_same(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    first, again = post(airflow, event()), post(airflow, event())

    run_id = run_id_for(parse_event(event()))
    assert (first.status_code, first.json()["outcome"]) == (202, "accepted")
    assert (again.status_code, again.json()["outcome"]) == (200, "duplicate")
    assert {first.json()["run_id"], again.json()["run_id"]} == set(runs(airflow)) == {run_id}
    (run,) = airflow.rows.runs("told")
    assert (set(run.conf), run.logical_date) == ({REFERENCE}, None)
    assert "zq7marker" not in json.dumps(run.conf) + first.text
    assert kept(ledger, event()).triggered_at == NOW


@pytest.mark.parametrize("content_type", ["Application/CloudEvents+JSON", f'{MEDIA_TYPE}; charset="UTF-8"'])
def test_the_media_type_may_be_written_in_all_its_ways(airflow: AirflowByHand, content_type: str) -> None:
    assert post(airflow, event(), content_type=content_type).status_code == 202


def test_an_event_as_large_as_may_be_is_taken_in(airflow: AirflowByHand) -> None:
    raw = event(data={"fill": ""})
    whole = event(data={"fill": "x" * (MAX_EVENT_BYTES - len(raw))})
    assert len(whole) == MAX_EVENT_BYTES
    assert post(airflow, whole).status_code == 202


def test_one_event_delivered_twenty_times_at_once_makes_one_run(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    """Case I03."""
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post(airflow, event()), range(20)))

    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 19}
    assert {answer.json()["run_id"] for answer in answers} == set(runs(airflow))
    assert len(runs(airflow)) == 1
    assert post(airflow, event()).status_code == 200


def test_fifty_events_at_once_make_fifty_runs(airflow: AirflowByHand) -> None:
    """Case I01: in one second, without a logical date."""
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: post(airflow, event(str(number))), range(50)))

    assert Counter(answer.status_code for answer in answers) == {202: 50}
    assert len(set(runs(airflow))) == 50
    assert {run.logical_date for run in airflow.rows.runs("told")} == {None}


# Half taken in


def kept_only(ledger: Ledger, raw: bytes) -> Any:
    """As a process leaves it that dies between the row of the event and its run."""
    intake = Intake(dag_id="told", profile=cast("EventProfile", AnyEvent()))
    return intake.submit(ledger, raw, now=NOW)[1]


def test_an_event_whose_run_was_not_made_any_more_gets_it_when_it_is_sent_again(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    """Case I07: the row was there, the run was not."""
    kept_only(ledger, event())
    assert runs(airflow) == []

    completed, again = post(airflow, event()), post(airflow, event())

    assert (completed.status_code, again.status_code) == (202, 200)
    assert runs(airflow) == [completed.json()["run_id"]]
    assert kept(ledger, event()).triggered_at == NOW


def test_a_run_that_was_made_and_not_confirmed_is_confirmed_when_it_is_sent_again(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    record = kept_only(ledger, event())
    conf = Intake.conf(record)
    assert trigger_once("told", record.run_id, conf, by="ann", through=DagRunTriggeredByType.REST_API)
    assert not trigger_once("told", record.run_id, conf, by="bob", through=DagRunTriggeredByType.REST_API)
    assert kept(ledger, event()).triggered_at is None

    answer = post(airflow, event())

    assert (answer.status_code, answer.json()["outcome"]) == (200, "duplicate")
    assert runs(airflow) == [record.run_id]
    assert kept(ledger, event()).triggered_at == NOW


def test_a_run_that_airflow_could_not_make_is_made_when_it_is_sent_again(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    show("told", allowed_run_types=["scheduled"])
    try:
        refused = post(airflow, event())
    finally:
        show("told", allowed_run_types=None)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")
    assert "allowed_run_types" in refused.json()["detail"]
    assert runs(airflow) == []

    assert post(airflow, event()).status_code == 202
    assert len(runs(airflow)) == 1


@pytest.mark.parametrize("made", [False, True], ids=["the run is missing", "the run is not confirmed"])
def test_the_command_completes_what_another_process_left_half(
    airflow: AirflowByHand, ledger: Ledger, louver: Louver, tmp_path: Path, made: bool
) -> None:
    raw = json.dumps(ORDER).encode()
    intake = Intake(dag_id="order_workflow", profile=OrderProfile())
    _, record = intake.submit(ledger, raw, now=NOW)
    if made:
        conf = Intake.conf(record)
        trigger_once("order_workflow", record.run_id, conf, by="ann", through=DagRunTriggeredByType.CLI)
    file = tmp_path / "event.json"
    file.write_bytes(raw)

    code, out, err = louver("submit", "order_workflow", "--event", str(file), "--output", "json")

    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    assert (row["run_id"], row["outcome"]) == (record.run_id, "duplicate" if made else "accepted")
    assert runs(airflow, "order_workflow") == [record.run_id]
    assert kept(ledger, raw, "order_workflow").triggered_at == NOW


# Refused


def test_the_same_identity_with_another_payload_is_a_conflict_and_audited(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    """Case I05."""
    run_id = post(airflow, event()).json()["run_id"]

    answer = post(airflow, event(data={"note": "zq8marker"}))

    assert answer.status_code == 409
    assert run_id in answer.json()["detail"]
    assert "marker" not in answer.text
    assert runs(airflow) == [run_id]
    with create_session(scoped=False) as session:
        query = select(Log.dag_id, Log.run_id, Log.owner, Log.extra).where(Log.event == EVENT_CONFLICT)
        assert [tuple(row) for row in session.execute(query)] == [("told", run_id, "ann", None)]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/cloudevents-batch+json",
        "text/plain",
        f"{MEDIA_TYPE}; charset=utf-16",
    ],
)
def test_another_media_type_is_refused_with_the_one_that_is_read(
    airflow: AirflowByHand, ledger: Ledger, content_type: str | None
) -> None:
    """Case I08: the binary mode, in which attributes are headers, too."""
    binary = {"ce-id": "1", "ce-source": "/s", "ce-type": TYPE, "ce-specversion": "1.0"}
    answer = post(airflow, event(), content_type=content_type, **binary)
    assert (answer.status_code, answer.headers["content-type"]) == (415, "application/problem+json")
    assert MEDIA_TYPE in answer.json()["detail"] or "charset" in answer.json()["detail"]
    assert (runs(airflow), kept(ledger, event())) == ([], None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        event(id=""),
        event(specversion="0.3"),
        event(time="yesterday"),
    ],
)
def test_what_is_no_event_is_a_bad_request(airflow: AirflowByHand, raw: bytes) -> None:
    answer = post(airflow, raw)
    assert (answer.status_code, answer.json()["title"]) == (400, "Bad Request")
    assert answer.json()["detail"].startswith("event")
    assert runs(airflow) == []


def test_too_large_a_body_is_refused_by_its_said_length(airflow: AirflowByHand) -> None:
    answer = post(airflow, event(data={"fill": "x" * MAX_EVENT_BYTES}))
    assert (answer.status_code, str(MAX_EVENT_BYTES) in answer.json()["detail"]) == (413, True)
    assert runs(airflow) == []


def test_too_large_a_body_of_unsaid_length_is_not_read_to_its_end(airflow: AirflowByHand) -> None:
    given = 0

    def endless() -> Iterator[bytes]:
        nonlocal given
        while given < 100 * MAX_EVENT_BYTES:
            given += 2**14
            yield b" " * 2**14

    assert streamed(airflow, endless()) == 413
    assert given <= MAX_EVENT_BYTES + 2**15


def streamed(airflow: AirflowByHand, parts: Iterator[bytes]) -> int:
    """The status of the answer to a body that is sent in parts, as a server hands them on when asked."""

    async def ask() -> int:
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            part = next(parts, None)
            return {"type": "http.request", "body": part or b"", "more_body": part is not None}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        token = airflow.token("ann")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/louver/v1/dags/told/events",
            "raw_path": b"/louver/v1/dags/told/events",
            "root_path": "",
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
            "headers": [
                (b"host", b"testserver"),
                (b"authorization", f"Bearer {token}".encode()),
                (b"content-type", MEDIA_TYPE.encode()),
                (b"transfer-encoding", b"chunked"),
            ],
        }
        await cast("Any", airflow.web.app)(scope, receive, send)
        return statuses[0]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("dag_id", "status", "words"),
    [
        ("plain", 422, "is no Louver Dag"),
        ("silent", 422, "is not started by events"),
        ("nowhere", 404, "Airflow has no Dag"),
    ],
)
def test_a_dag_that_takes_no_events_says_so(
    airflow: AirflowByHand, dag_id: str, status: int, words: str
) -> None:
    answer = post(airflow, event(), dag_id=dag_id)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True)


def test_only_the_events_that_a_dag_declares_start_its_runs(airflow: AirflowByHand, ledger: Ledger) -> None:
    other = event(type="com.example.other.v1")
    answer = post(airflow, other)
    assert answer.status_code == 422
    assert f"takes events of type {TYPE!r}" in answer.json()["detail"]
    assert kept(ledger, other) is None


def test_an_event_that_breaks_the_profile_is_no_bad_request(airflow: AirflowByHand, ledger: Ledger) -> None:
    whole, wrong = (
        json.dumps(ORDER | {"data": ORDER["data"] | change}).encode() for change in ({}, {"amount": 12.5})
    )
    answer = post(airflow, wrong, dag_id="order_workflow")
    assert (answer.status_code, "data.amount" in answer.json()["detail"]) == (422, True)
    assert kept(ledger, wrong, "order_workflow") is None
    assert post(airflow, whole, dag_id="order_workflow").status_code == 202


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket_key": "items"}, "the bucket key must be a string or an integer, not list"),
        ({"bucket_key": "customer_id", "bucket_owners": "node-a:64"}, "nobody owns bucket"),
    ],
)
def test_an_event_that_fits_no_bucket_leaves_nothing(
    airflow: AirflowByHand, ledger: Ledger, options: dict[str, str], words: str
) -> None:
    raw = json.dumps(ORDER).encode()
    with bucketed(**options):
        answer = post(airflow, raw, dag_id="order_workflow")
    assert (answer.status_code, words in answer.json()["detail"]) == (422, True)
    assert (runs(airflow, "order_workflow"), kept(ledger, raw, "order_workflow")) == ([], None)


def test_nobody_is_sent_elsewhere(airflow: AirflowByHand) -> None:
    token = {"Authorization": f"Bearer {airflow.token('ann')}", "Content-Type": MEDIA_TYPE}
    for path in ("/louver/v1/dags/told/events/", "/louver/v1/dags/told/events//"):
        answer = airflow.web.post(path, content=event(), headers=token, follow_redirects=False)
        assert answer.status_code == 404
    assert runs(airflow) == []


# To be sent again


def test_a_paused_dag_takes_nothing_in_and_says_when_to_come_again(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    show("told", is_paused=True)

    answer = post(airflow, event())

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "has paused the Dag 'told'" in answer.json()["detail"]
    assert (runs(airflow), kept(ledger, event())) == ([], None)


def test_a_paused_dag_takes_an_event_in_where_its_sender_wants_that(airflow: AirflowByHand) -> None:
    show("told", is_paused=True)
    assert post(airflow, event(), query="?while_paused=true").status_code == 202
    assert len(runs(airflow)) == 1


def test_an_event_from_before_the_pause_is_answered_with_its_run(airflow: AirflowByHand) -> None:
    post(airflow, event())
    show("told", is_paused=True)
    assert post(airflow, event()).status_code == 200
    assert post(airflow, event(data={})).status_code == 409


def test_a_dag_that_does_not_parse_is_asked_again(airflow: AirflowByHand, ledger: Ledger) -> None:
    show("told", has_import_errors=True)
    answer = post(airflow, event())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert kept(ledger, event()) is None


def test_where_too_many_come_at_once_the_sender_is_told_when_to_come_again(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    taken = 0
    while event_routes._AT_ONCE.acquire(blocking=False):
        taken += 1
    try:
        answer = post(airflow, event())
    finally:
        for _ in range(taken):
            event_routes._AT_ONCE.release()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert kept(ledger, event()) is None
    assert post(airflow, event()).status_code == 202


def test_a_ledger_that_is_away_is_asked_again(
    airflow: AirflowByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    answer = post(airflow, event())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert runs(airflow) == []


def test_every_code_is_in_the_description_of_the_interface(airflow: AirflowByHand) -> None:
    headers = {"Authorization": f"Bearer {airflow.token('ann')}"}
    document = airflow.web.get("/louver/v1/openapi.json", headers=headers).json()
    found = document["paths"]["/v1/dags/{dag_id}/events"]["post"]["responses"]
    known = {"200", "202", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503"}
    assert set(found) == known
    for code in ("200", "202"):
        assert "Accepted" in json.dumps(found[code])


def test_a_run_that_somebody_started_by_hand_under_the_events_name_is_left(airflow: AirflowByHand) -> None:
    """What its conf says is looked at by its first step."""
    run_id = run_id_for(parse_event(event()))
    airflow.trigger("bob", RunKey("told", run_id))
    answer = post(airflow, event())
    assert (answer.status_code, answer.json()["run_id"]) == (200, run_id)
    assert runs(airflow) == [run_id]
