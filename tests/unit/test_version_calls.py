"""Workers with different definitions deployed meet one run, as in a rolling deploy (row O14)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from louver.binding import bind
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.errors import DefinitionChanged
from louver.history import history
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.lifecycle import Closing, Lifecycle
from louver.policies import RetryPolicy
from louver.sessions import Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import StepCalls, run_start
from louver.timeouts import Timeouts
from louver.version_calls import OUTDATED_DELAY

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
DONE: list[str] = []


class Silent:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


class Nobody:
    def proves_dead(self, process: str) -> bool:
        return False


def one(ctx: TaskContext, how: str = "old") -> str:
    DONE.append(f"{ctx.name} {how}")
    return how


def step(name: str, *after: str, **given: Any) -> Step:
    return Step(name=name, task="business:one", after=after, **given)


A, B, C = step("a"), step("b", "a"), step("c", "b")
OLD = Definition(name="work", version="1", nodes=[A, B], on_change="accept_compatible")
LONGER = replace(OLD, version="2", nodes=[A, B, C])


@pytest.fixture(params=["memory://", "sqlite"])
def ledger(request, tmp_path) -> Iterator[Ledger]:
    DONE.clear()
    url = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else request.param
    with open_ledger(url) as opened:
        yield opened


def live(ledger: Ledger, definition: Definition, task: str, *, tries: int = 1, most: int = 2) -> Closing:
    """A worker that has this definition lives the task."""
    calls = StepCalls(
        workflow=bind(definition, {"business:one": one}),
        start=run_start(definition, RUN),
        params=lambda runtime: {},
    )
    claim = Claim(try_number=tries, max_tries=most, process=f"w{definition.version}", source=Source.WORKER)
    life = Lifecycle(ledger=ledger, clock=FixedClock(NOW), liveness=Nobody(), log=Silent())
    return life.live(calls.node(task, key=TaskKey("work", "run-1", task), claim=claim))


def record(ledger: Ledger, task: str) -> Any:
    return ledger.get_task(TaskKey("work", "run-1", task))


def test_a_step_behind_the_last_one_brings_its_definition_along(ledger):
    live(ledger, OLD, "a")
    live(ledger, OLD, "b")

    assert live(ledger, LONGER, "c").state is TaskState.SUCCEEDED

    assert ledger.get_run(RUN).definition_version == "2"
    (accepted,) = ledger.list_acceptances(RUN)
    assert (accepted.task_id, accepted.process) == ("c", "w2")


def test_an_outdated_worker_is_told_to_try_again_and_runs_nothing(ledger):
    live(ledger, OLD, "a")
    live(ledger, LONGER, "b")
    DONE.clear()

    # Somebody has cleared the step.
    closing = live(ledger, OLD, "a", tries=2, most=3)

    assert (closing.state, closing.delay) == (TaskState.RETRY_WAIT, OUTDATED_DELAY)
    assert isinstance(closing.error, DefinitionChanged)
    assert "outdated" in str(closing.error)
    assert DONE == []
    waits = ledger.list_transitions(RUN, task_id="a")[-1]
    assert (waits.from_state, waits.trigger) == (TaskState.STARTING, "runtime:outdated")
    # It counts as no failure of the step, and the worker that comes next does its work.
    assert record(ledger, "a").failures == 0
    assert live(ledger, LONGER, "a", tries=3, most=3).state is TaskState.SUCCEEDED
    assert len(ledger.list_acceptances(RUN)) == 1


def test_an_outdated_worker_that_is_the_last_to_come_stops_the_run_clearly(ledger):
    live(ledger, OLD, "a")
    live(ledger, LONGER, "b")

    closing = live(ledger, OLD, "a", tries=4, most=3)

    assert closing.state is TaskState.FAILED
    assert record(ledger, "a").failure_kind is FailureKind.DEFINITION_CHANGED


def test_deploying_back_and_forth_changes_nothing_more(ledger):
    live(ledger, OLD, "a")
    live(ledger, LONGER, "b")
    before = ledger.get_run(RUN)

    for number in range(3):
        # Cleared each time.
        tries, most = 2 * number + 2, 10 + number
        assert live(ledger, OLD, "a", tries=tries, most=most).state is TaskState.RETRY_WAIT
        assert live(ledger, LONGER, "a", tries=tries + 1, most=most).state is TaskState.SUCCEEDED

    assert ledger.get_run(RUN) == before
    assert len(ledger.list_acceptances(RUN)) == 1


def test_retries_and_timeouts_are_those_of_the_definition_that_the_run_is_under(ledger):
    def flaky(ctx: TaskContext) -> None:
        raise OSError

    patient = replace(OLD, nodes=[A, step("b", "a", retry=RetryPolicy(max_attempts=2))])
    hasty = replace(OLD, version="2", nodes=[A, step("b", "a", timeouts=Timeouts())], on_change="finish_old")
    live(ledger, patient, "a")
    calls = StepCalls(
        workflow=bind(hasty, {"b": flaky, "a": one}), start=run_start(hasty, RUN), params=lambda runtime: {}
    )
    claim = Claim(try_number=1, max_tries=3, process="w", source=Source.WORKER)
    life = Lifecycle(ledger=ledger, clock=FixedClock(NOW), liveness=Nobody(), log=Silent())

    closing = life.live(calls.node("b", key=TaskKey("work", "run-1", "b"), claim=claim))

    assert closing.state is TaskState.RETRY_WAIT


def test_a_step_that_the_run_does_not_have_is_left_out(ledger):
    live(ledger, OLD, "a")

    closing = live(ledger, replace(LONGER, on_change="finish_old"), "c")

    assert (closing.state, closing.left_out) == (TaskState.SKIPPED, True)
    assert record(ledger, "c").state is TaskState.SKIPPED
    assert "has no such step" in ledger.list_transitions(RUN, task_id="c")[-1].reason
    assert DONE == ["a old"]
    # Told again, it is still left out.
    assert live(ledger, replace(LONGER, on_change="finish_old"), "c", tries=2).left_out


def test_the_history_of_the_run_tells_what_was_accepted(ledger):
    live(ledger, OLD, "a")
    live(ledger, LONGER, "b")

    rows = history(ledger.list_transitions(RUN), acceptances=ledger.list_acceptances(RUN))

    (row,) = [row for row in rows if row.trigger == "definition:accepted"]
    assert (row.task_id, row.recorded_by, row.recorded_at) == (None, "worker", NOW)
    assert "2 instead of 1, by b" in row.reason
