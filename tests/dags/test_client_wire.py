"""The client's requests against a real server that misbehaves as it is told; waits pass on a clock."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support.scripted_server import Reply, Scripted, scripted

from louver.clock import FixedClock
from louver.errors import ConfigurationError, EventRejected
from louver_provider.client import (
    DagPaused,
    Forbidden,
    Louver,
    NotFound,
    Refused,
    ServerError,
    SubmitConflict,
    Unauthenticated,
    Unreachable,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SECRET = "secret-zq7marker"

Serve = Callable[..., Scripted]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda *replies: running.enter_context(scripted(replies))


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOON)


@pytest.fixture
def client(clock: FixedClock) -> Iterator[Callable[..., Louver]]:
    with ExitStack() as opened:

        def make(server: Scripted | str, **given: Any) -> Louver:
            url = server if isinstance(server, str) else server.url
            login = {} if {"token", "username"} & set(given) else {"token": SECRET}
            return opened.enter_context(Louver(url, clock=clock, **login, **given))

        yield make


STATUS = {
    "dag_id": "d",
    "run_id": "r",
    "state": "succeeded",
    "over": True,
    "reason": None,
    "airflow_state": "success",
    "dag_paused": False,
    "workflow": {"name": "d", "version": "1", "fingerprint": "f" * 64},
    "sink": "last",
    "started_at": "2026-03-01T12:00:00Z",
    "nodes": [],
}
DAG = Reply(body={"dag_id": "d", "is_paused": False})
GONE = Reply(status=404, body={"detail": "The DagRun with dag_id: `d` and run_id: `r` was not found"})
EXISTS = Reply(status=409, body={"detail": {"reason": "Unique constraint violation", "statement": "hidden"}})


def made(**differs: Any) -> Reply:
    return Reply(body={"dag_run_id": "r", "conf": {"n": 1}, "logical_date": None, **differs})


# Again, or not


def test_what_can_be_asked_twice_is_asked_again_until_the_server_is_back(serve, client, clock) -> None:
    server = serve(Reply(status=None), Reply(status=502), Reply(status=500), Reply(body=STATUS))

    status = client(server).run("d", "r").status()

    assert (str(status.state), len(server.seen)) == ("succeeded", 4)
    assert clock.now() > NOON


def test_patience_has_an_end(client, clock) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"

    with pytest.raises(Unreachable, match=r"status of run r of d: http.* does not answer"):
        client(url, patience=20).run("d", "r").status()

    waited = clock.now() - NOON
    assert timedelta(seconds=10) < waited <= timedelta(seconds=20)


def test_a_command_whose_answer_was_lost_is_not_sent_again(serve, client) -> None:
    server = serve(Reply(status=None))

    with pytest.raises(Unreachable, match="may have been done"):
        client(server).run("d", "r").stop()

    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [409, 429, 503])
def test_a_server_that_says_when_to_come_again_is_asked_again_then(serve, client, clock, status) -> None:
    server = serve(Reply(status=status, body={}, headers={"Retry-After": "7"}), Reply(body=[]))

    assert client(server).run("d", "r").resume() == []
    assert clock.now() - NOON == timedelta(seconds=7)


def test_who_is_to_wait_too_long_is_told_at_once(serve, client, clock) -> None:
    server = serve(Reply(status=503, body={"detail": "away"}, headers={"Retry-After": "3600"}))

    with pytest.raises(ServerError, match="away"):
        client(server).run("d", "r").status()

    assert clock.now() == NOON


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Refused), (403, Forbidden), (404, NotFound), (422, Refused), (301, ServerError)],
)
def test_a_refusal_is_told_with_its_reason_and_not_tried_again(serve, client, status, kind) -> None:
    server = serve(Reply(status=status, body={"detail": "it is forbidden to ask"}))

    with pytest.raises(kind, match=r"status of run r of d: (it is forbidden|the server sends elsewhere)"):
        client(server).run("d", "r").status()

    assert len(server.seen) == 1


def test_a_list_of_errors_is_told_without_what_was_sent(serve, client) -> None:
    error = {"loc": ["body", "conf"], "msg": "Input should be a valid dictionary", "input": "zq7marker"}
    server = serve(DAG, Reply(status=422, body={"detail": [error]}))

    with pytest.raises(Refused) as caught:
        client(server).submit("d", {"n": 1}, run_id="r")

    assert str(caught.value).endswith("body.conf: Input should be a valid dictionary")


def test_an_answer_that_is_no_json_asks_for_the_right_address(serve, client) -> None:
    with pytest.raises(ServerError, match="is this the URL of Airflow"):
        client(serve(Reply(body=b"<html>"))).run("d", "r").status()


@pytest.mark.parametrize("body", [{}, [], None, "text", {**STATUS, "state": "unheard-of"}])
def test_an_answer_of_another_version_is_named_as_such(serve, client, body) -> None:
    with pytest.raises(ServerError, match="have another version of Louver"):
        client(serve(Reply(body=body))).run("d", "r").status()


# Logins


def test_a_token_that_has_expired_is_renewed_once(serve, client) -> None:
    tokens = iter(["old", "new", "newest"])
    server = serve(
        Reply(status=401, body={"detail": "Token Expired"}), Reply(body=STATUS), Reply(body=STATUS)
    )
    run = client(server, token=lambda: next(tokens)).run("d", "r")

    run.status()
    run.status()

    assert [token for _, _, token, _ in server.seen] == ["Bearer old", "Bearer new", "Bearer new"]


def test_a_renewed_token_that_is_no_better_is_told(serve, client) -> None:
    expired = Reply(status=401, body={"detail": "Token Expired"})
    server = serve(expired, expired)

    with pytest.raises(Unauthenticated, match="Token Expired"):
        client(server, token=lambda: SECRET).run("d", "r").status()

    assert len(server.seen) == 2


def test_a_fixed_token_that_has_expired_names_the_way_out(serve, client) -> None:
    server = serve(Reply(status=401, body={"detail": "Token Expired"}))

    with pytest.raises(Unauthenticated, match="give what renews it"):
        client(server).run("d", "r").status()


def test_a_login_gets_its_own_tokens(serve, client) -> None:
    login = {"username": "ann", "password": SECRET}
    server = serve(Reply(status=201, body={"access_token": "first"}), Reply(body=STATUS))

    client(server, **login).run("d", "r").status()

    (method, path, token, body), (*_, second, _) = server.seen
    assert (method, path, token, body) == ("POST", "/auth/token", None, login)
    assert second == "Bearer first"


def test_a_wrong_password_is_not_shown(serve, client) -> None:
    server = serve(Reply(status=401, body={"detail": "Invalid credentials"}))

    with pytest.raises(Unauthenticated, match="check username and password") as caught:
        client(server, username="ann", password=SECRET).run("d", "r").status()

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"token": "t", "username": "u", "password": "p"},
        {"username": "u"},
        {"token": "t", "password": "p"},
    ],
)
def test_half_a_login_is_none(given) -> None:
    with pytest.raises(ConfigurationError, match="a token, or username and password"):
        Louver("http://localhost:8080", **given)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "", "ftp://host", f"http://ann:{SECRET}@host", "http://", SECRET]
)
def test_a_bad_address_is_refused_and_not_shown(url) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Louver(url, token="t")

    assert SECRET not in str(caught.value)


def test_nothing_shows_the_token(serve, client) -> None:
    louver = client("http://localhost:8080/airflow/", token=SECRET)

    assert repr(louver) == "<Louver at http://localhost:8080/airflow>"
    assert SECRET not in repr(louver.run("d", "r"))


# Submit


def test_a_run_has_a_name_before_it_is_asked_for(serve, client) -> None:
    server = serve(DAG, made())

    run = client(server).submit("d", {"n": 1})

    (*_, body) = server.seen[1]
    assert body == {"dag_run_id": run.run_id, "logical_date": None, "conf": {"n": 1}}
    assert run.run_id.startswith("louver__")


def test_a_run_whose_answer_was_lost_is_found_by_its_name(serve, client) -> None:
    server = serve(DAG, Reply(status=None), EXISTS, made())

    assert client(server).submit("d", {"n": 1}, run_id="r").run_id == "r"

    first, second = (body for method, _, _, body in server.seen if method == "POST")
    assert first == second


@pytest.mark.parametrize(
    ("params", "given"),
    [({"n": 2}, {}), ({"n": 1.0}, {}), ({"n": True}, {}), ({}, {}), ({"n": 1}, {"logical_date": NOON})],
    ids=["other", "float", "bool", "none", "date"],
)
def test_a_run_that_was_started_with_something_else_is_a_conflict(serve, client, params, given) -> None:
    server = serve(DAG, EXISTS, made())

    with pytest.raises(SubmitConflict, match=r"run r of d is there already, .* other (params|logical_date)"):
        client(server).submit("d", params, run_id="r", **given)


def test_the_same_moment_in_another_zone_is_the_same(serve, client) -> None:
    server = serve(DAG, EXISTS, made(logical_date="2026-03-01T13:00:00+01:00"))

    assert client(server).submit("d", {"n": 1}, run_id="r", logical_date=NOON).run_id == "r"


def test_a_logical_date_that_another_run_has_is_a_conflict(serve, client) -> None:
    server = serve(DAG, EXISTS, GONE)

    with pytest.raises(SubmitConflict, match="another run of the Dag has the logical date"):
        client(server).submit("d", {"n": 1}, run_id="r", logical_date=NOON)


def test_a_paused_dag_starts_nothing(serve, client) -> None:
    server = serve(Reply(body={"is_paused": True}), GONE)

    with pytest.raises(DagPaused, match="airflow dags unpause d"):
        client(server).submit("d", {"n": 1}, run_id="r")

    assert [method for method, *_ in server.seen] == ["GET", "GET"]


def test_a_run_of_a_paused_dag_that_is_there_is_found(serve, client) -> None:
    server = serve(Reply(body={"is_paused": True}), made())

    assert client(server).submit("d", {"n": 1}, run_id="r").run_id == "r"


def test_who_wants_to_may_start_a_run_of_a_paused_dag(serve, client) -> None:
    server = serve(Reply(body={"is_paused": True}), made())

    client(server).submit("d", {"n": 1}, run_id="r", while_paused=True)

    assert [method for method, *_ in server.seen] == ["GET", "POST"]


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"a": {"b": [1, NOON]}}, r"datetime at \$\.a\.b\[1\]"),
        ({"a": float("nan")}, r"float at \$\.a"),
        ({1: 2}, r"a key that is int at \$"),
        ({"a": (1,)}, r"tuple at \$\.a"),
    ],
)
def test_parameters_that_are_no_json_are_named_by_their_place(client, params, place) -> None:
    with pytest.raises(ConfigurationError, match=place):
        client("http://localhost:1").submit("d", params)


@pytest.mark.parametrize(
    "given", [{"params": {}}, {"run_id": "r"}, {"logical_date": NOON}], ids=["params", "run_id", "date"]
)
def test_an_event_comes_alone(client, given) -> None:
    with pytest.raises(ConfigurationError, match="give it alone"):
        client("http://localhost:1").submit("d", event={"id": "1"}, **given)


EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "https://shop.example.com",
    "type": "com.example.made.v1",
    "data": {"note": "zq7marker"},
}


def test_an_event_of_a_paused_dag_is_kept_nowhere(serve, client) -> None:
    server = serve(Reply(body={"is_paused": True}), GONE)

    with pytest.raises(DagPaused):
        client(server).submit("d", event=EVENT)

    assert [method for method, *_ in server.seen] == ["GET", "GET"]


def test_an_event_that_was_submitted_before_the_pause_has_its_run(serve, client) -> None:
    server = serve(Reply(body={"is_paused": True}), made())

    run = client(server).submit("d", event=json.dumps(EVENT).encode())

    assert server.seen[-1][1] == f"/api/v2/dags/d/dagRuns/{run.run_id}"


def test_a_dag_that_is_paused_just_then_takes_no_event(serve, client) -> None:
    paused = Reply(body={"is_paused": True})
    server = serve(DAG, Reply(status=503, headers={"Retry-After": "60"}), paused, GONE)

    with pytest.raises(DagPaused):
        client(server).submit("d", event=EVENT)

    assert [path for method, path, *_ in server.seen if method == "POST"] == ["/louver/v1/dags/d/events"]


def test_an_event_may_be_submitted_to_a_dag_that_is_paused(serve, client) -> None:
    taken = {"dag_id": "d", "run_id": "e1", "outcome": "accepted", "identity": "", "payload_fingerprint": ""}
    server = serve(Reply(status=202, body=taken))

    assert client(server).submit("d", event=EVENT, while_paused=True).run_id == "e1"
    ((method, path, *_),) = server.seen
    assert (method, path) == ("POST", "/louver/v1/dags/d/events?while_paused=true")


def test_what_is_no_event_is_found_out_here(client) -> None:
    with pytest.raises(EventRejected, match="specversion"):
        client("http://localhost:1").submit("d", event={"id": "1"})


def test_an_event_whose_answer_was_lost_is_sent_again(serve, client) -> None:
    taken = {"dag_id": "d", "run_id": "e1", "outcome": "duplicate", "identity": "", "payload_fingerprint": ""}
    server = serve(DAG, Reply(status=None), Reply(body=taken))

    assert client(server).submit("d", event=EVENT).run_id == "e1"


def test_a_naive_logical_date_is_refused(client) -> None:
    with pytest.raises(ConfigurationError, match="logical_date"):
        client("http://localhost:1").submit("d", logical_date=datetime(2026, 3, 1))  # noqa: DTZ001


def test_importing_the_client_imports_neither_airflow_nor_the_web() -> None:
    program = (
        "import json, sys; before = set(sys.modules); import louver_provider.client; "
        "print(json.dumps([name.partition('.')[0] for name in set(sys.modules) - before]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "louver_provider" in loaded
    assert not loaded & {"airflow", "fastapi", "httpx", "pydantic", "sqlalchemy", "sqlite3", "pendulum"}
