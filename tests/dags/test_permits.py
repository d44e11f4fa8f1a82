"""Steps whose resources have limits in a real Airflow: they wait deferred, and come back for their turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from airflow.models.dagrun import DagRun
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from sqlalchemy import delete, select
from support.airflow_by_hand import AirflowByHand, Killed

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.marks import step
from louver.nodes import Step
from louver.semaphores import Stage
from louver.states import TaskState
from louver_provider.dag_builder import build_dag
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings
from louver_provider.triggers.permits import PermitTrigger
from louver_provider.triggers.poller import Poller, look

SECOND = timedelta(seconds=1)

CALLING = Definition(
    name="calling",
    version="1",
    nodes=[Step(name="call", task="tests:call", resources={"payments-api": 1})],
)
PAYING = Definition(
    name="paying",
    version="1",
    nodes=[Step(name="call", task="tests:call", resources={"payments-api": 1}, priority=9)],
)

TAGGED, MARKED = (
    Definition(name=name, version="1", nodes=[Step(name="call", task="tests:call")])
    for name in ("tagged", "marked")
)

LIVING: list[Callable[[], Any]] = []


def call() -> Any:
    """What the step does: what the test says."""
    return LIVING[-1]() if LIVING else "done"


@step(tags=["pays"])
def marked_call() -> Any:
    """The same."""
    return call()


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    # In the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    with (
        time_machine.travel(datetime(2026, 4, 1, 12, tzinfo=timezone.utc), tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        for definition in (CALLING, PAYING):
            by_hand.deploy(build_dag(definition, tasks={"tests:call": call}))
        by_hand.deploy(build_dag(TAGGED, tasks={"tests:call": call}, tags=["pays", "louver"]))
        by_hand.deploy(build_dag(MARKED, tasks={"tests:call": marked_call}))
        yield by_hand


@pytest.fixture(autouse=True)
def limited(airflow: AirflowByHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"payments-api": 1}')
    yield
    LIVING.clear()
    airflow.empty()


def begin(airflow: AirflowByHand, run_id: str, dag_id: str = "calling") -> TaskKey:
    airflow.trigger("ann", RunKey(dag_id, run_id))
    airflow.schedule()
    airflow.schedule()
    return TaskKey(dag_id, run_id, "call")


def inside(airflow: AirflowByHand, *others: TaskKey) -> Callable[[], None]:
    """Code that has others try to get in while it runs."""
    ended: list[str] = []

    def body() -> None:
        LIVING.append(lambda: "done")
        ended.extend(airflow.work(key) for key in others)
        assert ended == ["deferred"] * len(others)

    return body


def shown(airflow: AirflowByHand, key: TaskKey) -> str | None:
    row = airflow.task(key)
    return None if row is None else row.state


def trail(ledger: Ledger, key: TaskKey) -> list[str]:
    return [str(row.to_state) for row in ledger.list_transitions(key.run, task_id="call")]


def fire(airflow: AirflowByHand) -> dict[TaskKey, str]:
    """What a triggerer does once: each trigger is made from its row, and those that fire wake their tasks."""
    keys = {}
    with create_session(scoped=False) as session:
        for row in session.scalars(select(Trigger)):
            if row.task_instance is not None:
                keys[row.id] = PermitTrigger(**row.kwargs).key
    woken = look(ledger_of(), load_settings().permits, list(keys.values()))
    for trigger_id, key in keys.items():
        if key in woken:
            Trigger.submit_event(trigger_id, TriggerEvent({"louver": woken[key]}))
    return woken


def ledger_of() -> Ledger:
    from louver_provider.hooks.ledger import get_ledger

    return get_ledger()


def kill_inside(airflow: AirflowByHand, key: TaskKey) -> None:
    """A worker is killed by SIGKILL while the step's code runs: nothing is given back."""

    def die() -> None:
        raise Killed

    LIVING.append(die)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("louver.permits.StepPermit.give_back", lambda self: None)
        airflow.work_and_die(key)


