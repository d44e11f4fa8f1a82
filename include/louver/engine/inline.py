"""
A whole run in the calling thread, one step after the other.

It has no loop of its own that waits: where the run is parked it returns, and is called again once the
request is decided on the ledger.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from louver.artifacts import Artifacts, own_artifacts
from louver.binding import Workflow, bind
from louver.cascade import cascade, never_began
from louver.clock import Clock, SystemClock
from louver.closing import COMPENSATE, RunOverview, close_run, compensate_call, overview
from louver.control import ENDING, is_pause, open_commands
from louver.definition import Definition, Node
from louver.errors import AttemptsExhausted, ConfigurationError, DefinitionChanged
from louver.evaluation import Evaluation
from louver.events import EventSink
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey, TaskKey, Token, Verb
from louver.ledger.records import ApprovalRecord, RunRecord, TaskRecord
from louver.lifecycle import Closing, Lifecycle
from louver.liveness import LocalProcesses
from louver.permits import PermitSettings
from louver.ports import Parked, Places, Waits
from louver.results import RunResults
from louver.retry_budgets import RetryBudget
from louver.semaphores import ResourceLimit
from louver.sessions import Claim
from louver.states import RunState, Source, TaskState
from louver.steps import StepCalls, run_start
from louver.supervision import ControlSettings
from louver.version_calls import decide_for_run
from louver.versions import Verdict

__all__ = ["RunResult", "run_inline"]

log = logging.getLogger(__name__)

_LEVELS = {"log.warning": logging.WARNING, "log.error": logging.ERROR}
"""Of what a step says itself; all that is told of its life is an information."""

_PROCESSES = LocalProcesses()
_NO_RETRIES = 0
_UNSTARTED = (TaskState.PENDING, TaskState.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """
    How a call of :func:`run_inline` left the run.

    :param run_id: the run; give it again to go on.
    :param state: the run's state.
    :param states: node name to state.
    :param value: the sink's result, where the run succeeded.
    :param waiting: requests that must be decided before the run can go on.
    :param paused: nodes that a person paused; a resume lets them go on in the next call.
    :param errors: node name to what went wrong in this call.
    """

    run_id: str
    state: RunState
    states: Mapping[str, TaskState]
    value: Any = field(default=None, repr=False)
    waiting: tuple[ApprovalRecord, ...] = ()
    paused: tuple[str, ...] = ()
    errors: Mapping[str, BaseException] = field(default_factory=dict)


class _Log:
    """The embedded log: the logger of this module, with the stable action beside the text."""

    def __init__(self, key: TaskKey) -> None:
        self._key = key

    def tell(self, action: str, message: str, *args: object) -> None:
        line = f"%s: {message}"
        log.log(_LEVELS.get(action, logging.INFO), line, self._key, *args, extra={"action": action})


def run_inline(
    definition: Definition,
    tasks: Mapping[str, Callable[..., Any]] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    ledger: Ledger | None = None,
    clock: Clock | None = None,
    run_id: str | None = None,
    requester: str | None = None,
    control: ControlSettings | None = None,
    retry_budgets: Mapping[str, RetryBudget] | None = None,
    resources: Mapping[str, ResourceLimit] | PermitSettings | None = None,
    artifact_dir: Path | None = None,
    events: EventSink | None = None,
) -> RunResult:
    """
    Run the workflow as far as it goes.

    :param definition: the workflow.
    :param tasks: functions by ``package.module:function`` or by node name; what is missing is imported.
    :param params: the run's parameters, all of them, of typed values.
    :param ledger: where the run is kept; by default one in memory that ends with this call.
    :param clock: the time; retries wait by it.
    :param run_id: a new run, or one to go on with. By default a new one.
    :param requester: who started it, for four-eyes approvals.
    :param control: how closely steps look at what people want of them (:func:`louver.control.send`).
    :param retry_budgets: by resource, as :func:`louver.retry_budgets.parse_retry_budgets` reads them; they
        are counted in the ledger, so over everybody who shares it.
    :param resources: limits by resource, as :func:`louver.semaphores.parse_resources` reads them, or those
        with their times. A step that has to wait does so here, by ``clock``.
    :param artifact_dir: absolute; where steps keep files (``ctx.artifact_dir``). By default one for this user
        in the temporary directory.
    :param events: is told of all that happens, where the ledger is this call's own. A ledger that is given is
        opened with a sink instead (:func:`louver.ledger.open_ledger`).
    :returns: also where the run is parked: then ``waiting`` holds what to decide, with
        ``ledger.decide_approval``, before the next call.
    :raises DefinitionError: where functions and definition do not fit.
    :raises ConfigurationError: for parameters that the workflow does not have, or lacks.
    :raises DefinitionChanged: where the run has gone on to a later definition than this one (row O14).
    """
    workflow = bind(definition, tasks)
    given = dict(params or {})
    if set(given) != set(definition.params):
        raise ConfigurationError(
            f"{definition.name} takes the parameters {sorted(definition.params)}, not {sorted(given)}"
        )
    key = RunKey(definition.name, run_id or f"inline-{secrets.token_hex(8)}")
    surroundings = _Surroundings(
        clock=clock or SystemClock(),
        control=control,
        retry_budgets=retry_budgets or {},
        permits=resources
        if isinstance(resources, PermitSettings)
        else PermitSettings(limits=resources or {}),
        places=_OwnPlaces() if artifact_dir is None else Artifacts(base=Path(artifact_dir)),
    )
    if ledger is not None:
        if events is not None:
            raise ConfigurationError("the ledger tells of events: give the sink to open_ledger(events=)")
        return _InlineRun(workflow, given, ledger, surroundings, key, requester).run()
    with open_ledger("memory://", events=events) as own:
        return _InlineRun(workflow, given, own, surroundings, key, requester).run()


class _OwnPlaces:
    """Found only when a step asks for one, so that nobody else can fail for it."""

    def make(self, token: Token) -> Path:
        return own_artifacts().make(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
    """What the steps of a run live in, beside the ledger."""

    clock: Clock
    control: ControlSettings | None
    retry_budgets: Mapping[str, RetryBudget]
    permits: PermitSettings
    places: Places


class _InlineRun:
    def __init__(
        self,
        workflow: Workflow,
        params: Mapping[str, Any],
        ledger: Ledger,
        surroundings: _Surroundings,
        key: RunKey,
        requester: str | None,
    ) -> None:
        self._surroundings = surroundings
        self._definition = workflow.definition
        self._ledger = ledger
        self._clock = surroundings.clock
        self._key = key
        self._start = run_start(workflow.definition, key, requester=requester)
        self._calls = StepCalls(workflow=workflow, start=self._start, params=lambda _: params)
        self._errors: dict[str, BaseException] = {}

    def run(self) -> RunResult:
        run = self._ledger.open_run(self._start, now=self._clock.now())
        if run.definition_fingerprint != self._start.definition_fingerprint:
            self._definition = self._in_force(run)
        with _PROCESSES.call() as process:
            fast = self._definition.aggregation == "fail_fast"
            while tasks := self._next_tasks():
                for key in tasks:
                    ended = self._step(key, process)
                    if fast and ended not in (TaskState.SUCCEEDED, TaskState.SKIPPED):
                        # Whether the others of this round still may start is to be seen anew.
                        break
            seen = overview(self._key, self._ledger)
            forward = seen.evaluation.forward
            if forward.terminal and not forward.success:
                self._live_compensation(process)
        if forward.terminal:
            self._tell_of_what_never_began(seen.definition)
            seen = close_run(self._key, self._ledger, now=self._clock.now())
        else:
            self._ledger.set_run_state(self._key, seen.state, reason=None, now=self._clock.now())
        return RunResult(
            run_id=self._key.run_id,
            state=seen.state,
            states=seen.evaluation.states,
            value=self._value(seen),
            waiting=self._waiting(),
            paused=tuple(
                dict.fromkeys(key.task_id for key, record in self._records().items() if is_pause(record))
            ),
            errors=self._errors,
        )

    def _tell_of_what_never_began(self, definition: Definition) -> None:
        """So that who looks at the run's steps alone, as cleaning does, sees that all of them are over."""
        results = RunResults(definition, self._key, self._ledger, strict=False)
        for key, change in never_began(results):
            record = results.tasks.get(key)
            session = 0 if record is None else record.session
            self._ledger.mark(key, change, session=session, source=Source.ENGINE, now=self._clock.now())

    def _in_force(self, run: RunRecord) -> Definition:
        """The definition that the run goes by, or would; where it is refused, each of its steps says so."""
        old, decision = decide_for_run(run, self._definition, self._ledger)
        if decision.verdict is Verdict.OUTDATED:
            raise DefinitionChanged(f"this process is outdated: {decision.reason}")
        return old if decision.verdict is Verdict.KEEP_OLD else self._definition

    def _next_tasks(self) -> list[TaskKey]:
        """Tasks that can do something now: ready, answered, or left behind by a call that died."""
        # Also what failed in a call that died before it could cancel the others.
        cascade(self._definition, self._key, self._ledger, source=Source.ENGINE, now=self._clock.now())
        results = RunResults(self._definition, self._key, self._ledger)
        found = []
        for node in self._definition.nodes:
            count = results.counts.get(node.name, 0)
            may_start = self._may_start(node, results.evaluation)
            for index in range(count) if node.mapped else (-1,):
                key = TaskKey(self._key.dag_id, self._key.run_id, node.name, index)
                record = results.tasks.get(key)
                fresh = record is None or record.state in _UNSTARTED
                if may_start if fresh else self._can_go_on(record):
                    found.append(key)
        return found

    def _may_start(self, node: Node, evaluation: Evaluation) -> bool:
        if node.name in evaluation.ready:
            return True
        # Some of its indexes have begun already.
        begun = evaluation.states[node.name] not in _UNSTARTED and not evaluation.states[node.name].terminal
        return node.mapped and begun and node.name not in evaluation.cancelling

    def _can_go_on(self, record: TaskRecord | None) -> bool:
        if record is None or record.state.terminal:
            return False
        if record.nonce is not None and self._is_asked_for(record):
            return True
        if is_pause(record) and record.nonce is not None:
            return False
        # One that is neither waiting nor over was left behind by a call that died.
        return not any(request.task == record.key for request in self._waiting())

    def _is_asked_for(self, record: TaskRecord) -> bool:
        """Whether a parked step is to go on, or to end."""
        commands = self._ledger.list_commands(self._key, task_id=record.task_id)
        mine = [command for command in commands if command.task == record.key]
        pending = open_commands(mine, generation=record.generation)
        return any(command.verb is Verb.RESUME or command.verb in ENDING for command in pending)

    def _open(self, request: ApprovalRecord) -> bool:
        late = request.expires_at is not None and self._clock.now() >= request.expires_at
        return request.decision is Decision.PENDING and not late

    def _waiting(self) -> tuple[ApprovalRecord, ...]:
        records = self._records()
        return tuple(
            request
            for request in self._ledger.list_approvals(self._key)
            if self._open(request)
            and request.task in records
            and records[request.task].state is TaskState.PAUSED
        )

    def _records(self) -> dict[TaskKey, TaskRecord]:
        return {record.key: record for record in self._ledger.list_tasks(self._key)}

    def _step(self, key: TaskKey, process: str) -> TaskState | None:
        """Live one task until it ends or parks, its retries included; its state, None where it has parked."""
        name = key.task_id
        while True:
            call = self._calls.node(name, key=key, claim=self._claim(key, process))
            try:
                closing = self._lifecycle(key).live(call)
            except Parked:
                return None
            except Waits:
                self._wait_for_turn(key)
                continue
            if not self._again(name, closing):
                return closing.state

    def _wait_for_turn(self, key: TaskKey) -> None:
        """Until the step has something to do: its turn has come, or somebody wants it stopped."""
        permits = self._surroundings.permits
        while True:
            self._clock.sleep(permits.look_every)
            now = self._clock.now()
            if self._ledger.plan_permits(now=now).changes:
                self._ledger.settle_permits(limits=permits.limits, terms=permits.terms, now=now)
            if all(watch.wake for watch in self._ledger.list_permit_watches([key])):
                return

    def _live_compensation(self, process: str) -> None:
        key = TaskKey(self._key.dag_id, self._key.run_id, COMPENSATE)
        anew = False
        while True:
            call = compensate_call(self._start, self._claim(key, process, anew=anew))
            closing = self._lifecycle(key).live(call)
            if self._again(COMPENSATE, closing):
                continue
            given_up = isinstance(closing.error, AttemptsExhausted) and not anew
            if not given_up or overview(self._key, self._ledger).state.terminal:
                return
            # Too many processes died at it, and something is left: this one begins anew, as a clear does.
            anew = True
            del self._errors[COMPENSATE]

    def _again(self, name: str, closing: Closing) -> bool:
        if closing.error is not None:
            self._errors[name] = closing.error
        if closing.state is not TaskState.RETRY_WAIT:
            return False
        self._clock.sleep(closing.delay)
        return True

    def _lifecycle(self, key: TaskKey) -> Lifecycle:
        return Lifecycle(
            ledger=self._ledger,
            clock=self._clock,
            liveness=_PROCESSES,
            log=_Log(key),
            control=self._surroundings.control,
            budgets=self._surroundings.retry_budgets,
            places=self._surroundings.places,
            permits=self._surroundings.permits,
        )

    def _claim(self, key: TaskKey, process: str, *, anew: bool = False) -> Claim:
        record = self._ledger.get_task(key)
        tries = record.try_number if record is not None else 0
        nonce = record.nonce if record is not None and record.state is TaskState.PAUSED else None
        return Claim(
            # Where a resume died it has used its nonce up: then the task goes on as after any lost process.
            try_number=tries if nonce is not None else tries + 1,
            max_tries=record.max_tries + 1 if anew and record is not None else _NO_RETRIES,
            process=process,
            source=Source.ENGINE,
            nonce=nonce,
        )

    def _value(self, seen: RunOverview) -> Any:
        sink = seen.definition.result_node
        if not seen.state.success or seen.evaluation.states[sink] is not TaskState.SUCCEEDED:
            return None
        return RunResults(seen.definition, self._key, self._ledger).value(sink)
