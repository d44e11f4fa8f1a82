"""
Failing fast: when one step has failed, the others are cancelled (row T15).

Pure: what is to be done about each task. Who has seen the failure does it, the failed step's own process
first; the reconciler does what is left. A task that is missed all the same finds out at its start
(:func:`fate_of`). What is cancelled is a consequence, and never cancels anything itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from uuid import uuid4

from louver.control import ENDING
from louver.definition import Definition
from louver.evaluation import FAILING, has_own_rules, may_run
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.records import CommandRecord
from louver.ledger.requests import CommandRequest
from louver.repairs import CancelTask
from louver.results import RunResults
from louver.sessions import Change
from louver.states import Source, TaskState

__all__ = [
    "ORCHESTRATION",
    "blamed",
    "cancel",
    "cancelled",
    "cascade",
    "decide_cascade",
    "fate_of",
    "never_began",
    "skipped",
]

ORCHESTRATION = "louver"
"""The actor of a command that nobody gave."""

_UNSTARTED = frozenset({TaskState.PENDING, TaskState.BLOCKED})
_NOT_BEGUN = _UNSTARTED | frozenset({TaskState.QUEUED, TaskState.RETRY_WAIT})


def blamed(results: RunResults) -> str:
    """Which tasks made the run fail, for people."""
    found = [
        f"{key.place} {record.state}"
        for key, record in sorted(results.tasks.items())
        if record.state in FAILING and (key.task_id in results.definition.names)
    ]
    return f"the workflow fails fast: {', '.join(found)}"


def decide_cascade(results: RunResults, commands: Iterable[CommandRecord] = ()) -> list[CancelTask]:
    """
    What is to be done about the tasks of a run that fails fast; nothing where it does not.

    :param results: of the run.
    :param commands: to its tasks; one that is told to end already is not told again.
    """
    evaluation, definition, run = results.evaluation, results.definition, results.run
    doomed = {*evaluation.cancelled, *evaluation.cancelling}
    if not doomed:
        return []
    told = {
        (command.task, command.generation)
        for command in commands
        if command.verb in ENDING and command.closed_at is None
    }
    why = blamed(results)
    found = []
    for name in definition.names:
        # Of a mapped one that is not expanded nobody knows the indexes; they find out at their start.
        for index in results.indexes(name) if name in doomed else ():
            key = TaskKey(run.dag_id, run.run_id, name, index)
            seen = results.tasks.get(key)
            if seen is None:
                found.append(CancelTask(task=key, seen=None, ask=False, why=why))
            elif not seen.state.terminal and (key, seen.generation) not in told:
                ask = seen.state not in _NOT_BEGUN
                if seen.state is not TaskState.STOPPING:
                    found.append(CancelTask(task=key, seen=seen, ask=ask, why=why))
    return found


def cascade(
    definition: Definition,
    run: RunKey,
    ledger: Ledger,
    *,
    source: Source,
    unsettled: Collection[TaskKey] = (),
    now: datetime,
) -> list[CancelTask]:
    """
    Carry it out, where the workflow fails fast and something failed.

    :param unsettled: tasks that the platform has taken up again since they ended.
    :returns: what was done; a task that has moved on meanwhile is left to the next who looks.
    """
    if definition.aggregation != "fail_fast":
        return []
    # Whatever was tampered with, those that are to be cancelled do not wait for a person to look at it.
    results = RunResults(definition, run, ledger, unsettled=unsettled, strict=False)
    wanted = decide_cascade(results, ledger.list_commands(run))
    return [one for one in wanted if cancel(one, ledger, source=source, now=now)]


def cancel(one: CancelTask, ledger: Ledger, *, source: Source, now: datetime) -> bool:
    """Carry it out; False where the task has moved on meanwhile."""
    if one.ask:
        request = CommandRequest(
            command_id=uuid4().hex,
            task=one.task,
            verb=Verb.CANCEL,
            actor=ORCHESTRATION,
            reason=one.why,
            source=source,
        )
        ledger.send_command(request, now=now)
        return True
    session = one.seen.session if one.seen is not None else 0
    return ledger.mark(one.task, cancelled(one.why), session=session, source=source, now=now) is not None


def cancelled(why: str) -> Change:
    """The transition of a task that never starts."""
    return Change(to=TaskState.CANCELLED, trigger="orchestrator:cascade", reason=why)


def fate_of(
    definition: Definition, key: TaskKey, ledger: Ledger, *, unsettled: Collection[TaskKey] = ()
) -> Change | None:
    """
    What the rules make of a task that is about to start, where they do not let it run.

    The platform starts what its own rules allow; joins, branches and failing fast are decided here.

    :param unsettled: tasks that the platform has taken up again, whatever the ledger still holds of them.
    """
    node = definition.node(key.task_id)
    taken_up = {*unsettled, key}
    if not has_own_rules(definition, node) and not any(
        task.state in FAILING and task.key not in taken_up for task in ledger.list_tasks(key.run)
    ):
        # Nothing has failed, so nothing fails fast; that is all that could be in the way.
        return None
    results = RunResults(definition, key.run, ledger, unsettled=taken_up)
    evaluation = results.evaluation
    if key.task_id in (*evaluation.cancelled, *evaluation.cancelling):
        return cancelled(blamed(results))
    return skipped(results, key.task_id) if key.task_id in evaluation.skipped else None


def skipped(results: RunResults, name: str) -> Change:
    """The transition of a task that its upstreams, or a branch before it, keep from running."""
    node, states = results.definition.node(name), results.states
    upstream = [states[before] for before in node.upstream]
    if may_run(node, upstream) is False:
        shown = ", ".join(f"{before} {states[before]}" for before in node.upstream)
        why = f"join {node.join}: {shown}"
    elif results.counts.get(name) == 0:
        why = "there is nothing to map it over"
    else:
        why = "a branch went another way"
    return Change(to=TaskState.SKIPPED, trigger="orchestrator:upstream", reason=why)


def never_began(results: RunResults) -> Iterator[tuple[TaskKey, Change]]:
    """
    Tasks that never will run, and that nothing tells of yet, with the transition that does.

    A mapped step of which no index has begun is told of as a whole, as the platform does.
    """
    for name in results.definition.names:
        state = results.states[name]
        if state not in (TaskState.SKIPPED, TaskState.CANCELLED):
            continue
        change = skipped(results, name) if state is TaskState.SKIPPED else cancelled(blamed(results))
        run = results.run
        keys = [TaskKey(run.dag_id, run.run_id, name, index) for index in results.indexes(name)]
        if not any(key in results.tasks for key in keys):
            keys = [TaskKey(run.dag_id, run.run_id, name)]
        for key in keys:
            record = results.tasks.get(key)
            if record is None or record.state in _UNSTARTED:
                yield key, change
