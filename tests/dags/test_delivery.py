"""Waking a parked task, over Airflow's real tables and a real ledger; no scheduler is at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select
from support.airflow_rows import AirflowRows

from louver.approvals import OPTIONS
from louver.definition import Definition
from louver.ledger.names import CommandState, RunKey, TaskKey, Verb
from louver.ledger.records import CommandRecord
from louver.nodes import Step
from louver.states import Source
from louver_provider.api.answers import judge_pause
from louver_provider.dag_builder import build_dag
from louver_provider.delivery import Delivery, wake
from louver_provider.pause_form import PAUSE_OPTIONS
from louver_provider.turns import Turn

NOW = datetime.now(timezone.utc)
RUN = RunKey("woken", "r1")
KEY = TaskKey("woken", "r1", "one")
PARKED = {"updated_at": NOW - timedelta(minutes=5)}


pytestmark = pytest.mark.usefixtures("ledger")


def work() -> None:
    """What a step does."""


@pytest.fixture(scope="module")
def tables() -> AirflowRows:
    rows = AirflowRows()
    definition = Definition(name="woken", version="1", nodes=[Step(name="one", task="tests:work")])
    rows.deploy(build_dag(definition, tasks={"tests:work": work}))
    return rows


@pytest.fixture
def rows(tables: AirflowRows) -> Iterator[AirflowRows]:
    tables.run(RUN)
    yield tables
    tables.clear()


def asked(
    rows: AirflowRows, *, options: Any = PAUSE_OPTIONS, answer: str | None = None, **columns: Any
) -> None:
    """The task is parked, for long enough, and asks."""
    rows.ask(KEY, options=list(options), answer=answer, now=NOW)
    rows.show(KEY, "awaiting_input", **{**PARKED, **columns})


def resume(*, by: str | None = "ann") -> Delivery:
    return wake(KEY, Verb.RESUME, by=by, source=Source.CLI, now=NOW)


def answer() -> HITLDetail:
    with create_session(scoped=False) as session:
        found = session.scalars(
            select(HITLDetail).join(TaskInstance, TaskInstance.id == HITLDetail.ti_id).filter_by(run_id="r1")
        ).one()
        session.expunge_all()
    return found


def test_a_parked_task_is_woken_by_an_answer_in_the_name_of_who_wants_it(rows: AirflowRows) -> None:
    asked(rows, next_method="louver_resume", next_kwargs={"nonce": "pause-1"})

    assert resume() == Delivery(woken=True)

    given, ti = answer(), rows.row(KEY)
    assert (given.chosen_options, given.responded_by) == (["Resume"], {"id": "ann", "name": "ann"})
    assert given.responded_at == NOW
    assert (ti.state, ti.next_method) == ("scheduled", "louver_resume")
    assert ti.next_kwargs["nonce"] == "pause-1"
    assert ti.next_kwargs["event"]["chosen_options"] == ["Resume"]


def test_without_a_person_the_answer_has_none(rows: AirflowRows) -> None:
    asked(rows)
    assert resume(by=None).woken
    assert answer().responded_by is None


def test_a_task_that_is_awake_is_left_alone(rows: AirflowRows) -> None:
    asked(rows)
    assert resume().woken
    first = answer()

    second = resume(by="bob")

    assert (second.woken, second.retry_after is not None) == (False, True)
    assert answer().responded_by == first.responded_by
    assert rows.row(KEY).state == "scheduled"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"state": "running"}, "about to wait"),
        ({"state": "awaiting_input", "updated_at": NOW - timedelta(seconds=1)}, "only just parked"),
        ({"state": "awaiting_input", "updated_at": NOW - timedelta(seconds=5)}, "just ending"),
    ],
)
def test_before_the_park_has_settled_it_is_told_when_to_come_again(
    rows: AirflowRows, columns: dict[str, Any], why: str
) -> None:
    asked(rows)
    rows.show(KEY, **columns)

    early = resume()

    assert (early.woken, why in early.why) == (False, True)
    assert (early.retry_after or 0) > 0
    assert answer().responded_at is None
    assert rows.row(KEY).state == columns["state"]


@pytest.mark.parametrize("state", ["success", "failed", "skipped", None])
def test_what_waits_for_nobody_is_not_woken(rows: AirflowRows, state: str | None) -> None:
    asked(rows)
    rows.show(KEY, state, **PARKED)
    assert (resume().woken, resume().retry_after) == (False, None)
    assert rows.row(KEY).state == state


def test_a_task_that_airflow_does_not_have_is_not_woken(rows: AirflowRows) -> None:
    unknown = wake(TaskKey("woken", "r1", "none"), Verb.RESUME, by="ann", source=Source.CLI, now=NOW)
    assert (unknown.woken, unknown.retry_after) == (False, None)


def test_an_answer_that_was_recorded_and_stuck_is_passed_on_as_it_was_given(rows: AirflowRows) -> None:
    asked(rows, answer="Stop")

    assert resume().woken

    assert answer().chosen_options == ["Stop"]
    assert rows.row(KEY).next_kwargs["event"]["chosen_options"] == ["Stop"]


def test_an_approval_is_not_resumed_and_can_be_stopped(rows: AirflowRows) -> None:
    asked(rows, options=OPTIONS)
    assert not resume().woken
    assert answer().responded_at is None

    assert wake(KEY, Verb.STOP, by="ann", source=Source.CLI, now=NOW).woken

    assert answer().chosen_options == ["Stop"]


@pytest.mark.parametrize("options", [PAUSE_OPTIONS, OPTIONS])
def test_one_that_is_cancelled_is_woken_whatever_it_waits_for(rows: AirflowRows, options: Any) -> None:
    asked(rows, options=options)
    assert wake(KEY, Verb.CANCEL, by="louver", source=Source.RECONCILER, now=NOW) == Delivery(woken=True)
    assert answer().chosen_options == ["Stop"]


def test_of_many_at_once_one_wakes_it(rows: AirflowRows) -> None:
    asked(rows)
    start, done = threading.Barrier(8), []

    def at_once(number: int) -> None:
        start.wait()
        done.append((resume(by=f"person-{number}").woken, number))

    threads = [threading.Thread(target=at_once, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [number for woken, number in done if woken]
    assert answer().responded_by == {"id": f"person-{winner}", "name": f"person-{winner}"}
    assert rows.row(KEY).state == "scheduled"


def test_one_has_the_turn_at_a_time() -> None:
    assert Turn.needed()
    mine, yours = Turn(), Turn()
    assert mine.take()
    assert not yours.take(patience=0)
    mine.give()
    assert yours.take()
    yours.give()
    yours.give()


def test_only_an_answer_to_the_pause_that_was_reached_is_one(command: Any) -> None:
    reached = command("p1", outcome="paused, slot given back", closed_at=NOW)
    later = command("p2", outcome=None, closed_at=None)
    body = b'{"chosen_options": ["Resume"], "params_input": {"request_id": "%s"}}'

    assert judge_pause(body % b"p1", [reached, later]) is None
    assert getattr(judge_pause(body % b"p0", [reached, later]), "status", None) == 409
    assert getattr(judge_pause(b'{"chosen_options": ["Approve"]}', [reached]), "status", None) == 400
    assert judge_pause(b'{"chosen_options": ["Stop"]}', [reached]) is None


@pytest.fixture
def command() -> Any:
    def make(command_id: str, *, outcome: str | None, closed_at: datetime | None) -> CommandRecord:
        return CommandRecord(
            command_id=command_id,
            dag_id=KEY.dag_id,
            run_id=KEY.run_id,
            task_id=KEY.task_id,
            map_index=-1,
            generation=1,
            verb=Verb.PAUSE,
            actor="ann",
            reason=None,
            source=Source.CLI,
            sent_at=NOW - timedelta(minutes=6),
            state=CommandState.PENDING if closed_at is None else CommandState.DONE,
            outcome=outcome,
            closed_at=closed_at,
        )

    return make
