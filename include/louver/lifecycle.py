"""
The life of a step, written once: opening and fencing, launching, running, closing.

Airflow's runtime and the embedded engine are its two adapters. What differs between them (how to park, what a
retry is, where the log goes) they do themselves with the :class:`Closing` or :class:`~louver.ports.Parked`
that they get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from louver.clock import Clock
from louver.errors import (
    AttemptsExhausted,
    DefinitionChanged,
    LedgerError,
    LouverError,
    ValueRefused,
    describe,
)
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.ledger.records import RunRecord
from louver.ledger.requests import RunStart
from louver.observations import Observations
from louver.policies import RetryDecision, RetryPolicy, decide_retry
from louver.ports import Liveness, StepLog, StepRuntime, tell_transition
from louver.sessions import Change, Claim, Entry
from louver.states import TaskState

__all__ = ["Body", "Closing", "Ended", "Lifecycle", "TaskCall"]


class Ended(Exception):
    """A body's way to end its task by another transition than success or failure."""

    def __init__(self, change: Change, error: LouverError) -> None:
        self.change = change
        self.error = error
        super().__init__(str(error))


Body = Callable[[StepRuntime], Any]
"""What a task does between ``running`` and its end; returns a typed value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """
    One process asked to live one task.

    :param start: the run it belongs to, as this process knows it.
    :param prepare: checks made before ``running``; what it raises fails the task.
    :param resume: on a resume from a park, decides how to go on: None to run ``body`` again, or raises
        :class:`Ended`.
    :param body: the work.
    :param any_definition: live it even where the definition has changed under the run: what undoes a run
        works from what was recorded.
    """

    key: TaskKey
    start: RunStart
    claim: Claim
    retry: RetryPolicy
    body: Body
    prepare: Callable[[StepRuntime], None] | None = None
    resume: Callable[[StepRuntime], None] | None = None
    any_definition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """
    How a process left its task.

    :param state: the task's state now.
    :param value: the result, where it succeeded.
    :param error: what went wrong, where something did.
    :param delay: before the next attempt, where there is one.
    """

    state: TaskState
    value: Any = field(default=None, repr=False)
    error: BaseException | None = None
    delay: timedelta = timedelta(0)


class Lifecycle:
    """
    Takes tasks through their lives over one ledger.

    :param ledger: where the truth is kept.
    :param clock: the time.
    :param liveness: judges processes.
    :param log: tells people.
    :param request_in: what user code asks for by an exception of the platform it runs on (to be skipped, not
        to be tried again); None where the exception is no such request.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        liveness: Liveness,
        log: StepLog,
        request_in: Callable[[Exception], Change | None] = lambda error: None,
    ) -> None:
        self._request_in = request_in
        self._ledger = ledger
        self._clock = clock
        self._liveness = liveness
        self._log = log

    def live(self, call: TaskCall) -> Closing:
        """
        Open the task, run it, close it.

        :raises Superseded: where another process holds the task.
        :raises Parked: where it waits for a person now; the ledger has recorded that.
        :raises LedgerError: where the ledger fails; nothing is decided then (row T13).
        """
        run = self._ledger.open_run(call.start, now=self._clock.now())
        opened = self._ledger.open_task(call.key, call.claim, now=self._clock.now())
        token = opened.token
        for row in opened.transitions:
            tell_transition(self._log, row)
        self._log.tell(
            "session.opened",
            "generation %s, attempt %s, session %s, try %s",
            token.generation,
            token.attempt,
            token.session,
            token.try_number,
        )
        runtime = StepRuntime(
            ledger=self._ledger, token=token, clock=self._clock, liveness=self._liveness, log=self._log
        )
        if opened.entry is Entry.RECORDED:
            self._log.tell("result.recorded", "it succeeded before; its recorded result is returned")
            return Closing(state=TaskState.SUCCEEDED, value=self._ledger.load_result(call.key))
        if opened.entry is Entry.OVER:
            error = AttemptsExhausted(
                f"{call.key} is {opened.record.state} already; clear it to run it again"
            )
            return Closing(state=opened.record.state, error=error)
        return self._run(call, run, runtime, opened.entry, opened.record.failures)

    def _run(
        self, call: TaskCall, run: RunRecord, runtime: StepRuntime, entry: Entry, failures: int
    ) -> Closing:
        told = Observations(runtime)
        try:
            if entry is Entry.RESUME and call.resume is not None:
                call.resume(runtime)
                told.tell(Change(to=TaskState.STARTING, trigger="scheduler:dispatch"))
            if not call.any_definition:
                _check_definition(run, call.start)
            if call.prepare is not None:
                call.prepare(runtime)
            told.tell(Change(to=TaskState.RUNNING, trigger="executor:launched"))
            value = call.body(runtime)
            return self._succeed(runtime, told, value)
        except Ended as ended:
            told.tell_all(ended.change)
            return Closing(state=ended.change.to, error=ended.error)
        except LedgerError:
            # The ledger failed, or another process took over: this one decides nothing any more.
            raise
        except Exception as error:
            asked = self._request_in(error)
            if asked is not None:
                told.tell(asked)
                return Closing(state=asked.to, error=error)
            return _fail(call, told, error, failures + 1)

    def _succeed(self, runtime: StepRuntime, told: Observations, value: Any) -> Closing:
        # What downstream steps build on is kept for certain, or the step has not succeeded.
        told.tell_all()
        change = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
        row = self._ledger.complete(runtime.token, change, value, now=self._clock.now())
        tell_transition(self._log, row)
        return Closing(state=TaskState.SUCCEEDED, value=value)


def _fail(call: TaskCall, told: Observations, error: Exception, failures: int) -> Closing:
    decision = decide_retry(call.retry, error, failures=failures)
    change = _failure(decision, error)
    told.tell(change)
    return Closing(state=change.to, error=error, delay=decision.delay)


def _failure(decision: RetryDecision, error: Exception) -> Change:
    cause = describe(error)
    if isinstance(error, ValueRefused):
        cause = f"value refused at {cause}"
    return Change(
        to=TaskState.RETRY_WAIT if decision.retry else TaskState.FAILED,
        trigger="runtime:error",
        reason=f"{decision.kind}: {cause}; {decision.reason}",
        failure_kind=decision.kind,
    )


def _check_definition(run: RunRecord, start: RunStart) -> None:
    """A run keeps the rules it began with; another definition stops it clearly (row O14)."""
    if run.definition_fingerprint != start.definition_fingerprint:
        raise DefinitionChanged(
            f"run {run.run_id} began under {run.definition_name} {run.definition_version} "
            f"({run.definition_fingerprint[:12]}); now it is {start.definition_version} "
            f"({start.definition_fingerprint[:12]}). Start a new run, or bring the old definition back"
        )