def test_two_dags_share_one_and_who_waits_is_deferred(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2", "paying")
    LIVING.append(inside(airflow, second))

    assert airflow.work(first) == "success"

    # Its turn came in the transaction in which the first one gave back.
    assert shown(airflow, second) == "deferred"
    assert [permit.stage for permit in ledger.list_permits()] == [Stage.GRANTED]
    assert fire(airflow) == {second: "granted"}
    airflow.schedule()
    assert airflow.work(second) == "success"
    assert trail(ledger, second) == [
        *("queued", "starting", "blocked"),
        *("queued", "starting", "running", "succeeded"),
    ]
    assert ledger.list_permits() == []
    attempts = {row.attempt for row in ledger.list_transitions(second.run, task_id="call")[1:]}
    assert attempts == {1}


def test_nothing_is_kept_in_kwargs(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    LIVING.append(inside(airflow, second))
    airflow.work(first)

    row = airflow.task(second)
    assert row is not None
    assert row.next_method == "louver_enter"
    assert not row.next_kwargs


def test_who_waits_is_served_by_priority_and_then_in_order(airflow: AirflowByHand, ledger: Ledger) -> None:
    keys = [begin(airflow, f"run-{number}") for number in range(3)]
    urgent = begin(airflow, "run-9", "paying")
    LIVING.append(inside(airflow, *keys[1:], urgent))
    airflow.work(keys[0])

    order = []
    while woken := fire(airflow):
        order += list(woken)
        airflow.schedule()
        assert [airflow.work(key) for key in woken] == ["success"]

    assert order == [urgent, *keys[1:]]


def test_what_a_killed_process_held_is_free_when_its_death_is_proven(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert airflow.work(second) == "deferred"
    assert fire(airflow) == {}

    reconciler = Reconciler(ledger, load_settings())
    list(reconciler.round())
    assert fire(airflow) == {}
    monkeypatch.setattr("louver.liveness.LocalProcesses.proves_dead", lambda self, process: True)
    list(Reconciler(ledger, load_settings()).round())

    assert fire(airflow) == {second: "granted"}


def test_what_a_killed_process_held_is_free_when_its_lease_is_over(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert airflow.work(second) == "deferred"

    airflow.pass_time(59 * SECOND)
    assert fire(airflow) == {}
    airflow.pass_time(SECOND)
    assert fire(airflow) == {second: "granted"}


def test_what_a_process_held_that_died_when_it_had_succeeded_is_given_back_by_the_next(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")

    def die(permit: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("louver.permits.StepPermit.give_back", die)
        airflow.work_and_die(first)
    assert airflow.work(second) == "deferred"
    airflow.schedule()
    airflow.pass_time(40 * SECOND)  # less than its lease
    airflow.schedule()
    airflow.schedule()

    assert airflow.work(first) == "success"

    assert trail(ledger, first).count("running") == 1
    assert fire(airflow) == {second: "granted"}


def test_a_clear_keeps_the_place_of_one_that_waits(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second, third = (begin(airflow, f"run-{number}") for number in range(3))
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert [airflow.work(key) for key in (second, third)] == ["deferred"] * 2

    body = {"dag_run_id": "run-1", "task_ids": ["call"], "dry_run": False, "only_failed": False}
    assert airflow.ask("ann", "POST", "/dags/calling/clearTaskInstances", body).status_code == 200
    airflow.pass_time(60 * SECOND)
    fire(airflow)
    assert [permit.stage for permit in ledger.list_permits()] == [Stage.GRANTED, Stage.WAITING]
    airflow.schedule()
    airflow.schedule()

    assert airflow.work(second) == "success"
    assert fire(airflow)[third] == "granted"


def test_the_place_of_a_run_that_is_deleted_is_given_up(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second, third = (begin(airflow, f"run-{number}") for number in range(3))
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert [airflow.work(key) for key in (second, third)] == ["deferred"] * 2

    # As `airflow dags delete` does; the API refuses to delete a run that goes on.
    with create_session(scoped=False) as session:
        session.execute(delete(DagRun).where(DagRun.run_id == "run-1"))
    for _ in range(3):
        list(Reconciler(ledger, load_settings()).round())

    assert [permit.run_id for permit in ledger.list_permits()] == ["run-0", "run-2"]


@pytest.mark.parametrize("dag_id", ["tagged", "marked"])
def test_a_tag_of_the_dag_or_of_the_step_implies_a_resource(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, dag_id: str
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCE_TAGS", "pays=payments-api:1, other=licence")
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2", dag_id)
    LIVING.append(inside(airflow, second))

    assert airflow.work(first) == "success"

    assert fire(airflow) == {second: "granted"}
    airflow.schedule()
    assert airflow.work(second) == "success"
    assert ledger.list_permits() == []


def test_without_a_triggerer_the_reconciler_wakes(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second, third = (begin(airflow, f"run-{number}") for number in range(3))
    LIVING.append(inside(airflow, second, third))
    airflow.work(first)

    list(Reconciler(ledger, load_settings()).round())
    assert shown(airflow, second) == "deferred"  # it was only just deferred: triggerers first
    airflow.pass_time(10 * SECOND)
    list(Reconciler(ledger, load_settings(), dry_run=True).round())
    assert shown(airflow, second) == "deferred"
    list(Reconciler(ledger, load_settings()).round())

    assert [shown(airflow, key) for key in (second, third)] == ["scheduled", "deferred"]
    airflow.schedule()
    assert airflow.work(second) == "success"


def test_a_turn_that_nobody_takes_passes_on(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second, third = (begin(airflow, f"run-{number}") for number in range(3))
    LIVING.append(inside(airflow, second, third))
    airflow.work(first)
    assert fire(airflow) == {second: "granted"}

    # It is back in the queue of its pool, and no slot is free there for all of its turn.
    airflow.pass_time(120 * SECOND)
    assert fire(airflow) == {third: "granted"}
    airflow.schedule()
    LIVING.append(inside(airflow, second))
    assert airflow.work(third) == "success"
    assert fire(airflow) == {second: "granted"}
    airflow.schedule()
    assert airflow.work(second) == "success"


def test_a_stop_reaches_one_that_waits(
    airflow: AirflowByHand, ledger: Ledger, louver: Callable[..., tuple[int, str, str]]
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert airflow.work(second) == "deferred"

    code, _, err = louver("stop", "run-2", "call", "--reason", "not today", "--timeout", "0")
    assert code == 0, err
    assert fire(airflow) == {second: "asked"}
    airflow.schedule()

    assert airflow.work(second) == "failed"
    record = ledger.get_task(second)
    assert record is not None
    assert record.state is TaskState.STOPPED
    assert [permit.run_id for permit in ledger.list_permits()] == ["run-1"]


def test_a_pause_parks_one_that_waits_and_a_resume_puts_it_back_in_the_line(
    airflow: AirflowByHand, ledger: Ledger, louver: Callable[..., tuple[int, str, str]]
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert airflow.work(second) == "deferred"

    louver("pause", "run-2", "call", "--timeout", "0")
    assert fire(airflow) == {second: "asked"}
    airflow.schedule()
    assert airflow.work(second) == "awaiting_input"
    assert [permit.run_id for permit in ledger.list_permits()] == ["run-1"]

    airflow.pass_time(40 * SECOND)
    airflow.schedule()
    code, _, err = louver("resume", "run-2", "call", "--timeout", "0")
    assert code == 0, err
    airflow.schedule()
    assert airflow.work(second) == "deferred"
    airflow.pass_time(30 * SECOND)
    assert fire(airflow) == {second: "granted"}
    airflow.schedule()
    assert airflow.work(second) == "success"
    assert trail(ledger, second)[2:8] == ["blocked", "queued", "starting", "paused", "queued", "starting"]


def test_the_place_of_a_run_that_is_over_is_given_up(airflow: AirflowByHand, ledger: Ledger) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    assert airflow.work(second) == "deferred"

    done = airflow.ask("ann", "PATCH", "/dags/calling/dagRuns/run-2", {"state": "failed"})
    assert done.status_code == 200, done.text
    for _ in range(3):
        list(Reconciler(ledger, load_settings()).round())

    assert [permit.run_id for permit in ledger.list_permits()] == ["run-1"]


def test_a_need_larger_than_the_limit_fails_clearly(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"payments-api": {"rate": "1/s", "limit": 5}}')
    ledger.settle_permits(
        limits=load_settings().permits.limits,
        terms=load_settings().permits.terms,
        now=datetime.now(timezone.utc),
    )
    two = Definition(
        name="greedy",
        version="1",
        nodes=[Step(name="call", task="tests:call", resources={"payments-api": 2})],
    )
    airflow.deploy(build_dag(two, tasks={"tests:call": call}))
    key = begin(airflow, "run-1", "greedy")

    assert airflow.work(key) == "failed"

    last = ledger.list_transitions(key.run, task_id="call")[-1]
    assert "it needs 2 of payments-api, whose rate is 1/s" in str(last.reason)


def test_status_says_what_a_step_waits_for(
    airflow: AirflowByHand, ledger: Ledger, louver: Callable[..., tuple[int, str, str]]
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    kill_inside(airflow, first)
    LIVING.append(lambda: "done")
    airflow.work(second)

    code, out, err = louver("status", "run-2", "--output", "json")

    assert (code, err) == (0, "")
    (step,) = json.loads(out)[0]["steps"]
    assert (step["state"], step["reason"]) == ("blocked", "waits for 1 of payments-api")


def test_the_history_tells_of_waiting(
    airflow: AirflowByHand, ledger: Ledger, rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    LIVING.append(inside(airflow, second))
    airflow.work(first)
    fire(airflow)
    airflow.schedule()
    airflow.work(second)

    told = [(row["from"], row["to"], row["trigger"]) for row in rows_of("history", "run-2", "call")]

    assert ("starting", "blocked", "resource:waiting") in told
    assert [to for _, to, _ in told][-4:] == ["queued", "starting", "running", "succeeded"]


# The trigger and its poller


def test_a_trigger_comes_back_from_its_row_as_it_was() -> None:
    path, names = PermitTrigger(dag_id="d", run_id="r", task="t", map_index=3).serialize()
    assert path == "louver_provider.triggers.permits.PermitTrigger"
    assert PermitTrigger(**names).key == TaskKey("d", "r", "t", 3)


def test_a_trigger_fires_when_the_ledger_says_so(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESUME_GUARD", "0")
    first, second = begin(airflow, "run-1"), begin(airflow, "run-2")
    LIVING.append(inside(airflow, second))
    airflow.work(first)

    async def once() -> Any:
        trigger = PermitTrigger(dag_id="calling", run_id="run-2", task="call", map_index=-1)
        async for event in trigger.run():
            return event.payload
        return None

    assert asyncio.run(once()) == {"louver": "granted"}


def test_one_question_serves_all_that_wait_and_a_trouble_ends_nothing() -> None:
    asked: list[list[TaskKey]] = []
    answers: list[Any] = [OSError(), {}, {"a": "granted", "b": "asked"}]
    keys = {name: TaskKey("d", name, "t") for name in "ab"}

    def look_once(wanted: list[TaskKey]) -> dict[TaskKey, str]:
        asked.append(wanted)
        answer = answers[min(len(asked) - 1, 2)]
        if isinstance(answer, Exception):
            raise answer
        return {keys[name]: why for name, why in answer.items()}

    async def both() -> list[str]:
        poller = Poller(look_once, every=lambda: 0.01, pause=0.01)
        return list(await asyncio.gather(*(poller.wait_for(key) for key in keys.values())))

    assert asyncio.run(both()) == ["granted", "asked"]
    assert asked[-1] == list(keys.values())


def test_however_many_wait_each_is_looked_at(ledger: Ledger) -> None:
    keys = [TaskKey("calling", f"run-{number}", "call") for number in range(450)]
    # Nobody has a place for them, so all have something to do: to ask again.
    assert look(ledger, load_settings().permits, keys) == dict.fromkeys(keys, "left out")
