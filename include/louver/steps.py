"""
What the nodes of a workflow, and the closing of a run, do between ``running`` and their end.

:class:`StepCalls` turns a node into a :class:`~louver.lifecycle.TaskCall`; the lifecycle lives it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from louver.approvals import check_answerable, check_facts
from louver.binding import Workflow
from louver.canonical import fingerprint
from louver.cascade import fate_of
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Node, Step
from louver.errors import (
    ApprovalStale,
    ConfigurationError,
    IntegrityError,
    UpstreamUndone,
)
from louver.inputs import Upstream, check_result, gather, has_rules
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectState, RunKey, TaskKey
from louver.ledger.records import ApprovalRecord, RunRecord
from louver.ledger.requests import ApprovalRequest, RunStart
from louver.lifecycle import TaskCall
from louver.parked import ParkAnswer, go_on, keep_to_the_answer, newest_request
from louver.ports import Parked, StepRuntime, tell_transition
from louver.references import resolve
from louver.results import RunResults
from louver.sessions import Change, Claim
from louver.states import FailureKind, TaskState
from louver.version_calls import Deployed

__all__ = ["StepCalls", "run_start"]


def run_start(
    definition: Definition, key: RunKey, *, marker: str | None = None, requester: str | None = None
) -> RunStart:
    """What a run of the definition begins with."""
    return RunStart(
        key=key,
        definition_name=definition.name,
        definition_version=definition.version,
        definition_fingerprint=definition.fingerprint,
        definition=definition.to_json(),
        marker=marker,
        requester=requester,
    )


class StepCalls:
    """
    Calls for the nodes of one run.

    :param workflow: the definition and its functions.
    :param start: the run.
    :param params: gives the run's parameters; asked before ``running``, by nodes that take some.
    :param unsettled: tells which tasks of the run the platform has taken up again since they ended.
    :param max_items: over how many items a step can be mapped; None for any number.
    :param arguments: gives a step's arguments, where the platform has them itself; nothing is gathered then.
    """

    def __init__(
        self,
        *,
        workflow: Workflow,
        start: RunStart,
        params: Callable[[StepRuntime], Mapping[str, Any]],
        unsettled: Callable[[], Collection[TaskKey]] = tuple,
        max_items: int | None = None,
        arguments: Callable[[StepRuntime], Mapping[str, Any]] | None = None,
    ) -> None:
        self._unsettled = unsettled
        self._given = arguments
        self._max_items = max_items
        self._workflow = workflow
        self._definition = workflow.definition
        self._start = start
        self._params = params

    def node(self, name: str, *, key: TaskKey, claim: Claim, answer: ParkAnswer | None = None) -> TaskCall:
        """
        The call that runs a step, or asks an approval.

        :param answer: on a resume, what woke the task.
        """
        node = self._definition.node(name)
        params: dict[str, Any] = {}
        undecided: list[IntegrityError] = []

        def prepare(runtime: StepRuntime) -> None:
            if undecided:
                raise undecided[0]
            keep_to_the_answer(runtime)
            self._check_ground(node, runtime)
            if node.params and self._given is None:
                params.update(self._params(runtime))

        def body(runtime: StepRuntime) -> Any:
            if isinstance(node, ApprovalNode):
                return self._approve(node, params, runtime)
            return self._run(node, params, runtime)

        def resume(runtime: StepRuntime) -> None:
            go_on(runtime, claim.nonce, answer or ParkAnswer())

        def fate(ledger: Ledger) -> Change | None:
            try:
                return fate_of(self._definition, key, ledger, unsettled=self._unsettled())
            except IntegrityError as error:
                # What decides was tampered with: the step fails for it, once it is open, and does not run.
                undecided.append(error)
                return None

        return TaskCall(
            key=key,
            start=self._start,
            claim=claim,
            fate=fate if has_rules(self._definition, node) else None,
            retry=node.retry,
            prepare=prepare,
            body=body,
            resume=resume,
            timeouts=node.timeouts,
            resources=node.resources,
            priority=node.priority if isinstance(node, Step) else 1,
            under=self._under(name, key=key, claim=claim, answer=answer),
        )

    def _under(
        self, name: str, *, key: TaskKey, claim: Claim, answer: ParkAnswer | None
    ) -> Callable[[TaskCall, RunRecord, Ledger], TaskCall]:
        """What makes the call where the run is under another definition (row O14)."""

        def make(workflow: Workflow, start: RunStart) -> TaskCall:
            calls = StepCalls(
                workflow=workflow,
                start=start,
                params=self._params,
                unsettled=self._unsettled,
                max_items=self._max_items,
                arguments=self._given,
            )
            return calls.node(name, key=key, claim=claim, answer=answer)

        return Deployed(workflow=self._workflow, node=name, make=make).under

    def _check_ground(self, node: Node, runtime: StepRuntime) -> None:
        """A step does not run on what was undone (case E08)."""
        ancestors = set(self._definition.ancestors(node.name))
        if not ancestors:
            return
        run = runtime.token.key.run
        undone = [
            effect
            for effect in runtime.ledger.list_effects(run)
            if effect.state in (EffectState.UNDONE, EffectState.UNDO_FAILED) and effect.task_id in ancestors
        ]
        if not undone:
            return
        results = RunResults(self._definition, run, runtime.ledger, strict=False)
        generations = {task.key: task.generation for task in results.tasks.values()}
        for effect in undone:
            if generations.get(effect.task) == effect.generation:
                raise UpstreamUndone(
                    f"effect {effect.reference} of upstream step {effect.task_id!r} is {effect.state}; "
                    "clear that step too, so that it acts again"
                )

    def _arguments(
        self, node: Node, params: Mapping[str, Any], runtime: StepRuntime
    ) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Arguments of the node's function, and by node the results of the upstreams that succeeded."""
        if self._given is not None:
            upstream = Upstream(self._definition, node, runtime.token.key.run, runtime.ledger)
            return dict(self._given(runtime)), upstream
        given = gather(self._definition, node, runtime.token.key, runtime.ledger)
        arguments = {**given.arguments, **node.kwargs}
        for parameter, name in node.params.items():
            if name not in params:
                raise ConfigurationError(f"run parameter {name!r} was not given")
            arguments[parameter] = params[name]
        return arguments, given.upstream

    def _run(self, step: Step, params: Mapping[str, Any], runtime: StepRuntime) -> Any:
        arguments, upstream = self._arguments(step, params, runtime)
        context = self._context(step, runtime, upstream)
        extra = {"ctx": context} if self._workflow.takes_context(step.name) else {}
        function = self._workflow.functions[step.name]
        if step.compensate is None:
            value = function(**arguments, **extra)
        else:
            value = context.effect(
                step.name,
                intent=arguments,
                perform=lambda key: function(**arguments, **extra),
                compensate=resolve(step.compensate, what="compensate"),
                provider_idempotent=step.on_unknown == "retry",
                on_unknown=step.on_unknown,
            )
        check_result(self._definition, step, value, most=self._max_items)
        return value

    def _context(self, step: Step, runtime: StepRuntime, upstream: Mapping[str, Any]) -> TaskContext:
        if step.approval is None:
            return TaskContext(runtime=runtime, upstream=upstream)
        approval = self._definition.node(step.approval)
        if not isinstance(approval, ApprovalNode):
            raise ConfigurationError(f"{step.approval!r} is no approval")

        def ask_anew(intent: Any, why: ApprovalStale) -> NoReturn:
            if runtime.supervision is not None and not runtime.supervision.may_park:
                # No ApprovalStale: the effect outside would take it for its own, and ask.
                raise ConfigurationError(
                    f"step {step.name!r}: nobody can be asked from inside perform of another effect "
                    f"({why.reason}); begin the effect that needs {approval.name!r} outside, or give it "
                    "approval=False"
                ) from why
            self._ask(approval, intent, runtime, reason=f"{FailureKind.APPROVAL_STALE}: {why.reason}")

        return TaskContext(
            runtime=runtime, upstream=upstream, guard=step.name, approval=approval.name, ask_anew=ask_anew
        )

    def _approve(
        self, node: ApprovalNode, params: Mapping[str, Any], runtime: StepRuntime
    ) -> dict[str, str | None]:
        arguments, _ = self._arguments(node, params, runtime)
        payload = self._workflow.functions[node.name](**arguments)
        run = self._start
        try:
            held = check_facts(
                newest_request(runtime),
                definition_fingerprint=run.definition_fingerprint,
                definition_version=run.definition_version,
                evidence=runtime.ledger.evidence(run.key, self._definition.ancestors(node.name)),
                payload_fingerprint=fingerprint(payload),
            )
        except ApprovalStale as stale:
            runtime.log.tell("approval.needed", "%s", stale.reason)
            self._ask(node, payload, runtime)
        return {"request_id": held.request_id, "decision": str(held.decision)}

    def _ask(
        self, node: ApprovalNode, payload: Any, runtime: StepRuntime, *, reason: str | None = None
    ) -> NoReturn:
        run = runtime.ledger.get_run(runtime.token.key.run)
        check_answerable(
            node.name,
            approvers=node.approvers,
            four_eyes=node.four_eyes,
            requester=None if run is None else run.requester,
        )
        now = runtime.now()
        expires_at = None if node.expires_after is None else now + timedelta(seconds=node.expires_after)
        request = ApprovalRequest(
            request_id=secrets.token_hex(16),
            of=node.of,
            payload=payload,
            payload_fingerprint=fingerprint(payload),
            ancestors=self._definition.ancestors(node.name),
            approvers=tuple(node.approvers),
            four_eyes=node.four_eyes,
            expires_at=expires_at,
        )
        nonce = secrets.token_hex(16)
        change = Change(to=TaskState.PAUSED, trigger="approval:requested", reason=reason)
        record = _park(runtime, change, nonce=nonce, request=request)
        runtime.log.tell(
            "approval.requested",
            "approval %s of %s, payload %s, expires %s",
            record.request_id,
            record.of,
            record.payload_fingerprint[:12],
            record.expires_at.isoformat() if record.expires_at else "never",
        )
        raise Parked(record, nonce)


def _park(runtime: StepRuntime, change: Change, *, nonce: str, request: ApprovalRequest) -> ApprovalRecord:
    if runtime.supervision is not None:
        return runtime.supervision.ask(change, nonce=nonce, request=request)
    record, row = runtime.ledger.park(runtime.token, change, nonce=nonce, request=request, now=runtime.now())
    tell_transition(runtime.log, row)
    return record
