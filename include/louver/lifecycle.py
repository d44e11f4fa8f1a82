"""
The life of a step, written once: opening and fencing, launching, running, closing.

Airflow's runtime and the embedded engine are its two adapters. What differs between them (how to park, what a
retry is, where the log goes) they do themselves with the :class:`Closing` or :class:`~louver.ports.Parked`
that they get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from louver.clock import Clock
from louver.errors import (
    AttemptsExhausted,
    DefinitionChanged,
    LedgerError,
    LouverError,
    NotRun,
    StepSkipped,
    TaskCancelled,
    TimeoutReached,
    ValueRefused,
    describe,
)
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.ledger.records import RunRecord
from louver.ledger.requests import OpenedTask, RunStart
from louver.observations import Observations
from louver.permits import PermitSettings, StepPermit
from louver.policies import RetryDecision, RetryPolicy, decide_retry
from louver.ports import Interrupted, Liveness, Places, StepLog, StepRuntime, tell_transition
from louver.retry_budgets import RetryBudget
from louver.retrying import draw_on
from louver.sessions import Change, Claim, Entry
from louver.states import TaskState, triggers_between
from louver.supervision import ControlSettings, Supervision
from louver.timeouts import Overrun, Timeouts, running_time

__all__ = ["Body", "Closing", "Ended", "Lifecycle", "TaskCall"]


class Ended(Exception):
    """
    A way to end the task by another transition than success or failure.

    :param change: the transition, still to be recorded.
    :param state: the task's state, where the ledger has recorded it already.
    :param delay: before the next attempt, where there is one.
    """

    def __init__(
        self,
        change: Change | None,
        error: LouverError,
        *,
        state: TaskState | None = None,
        delay: timedelta = timedelta(0),
    ) -> None:
        self.change = change
        self.delay = delay
        self.error = error
        self.state = state if change is None else change.to
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
    :param timeouts: how long it may take.
    :param any_definition: live it even where the definition has changed under the run: what undoes a run
        works from what was recorded.
    :param supervised: people may pause and stop it; not so a task that undoes a run (semantics section 4).
    :param resources: what it shares with others, by name, to units: it waits for a permit where they have
        limits, and its retries draw on their budgets.
    :param priority: who has more goes first at a resource.
    :param fate: asked before the task is opened anew: the change that the workflow's rules make instead of
        running it, or None.
    :param under: asked where the run is under another definition than ``start`` says: the call to live
        instead; None where such a run is refused.
    :param admit: checks whether the run's definition is all right, in place of the plain comparison.
    :param left_out: the run's own definition does not have the task: it is skipped, and keeps nobody waiting.
    """

    key: TaskKey
    start: RunStart
    claim: Claim
    retry: RetryPolicy
    body: Body
    prepare: Callable[[StepRuntime], None] | None = None
    resume: Callable[[StepRuntime], None] | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    any_definition: bool = False
    supervised: bool = True
    resources: Mapping[str, int] = field(default_factory=dict)
    priority: int = 1
    fate: Callable[[Ledger], Change | None] | None = None
    under: Callable[[TaskCall, RunRecord, Ledger], TaskCall] | None = None
    admit: Callable[[StepRuntime], None] | None = None
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """
    How a process left its task.

    :param state: the task's state now.
    :param value: the result, where it succeeded.
    :param error: what went wrong, where something did.
    :param delay: before the next attempt, where there is one.
    :param left_out: as of the call.
    """

    state: TaskState
    value: Any = field(default=None, repr=False)
    error: BaseException | None = None
    delay: timedelta = timedelta(0)
    left_out: bool = False


