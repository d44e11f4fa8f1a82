"""The client against the whole API server, and runs that a worker of this process lives by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from airflow.sdk import Param
from support.airflow_by_hand import AirflowByHand
from support.pages import ROOT, blocks
from support.through_web import ThroughWeb

from louver.definition import Definition
from louver.engine import run_inline
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver.states import RunState, TaskState
from louver_provider.client import (
    CommandImpossible,
    DagPaused,
    Forbidden,
    Louver,
    NoResult,
    NotFound,
    Refused,
    RunFailed,
    RunHandle,
    RunStopped,
    SubmitConflict,
    Unauthenticated,
    WaitTimeout,
)
from louver_provider.dag_builder import build_dag
from louver_provider.hooks import ledger as ledger_hook

NOON = datetime(2026, 4, 1, 12, tzinfo=timezone.utc)
RESULT = {"amount": Decimal("12.50"), "at": NOON, "pair": (1, 1.0), "nothing": None}

PRICED = Definition(
    name="priced",
    version="1.0.0",
    params=["amount"],
    sink="price",
    nodes=[
        Step(name="price", task="tests:price", params={"amount": "amount"}),
        Step(name="tell", task="tests:tell", deps=["price"]),
    ],
)
BILLING = replace(PRICED, name="billing")
SKIPPED = Definition(name="skipped", version="1", nodes=[Step(name="alone", task="tests:skip")])


def price(amount: int) -> dict[str, Any]:
    """A result of many types; of nothing it is none."""
    if amount <= 0:
        raise ValueError("zq7marker")
    return dict(RESULT)


def tell() -> str:
    """What comes after it."""
    return "told"


def skip() -> None:
    """A step that has nothing to do."""
    from airflow.sdk.exceptions import AirflowSkipException

    raise AirflowSkipException


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    # In the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    with (
        time_machine.travel(NOON, tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        tasks = {"tests:price": price, "tests:tell": tell}
        by_hand.deploy(build_dag(PRICED, tasks=tasks, params={"amount": Param(1, type="integer")}))
        by_hand.deploy(build_dag(BILLING, tasks=tasks, params={"amount": Param(1, type="integer")}))
        by_hand.deploy(build_dag(SKIPPED, tasks={"tests:skip": skip}))
        yield by_hand


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow: AirflowByHand) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened
    airflow.empty()


class WhileWaiting:
    """A clock; while somebody waits, the scheduler and a worker do what there is to do."""

    def __init__(self, airflow: AirflowByHand, *, idle: bool = False) -> None:
        self._airflow = airflow
        self._idle = idle

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def sleep(self, duration: timedelta) -> None:
        self._airflow.pass_time(max(duration, timedelta(seconds=1)))
        if not self._idle:
            self._airflow.schedule()
            for key in self._airflow.waiting():
                self._airflow.work(key)


@pytest.fixture
def client(airflow: AirflowByHand, ledger: Ledger) -> Callable[..., Louver]:
    def make(user: str = "ann", *, role: str = "admin", idle: bool = False) -> Louver:
        return Louver(
            "http://testserver",
            token=lambda: airflow.token(user, role=role),
            transport=ThroughWeb(airflow.web),
            clock=WhileWaiting(airflow, idle=idle),
        )

    return make


def test_a_run_is_submitted_waited_for_and_gives_what_its_sink_returned(client) -> None:
    run = client().submit("priced", {"amount": 5}, run_id="r1")

    result = run.get(timeout=60)

    assert (result, type(result["amount"]), type(result["pair"])) == (RESULT, Decimal, tuple)
    status = run.status()
    assert (status.state, status.over, status.workflow) == (RunState.SUCCEEDED, True, "priced 1.0.0")
    assert {name: (node.state, node.attempt) for name, node in status.nodes.items()} == {
        "price": (TaskState.SUCCEEDED, 1),
        "tell": (TaskState.SUCCEEDED, 1),
    }
    results = run.results()
    assert list(results) == ["price", "tell"]
    assert (results["tell"].tag, results["tell"].value) == ("ok", "told")


def test_submitted_again_it_is_the_same_run_and_with_something_else_a_conflict(client, airflow) -> None:
    first = client().submit("priced", {"amount": 5}, run_id="r1")

    assert client("bob").submit("priced", {"amount": 5}, run_id="r1") == first
    with pytest.raises(SubmitConflict, match=r"run r1 of priced is there already.*other params"):
        client().submit("priced", {"amount": 6}, run_id="r1")

    assert [run.conf for run in airflow.rows.runs("priced")] == [{"amount": 5}]


@pytest.fixture
def bill(client, airflow) -> Callable[..., Any]:
    """The step of the docs that starts a run of another Dag; tries of it end as a test says."""
    example = next(text for text in blocks(ROOT / "docs" / "effects.md", "python") if "client.submit" in text)
    names: dict[str, Any] = {}
    exec(compile(example, "effects.md", "exec"), names)
    names["Louver"] = SimpleNamespace(from_connection=lambda name: client())
    definition = Definition(
        name="orders",
        version="1",
        params=["amount"],
        nodes=[Step(name="bill", task="docs:bill", params={"amount": "amount"})],
    )

    def run(run_id: str, ledger: Ledger, *, amount: int = 5, ends: Callable[[], Any] = tuple) -> Any:
        start = names["start_billing"]

        def started(key: str, order: Any) -> str:
            made = start(key, order)
            ends()
            return made

        def step(ctx: Any, amount: int) -> Any:
            names["start_billing"] = started
            try:
                return names["bill"]({"amount": amount}, ctx)
            finally:
                names["start_billing"] = start

        return run_inline(definition, {"bill": step}, {"amount": amount}, ledger=ledger, run_id=run_id)

    return run


class Killed(BaseException):
    """The process ends here."""


def test_a_run_that_is_started_as_an_effect_is_started_once(bill, airflow, ledger) -> None:
    """Case F06: killed once the run was there, before anything of it was recorded."""

    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        bill("o-1", ledger, ends=die)
    (made,) = airflow.rows.runs("billing")

    again = bill("o-1", ledger)

    assert (again.state, again.value) == (RunState.SUCCEEDED, made.run_id)
    assert [run.run_id for run in airflow.rows.runs("billing")] == [made.run_id]
    assert made.run_id.startswith("for-")
    # Another run of the same workflow starts another one.
    assert bill("o-2", ledger, amount=6).value != made.run_id
    assert [run.conf for run in airflow.rows.runs("billing")] == [{"amount": 5}, {"amount": 6}]


def test_one_logical_date_is_for_one_run(client) -> None:
    client().submit("priced", {"amount": 5}, run_id="r1", logical_date=NOON)

    assert client().submit("priced", {"amount": 5}, run_id="r1", logical_date=NOON).run_id == "r1"
    with pytest.raises(SubmitConflict, match="another run of the Dag has the logical date"):
        client().submit("priced", {"amount": 5}, run_id="r2", logical_date=NOON)


def test_a_wait_that_times_out_changes_nothing(client, ledger) -> None:
    run = client(idle=True).submit("priced", {"amount": 5}, run_id="r1")

    with pytest.raises(WaitTimeout, match=r"run r1 of priced is not over after 3 s: it is not begun, queued"):
        run.get(timeout=3)
    assert ledger.get_run(RunKey("priced", "r1")) is None

    assert client().run("priced", "r1").get(timeout=60) == RESULT


def test_a_run_that_failed_names_the_node_and_the_kind_but_nothing_of_the_error(client) -> None:
    run = client().submit("priced", {"amount": 0}, run_id="r1")

    with pytest.raises(
        RunFailed, match=r"^run r1 of priced ended failed: price failed \(exception\)$"
    ) as caught:
        run.get(timeout=600)

    (failure,) = caught.value.failures
    assert (failure.node, failure.state, failure.kind) == ("price", TaskState.FAILED, "exception")
    assert "zq7marker" not in str(caught.value.status)
    results = run.results()
    assert [(name, result.tag) for name, result in results.items()] == [
        ("price", "failed"),
        ("tell", "skipped"),
    ]
    assert results["price"].error.kind == "exception"


def test_a_run_that_was_stopped_says_so(client, airflow) -> None:
    run = begun(client(), airflow)

    (reply,) = run.stop("tell", reason="enough", wait=0)
    assert (reply.node, reply.became, reply.accepted) == ("tell", "recorded", True)

    with pytest.raises(RunStopped, match="tell stopped"):
        run.get(timeout=60)
    stopped = [row for row in run.history("tell") if row.to_state is TaskState.STOPPED]
    assert [(row.actor, row.reason) for row in stopped] == [("ann", "enough")]


def test_a_pause_is_taken_back_by_a_resume(client, airflow) -> None:
    run = begun(client(), airflow)

    (paused,) = run.pause(wait=0)
    (resumed,) = run.resume(wait=0)

    assert (paused.became, resumed.became) == ("recorded", "taken_back")
    assert run.get(timeout=60) == RESULT
    with pytest.raises(CommandImpossible, match="nothing to pause"):
        run.pause()


def test_a_sink_that_was_skipped_has_no_result(client) -> None:
    run = client().submit("skipped", run_id="r1")

    with pytest.raises(NoResult, match="alone, whose result is the run's, is skipped"):
        run.get(timeout=60)


def test_a_run_that_airflow_ended_is_not_waited_for_for_ever(client, airflow) -> None:
    run = client(idle=True).submit("priced", {"amount": 5}, run_id="r1")
    airflow.rows.show_run(RunKey("priced", "r1"), "failed")

    with pytest.raises(RunFailed, match=r"is over in Airflow \(failed\), and was left unbegun"):
        run.get()


def test_bad_parameters_are_told_in_airflows_words(client) -> None:
    with pytest.raises(Refused, match=r"submit of run r1 of priced: .*'five' is not of type 'integer'"):
        client().submit("priced", {"amount": "five"}, run_id="r1")


def test_an_unknown_dag_and_an_unknown_run_are_named(client) -> None:
    with pytest.raises(NotFound, match="Dag nobody"):
        client().submit("nobody")
    with pytest.raises(NotFound, match="results of run r9 of priced"):
        client().run("priced", "r9").results()


def test_a_viewer_reads_and_does_nothing_else(client) -> None:
    made = client().submit("priced", {"amount": 5}, run_id="r1")
    made.get(timeout=60)
    viewer = client("cid", role="viewer")

    assert viewer.run("priced", "r1").status().over
    for forbidden in (viewer.run("priced", "r1").stop, lambda: viewer.submit("priced", {"amount": 5})):
        with pytest.raises(Forbidden):
            forbidden()


def test_a_stranger_learns_nothing(airflow, ledger) -> None:
    strange = Louver("http://testserver", token="x.y.z", transport=ThroughWeb(airflow.web))

    with pytest.raises((Unauthenticated, Forbidden)):
        strange.run("priced", "r1").status()


def test_a_paused_dag_says_so(client, airflow) -> None:
    airflow.rows.pause("skipped")
    try:
        with pytest.raises(DagPaused, match="airflow dags unpause skipped"):
            client().submit("skipped", run_id="r1")
        run = client(idle=True).submit("skipped", run_id="r1", while_paused=True)
        with pytest.raises(WaitTimeout, match="Airflow has paused the Dag") as caught:
            run.get(timeout=2)
        assert caught.value.status.dag_paused
        assert client().submit("skipped", run_id="r1") == run
    finally:
        airflow.ask("ann", "PATCH", "/dags/skipped", {"is_paused": False})


def begun(louver: Louver, airflow: AirflowByHand) -> RunHandle:
    """A run whose first step has succeeded."""
    run = louver.submit("priced", {"amount": 5}, run_id="r1")
    key = TaskKey("priced", "r1", "price")
    for _ in range(5):
        airflow.pass_time(timedelta(seconds=1))
        airflow.schedule()
        if key in airflow.waiting():
            assert airflow.work(key) == "success"
            return run
    raise AssertionError("it was not scheduled")
