"""Airflow's own exceptions mean in a step what they mean in any task."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from louver.binding import bind
from louver.clock import FixedClock
from louver.definition import Definition, Step
from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey
from louver.lifecycle import Closing, Lifecycle
from louver.liveness import LocalProcesses
from louver.policies import RetryPolicy
from louver.sessions import Claim
from louver.states import Source, TaskState
from louver.steps import StepCalls, run_start
from louver_provider.runtime import request_in

KEY = TaskKey("flow", "r1", "one")


class Quiet:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


def live(error: Exception) -> tuple[Closing, list[str]]:
    """One attempt of a step with retries left that raises ``error``, and what the trail says of its end."""

    def one() -> None:
        raise error

    step = Step(name="one", task="tasks:one", retry=RetryPolicy(max_attempts=3))
    definition = Definition(name="flow", version="1", nodes=[step])
    start = run_start(definition, RunKey("flow", "r1"))
    processes = LocalProcesses()
    claim = Claim(try_number=1, max_tries=4, process=processes.name(), source=Source.WORKER)
    calls = StepCalls(workflow=bind(definition, {"one": one}), start=start, params=lambda _: {})
    with open_ledger("memory://") as ledger:
        lifecycle = Lifecycle(
            ledger=ledger,
            clock=FixedClock(datetime(2026, 3, 1, tzinfo=timezone.utc)),
            liveness=processes,
            log=Quiet(),
            request_in=request_in,
        )
        closing = lifecycle.live(calls.node("one", key=KEY, claim=claim))
        last = ledger.list_transitions(RunKey("flow", "r1"))[-1]
    return closing, [str(last.to_state), last.trigger, str(last.reason)]


def test_a_step_may_skip_itself() -> None:
    closing, trail = live(AirflowSkipException("nothing to do for customer-77"))
    assert closing.state is TaskState.SKIPPED
    assert trail == ["skipped", "task:skip", "AirflowSkipException"]


def test_a_step_may_refuse_to_be_tried_again() -> None:
    closing, trail = live(AirflowFailException("no use for customer-77"))
    assert closing.state is TaskState.FAILED
    assert trail == ["failed", "runtime:error", "AirflowFailException: not to be tried again"]


@pytest.mark.parametrize("error", [AirflowException("x"), ValueError("x")])
def test_any_other_exception_is_a_failure_that_is_tried_again(error: Exception) -> None:
    assert live(error)[0].state is TaskState.RETRY_WAIT