class Lifecycle:
    """
    Takes tasks through their lives over one ledger.

    :param ledger: where the truth is kept.
    :param clock: the time.
    :param liveness: judges processes.
    :param log: tells people.
    :param control: how closely tasks are supervised.
    :param watch: polls the supervision by a thread while user code runs; None where checkpoints do.
    :param request_in: what user code asks for by an exception of the platform it runs on (to be skipped, not
        to be tried again); None where the exception is no such request.
    :param budgets: retry budgets, by resource (:mod:`louver.retry_budgets`).
    :param places: where attempts may keep files.
    :param permits: limits of resources.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        liveness: Liveness,
        log: StepLog,
        request_in: Callable[[Exception], Change | None] = lambda error: None,
        control: ControlSettings | None = None,
        watch: Callable[[Supervision], AbstractContextManager[None]] | None = None,
        budgets: Mapping[str, RetryBudget] | None = None,
        places: Places | None = None,
        permits: PermitSettings | None = None,
    ) -> None:
        self._budgets = budgets or {}
        self._permits = permits or PermitSettings()
        self._places = places
        self._request_in = request_in
        self._control = control or ControlSettings()
        self._watch = watch
        self._ledger = ledger
        self._clock = clock
        self._liveness = liveness
        self._log = log

    def live(self, call: TaskCall) -> Closing:
        """
        Open the task, run it, close it.

        :raises Superseded: where another process holds the task.
        :raises Parked: where it waits for a person now; the ledger has recorded that.
        :raises Waits: where it waits for a resource now; likewise.
        :raises LedgerError: where the ledger fails; nothing is decided then (row T13).
        """
        run = self._ledger.open_run(call.start, now=self._clock.now())
        if call.under is not None and run.definition_fingerprint != call.start.definition_fingerprint:
            call = call.under(call, run, self._ledger)
        claim = self._with_fate(call)
        opened = self._ledger.open_task(call.key, claim, now=self._clock.now())
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
        supervision = self._supervise(call, opened)
        runtime = StepRuntime(
            ledger=self._ledger,
            token=token,
            clock=self._clock,
            liveness=self._liveness,
            log=self._log,
            supervision=supervision,
            places=self._places,
        )
        permit = StepPermit(runtime, call.resources, priority=call.priority, settings=self._permits)
        try:
            if opened.entry is Entry.RECORDED:
                self._log.tell("result.recorded", "it succeeded before; its recorded result is returned")
                return Closing(state=TaskState.SUCCEEDED, value=self._ledger.load_result(call.key))
            fated = claim.fate is not None and opened.record.state is claim.fate.to
            if opened.entry is Entry.OVER and claim.fate is not None and (fated or opened.transitions):
                not_run = NotRun(claim.fate.reason)
                return Closing(state=opened.record.state, error=not_run, left_out=call.left_out)
            if opened.entry is Entry.OVER:
                error = AttemptsExhausted(
                    f"{call.key} is {opened.record.state} already; clear it to run it again"
                )
                return Closing(state=opened.record.state, error=error, left_out=call.left_out)
            return self._run(call, run, runtime, supervision, opened, permit)
        finally:
            # Also where it is over: the process that ended it may have died before it gave its permit back.
            permit.give_back()

    def _with_fate(self, call: TaskCall) -> Claim:
        if call.fate is None or call.claim.nonce is not None:
            return call.claim
        return replace(call.claim, fate=call.fate(self._ledger))

    def _supervise(self, call: TaskCall, opened: OpenedTask) -> Supervision:
        return Supervision(
            ledger=self._ledger,
            token=opened.token,
            clock=self._clock,
            log=self._log,
            settings=self._control,
            timeouts=call.timeouts,
            ran_before=self._ran_before(call, opened),
            on_overrun=lambda overrun: _overrun(call, overrun, opened.record.failures + 1),
            takes_commands=call.supervised,
            watched=self._watch is not None,
        )

    def _ran_before(self, call: TaskCall, opened: OpenedTask) -> timedelta:
        """Running time of this attempt in earlier sessions: parks end a session and are no running time."""
        # One that waited for a resource may have run before it was paused, and is no resume.
        goes_on = opened.entry is Entry.RESUME or _from_blocked(opened)
        if call.timeouts.attempt is None or not goes_on:
            return timedelta(0)
        key = call.key
        rows = [
            row
            for row in self._ledger.list_transitions(key.run, task_id=key.task_id)
            if row.task == key
            and (row.generation, row.attempt) == (opened.token.generation, opened.token.attempt)
        ]
        return running_time(rows)

    def _run(
        self,
        call: TaskCall,
        run: RunRecord,
        runtime: StepRuntime,
        supervision: Supervision,
        opened: OpenedTask,
        permit: StepPermit,
    ) -> Closing:
        told = supervision.told
        entry, failures = opened.entry, opened.record.failures
        try:
            if entry is Entry.RESUME and call.resume is not None:
                call.resume(runtime)
                told.tell(Change(to=TaskState.STARTING, trigger="scheduler:dispatch"))
            _honour_intentions(supervision)
            if call.admit is not None:
                call.admit(runtime)
            elif not call.any_definition:
                _check_definition(run, call.start)
            if call.prepare is not None:
                call.prepare(runtime)
            permit.take(told)
            told.tell(Change(to=TaskState.RUNNING, trigger="executor:launched"))
            supervision.running()
            with permit.kept_alive(), self._watch(supervision) if self._watch else nullcontext():
                value = _through(call.body, runtime, supervision)
            if supervision.overrun is not None:
                # It was told and went on; what came out too late is no result.
                raise TimeoutReached(str(supervision.overrun), overrun=supervision.overrun)
            closing = self._succeed(runtime, told, value)
            supervision.ended("it finished first")
            return closing
        except Ended as ended:
            if ended.change is None:
                return Closing(state=ended.state or TaskState.FAILED, error=ended.error, delay=ended.delay)
            return self._end(supervision, ended.change, ended.error, delay=ended.delay, certain=True)
        except LedgerError:
            # The ledger failed, or another process took over: this one decides nothing any more.
            raise
        except Interrupted:
            if (end := supervision.stopped()) is not None:
                return Closing(state=end, error=TaskCancelled(f"it was {end} by force"))
            if supervision.overrun is None:
                # Nobody here asked for it: the platform ends the process, and says itself what becomes of it.
                raise
            timeout = TimeoutReached(str(supervision.overrun), overrun=supervision.overrun)
            return self._fail(call, runtime, supervision, timeout, failures + 1)
        except Exception as error:
            if _is_stop(error) and (end := supervision.stopped()) is not None:
                return Closing(state=end, error=error)
            asked = _skip_in(error) or self._request_in(error)
            if asked is not None:
                return self._end(supervision, asked, error)
            return self._fail(call, runtime, supervision, error, failures + 1)

    def _succeed(self, runtime: StepRuntime, told: Observations, value: Any) -> Closing:
        # What downstream steps build on is kept for certain, or the step has not succeeded.
        told.tell_all()
        change = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
        row = self._ledger.complete(runtime.token, change, value, now=self._clock.now())
        tell_transition(self._log, row)
        return Closing(state=TaskState.SUCCEEDED, value=value)

    def _fail(
        self, call: TaskCall, runtime: StepRuntime, supervision: Supervision, error: Exception, failures: int
    ) -> Closing:
        decision = decide_retry(call.retry, error, failures=failures, seed=str(call.key))
        if supervision.stop_requested:
            decision = replace(decision, retry=False, reason="it was being stopped, so it is not tried again")
        budgets = [self._budgets[name] for name in call.resources if name in self._budgets]
        decision = draw_on(budgets, decision, policy=call.retry, runtime=runtime)
        return self._end(supervision, _failure(decision, error), error, delay=decision.delay)

    def _end(
        self,
        supervision: Supervision,
        change: Change,
        error: Exception,
        *,
        delay: timedelta = timedelta(0),
        certain: bool = False,
    ) -> Closing:
        """
        End the task by the change, or confirm a stop that was asked for and goes before it.

        It does wherever the table has no such end of a task that is being stopped: that its time ran out, or
        that it had nothing to do, does not matter any more. An error of its own does.

        :param certain: it is recorded, or the task has not ended.
        """
        legal = change.trigger in triggers_between(TaskState.STOPPING, change.to)
        if not legal and (end := supervision.stopped()) is not None:
            return Closing(state=end, error=error)
        changes = supervision.leading_to(change)
        if certain:
            supervision.told.tell_all(*changes)
        else:
            supervision.told.tell(*changes)
        supervision.ended("it ended first", over=change.to.terminal)
        return Closing(state=change.to, error=error, delay=delay)


def _through(body: Body, runtime: StepRuntime, supervision: Supervision) -> Any:
    """What the body returns or raises, once none of its threads is paused in place."""
    try:
        value = body(runtime)
    except Exception:
        supervision.leave()
        raise
    supervision.leave()
    return value


def _from_blocked(opened: OpenedTask) -> bool:
    return any(row.from_state is TaskState.BLOCKED for row in opened.transitions)


def _honour_intentions(supervision: Supervision) -> None:
    try:
        supervision.honour_intentions()
    except TaskCancelled as error:
        raise Ended(None, error, state=TaskState(error.state)) from None


def _skip_in(error: Exception) -> Change | None:
    if isinstance(error, StepSkipped):
        return Change(to=TaskState.SKIPPED, trigger="task:skip", reason=type(error).__name__)
    return None


def _is_stop(error: BaseException | None) -> bool:
    """Whether it is, or comes of, the exception that a checkpoint raises when a stop is asked for."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, TaskCancelled):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _overrun(call: TaskCall, overrun: Overrun, failures: int) -> Change:
    error = TimeoutReached(f"{overrun}; its process did not react and was killed", overrun=overrun)
    return _failure(decide_retry(call.retry, error, failures=failures, seed=str(call.key)), error)


def _failure(decision: RetryDecision, error: Exception) -> Change:
    cause = describe(error)
    if isinstance(error, ValueRefused):
        cause = f"value refused at {cause}"
    overrun = error.overrun if isinstance(error, TimeoutReached) else None
    return Change(
        to=TaskState.RETRY_WAIT if decision.retry else TaskState.FAILED,
        trigger="runtime:error" if overrun is None else overrun.trigger,
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
