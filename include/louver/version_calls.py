"""
The call of a task whose run is under another definition than the one that is deployed here (row O14).

What becomes of it, :func:`louver.versions.decide_change` says; here it is carried out. The run's own
definition is read from the ledger, and whatever a task does then goes by that one: its arguments, its
retries, its timeouts, its approval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn

from louver.binding import Workflow, check_signature
from louver.definition import ApprovalNode, Definition, Node
from louver.definition_json import read_definition_form
from louver.errors import ConfigurationError, DefinitionChanged, DefinitionError
from louver.ledger.contract import Ledger
from louver.ledger.records import RunRecord
from louver.ledger.requests import RunStart
from louver.lifecycle import Ended, TaskCall
from louver.ports import StepRuntime
from louver.references import resolve
from louver.sessions import Change
from louver.states import TaskState
from louver.versions import ChangeDecision, Verdict, decide_change, told

__all__ = ["OUTDATED_DELAY", "Deployed", "decide_for_run"]

OUTDATED_DELAY = timedelta(seconds=30)
"""Until a task that met an outdated worker is tried again: a rolling deploy goes on meanwhile."""

_UNBEGUN = (TaskState.PENDING, TaskState.BLOCKED)


def decide_for_run(run: RunRecord, new: Definition, ledger: Ledger) -> tuple[Definition, ChangeDecision]:
    """
    The definition that the run is under, and what becomes of it where ``new`` is deployed.

    :raises DefinitionError: where the run's definition cannot be read by this release.
    """
    old = read_definition_form(ledger.load_definition(run.definition_fingerprint))
    left = any(one.from_fingerprint == new.fingerprint for one in ledger.list_acceptances(run.key))
    tasks = ledger.list_tasks(run.key)
    begun = {task.task_id for task in tasks if task.session > 0 or task.state not in _UNBEGUN}
    unsettled = {task.task_id for task in tasks if not task.state.terminal}
    # Of a mapped node there may be indexes that have not begun, unless something behind it has.
    passed = {name for one in begun & set(old.names) for name in old.ancestors(one)}
    unsettled |= {node.name for node in old.nodes if node.mapped} - passed
    return old, decide_change(new.on_change, old, new, begun - unsettled, begun=begun & unsettled, left=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """
    What this process has of a node, and how it makes a call of it under a definition.

    :param workflow: the deployed definition with its functions.
    :param node: the node's name.
    :param make: a call of the node under a workflow and a start.
    """

    workflow: Workflow
    node: str
    make: Callable[[Workflow, RunStart], TaskCall]

    def under(self, call: TaskCall, run: RunRecord, ledger: Ledger) -> TaskCall:
        """
        The call instead of ``call``, which was made for the deployed definition.

        It may be one that is refused, once its task is open and can say so.
        """
        new = self.workflow.definition
        try:
            old, decision = decide_for_run(run, new, ledger)
        except DefinitionError as error:
            return replace(call, admit=_refusing(run, new, f"its definition cannot be read: {error}"))
        if decision.verdict is Verdict.ACCEPT:
            return replace(call, admit=_accepting(call.start, run, decision.reason))
        if decision.verdict is Verdict.OUTDATED:
            return replace(call, admit=_waiting(run, new, decision.reason))
        if decision.verdict is Verdict.REFUSE:
            return replace(call, admit=_refusing(run, new, decision.reason))
        start = _recorded(call.start, run, ledger)
        if self.node not in old.names:
            return _left_out(replace(call, start=start), old)
        try:
            return self.make(_bound(old, self.node, self.workflow), start)
        except DefinitionError as error:
            return replace(call, admit=_refusing(run, new, f"its code is not deployed any more: {error}"))


def _recorded(start: RunStart, run: RunRecord, ledger: Ledger) -> RunStart:
    return replace(
        start,
        definition_name=run.definition_name,
        definition_version=run.definition_version,
        definition_fingerprint=run.definition_fingerprint,
        definition=ledger.load_definition(run.definition_fingerprint),
    )


def _bound(old: Definition, name: str, deployed: Workflow) -> Workflow:
    """
    The recorded definition with the function of one of its nodes: what is deployed under its path.

    :raises DefinitionError: where nothing is, or its parameters do not fit the recorded definition.
    """
    node = old.node(name)
    path = _path(node)
    function: Callable[..., Any] | None = None
    if name in deployed.definition.names and _path(deployed.definition.node(name)) == path:
        # A function may have been given to the Dag, and be found by no import.
        function = deployed.functions[name]
    if function is None:
        try:
            function = resolve(path, what="task")
        except ConfigurationError as error:
            raise DefinitionError(str(error), node=name, attribute="task") from error
    check_signature(node, function)
    return Workflow(definition=old, functions={name: function})


def _path(node: Node) -> str:
    return node.payload if isinstance(node, ApprovalNode) else node.task


def _left_out(call: TaskCall, old: Definition) -> TaskCall:
    """A node that the run's own definition does not have does nothing, and keeps nobody from running."""
    reason = f"the run is finished under {told(old)}, which has no such step"
    change = Change(to=TaskState.SKIPPED, trigger="orchestrator:upstream", reason=reason)

    def refuse(runtime: StepRuntime) -> NoReturn:
        raise DefinitionChanged(f"{runtime.token.key.task_id}: {reason}")

    return replace(call, fate=lambda ledger: change, admit=refuse, left_out=True)


def _accepting(start: RunStart, run: RunRecord, reason: str) -> Callable[[StepRuntime], None]:
    def accept(runtime: StepRuntime) -> None:
        accepted = runtime.ledger.accept_definition(
            runtime.token, start, instead_of=run.definition_fingerprint, reason=reason, now=runtime.now()
        )
        runtime.log.tell(
            "definition.accepted",
            "run %s goes on under %s %s: %s",
            accepted.run_id,
            accepted.definition_name,
            accepted.definition_version,
            reason,
        )

    return accept


def _refusing(run: RunRecord, new: Definition, reason: str) -> Callable[[StepRuntime], None]:
    def refuse(runtime: StepRuntime) -> NoReturn:
        raise DefinitionChanged(
            f"run {run.run_id} is under {run.definition_name} {run.definition_version} "
            f"({run.definition_fingerprint[:12]}); deployed is {new.version} ({new.fingerprint[:12]}): "
            f"{reason}. Start a new run, or bring the old definition back"
        )

    return refuse


def _waiting(run: RunRecord, new: Definition, reason: str) -> Callable[[StepRuntime], None]:
    """Retryable, and no failure of the step: the worker that comes next may have the newer definition."""

    def wait(runtime: StepRuntime) -> NoReturn:
        record = runtime.ledger.get_task(runtime.token.key)
        error = DefinitionChanged(
            f"this worker is outdated: {reason}. It has {new.name} {new.version}, run {run.run_id} goes by "
            f"{run.definition_version}"
        )
        if record is not None and record.try_number <= record.max_tries:
            change = Change(to=TaskState.RETRY_WAIT, trigger="runtime:outdated", reason=str(error))
            raise Ended(change, error, delay=OUTDATED_DELAY)
        raise error

    return wait
