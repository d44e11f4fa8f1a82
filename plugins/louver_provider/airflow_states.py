"""
What Airflow's task states mean to Louver, where a step's own process could not say so itself.

A step that was never started, that Airflow gave up, or that a person marked in the UI has no process to write
its last transition. The closing tasks ask Airflow and append what is missing to the step's side chain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from louver.cascade import cascade
from louver.clock import SystemClock
from louver.closing import definition_of
from louver.definition import Definition
from louver.evaluation import evaluate
from louver.ledger.names import TaskKey
from louver.node_states import states_by_node
from louver.sessions import Change
from louver.sightings import Shown, Sighting, explains_skip, in_order, missed_change, skipped_anew
from louver.states import Source, TaskState
from louver_provider.foreign_tasks import behind_others

if TYPE_CHECKING:
    from louver_provider.runtime import StepProcess

__all__ = [
    "cancel_others",
    "changes_from_airflow",
    "names_apart",
    "settle_for_rules",
    "settle_from_airflow",
    "shown_by",
]

_SHOWN = {
    None: Shown.NOTHING,
    "scheduled": Shown.WAITING,
    "queued": Shown.WAITING,
    "running": Shown.RUNNING,
    "restarting": Shown.RUNNING,
    "awaiting_input": Shown.PARKED,
    "deferred": Shown.HELD,
    "up_for_reschedule": Shown.HELD,
    "up_for_retry": Shown.RETRYING,
    "success": Shown.SUCCEEDED,
    "failed": Shown.FAILED,
    "skipped": Shown.SKIPPED,
    "upstream_failed": Shown.SKIPPED,
    "removed": Shown.GONE,
}


def shown_by(airflow_state: str | None) -> Shown:
    """What the state of a task instance means; one that is not known here is left alone as ``held``."""
    return _SHOWN.get(airflow_state, Shown.HELD)


def changes_from_airflow(
    state: TaskState, airflow_state: str | None, *, explained: bool | None = True, fast: bool = False
) -> tuple[Change, ...]:
    """
    The transitions that are missing, if any are.

    :param state: what the ledger holds.
    :param airflow_state: what Airflow's task instance is in; None where it has no state.
    :param explained: whether an upstream did not deliver; see :func:`louver.sightings.missed_change`.
    :param fast: likewise.
    """
    seen = Sighting(shown=shown_by(airflow_state), said=airflow_state or "no state")
    change = missed_change(state, seen, explained=explained, fast=fast)
    return skipped_anew(state, seen, explained=explained, fast=fast) if change is None else (change,)


_Seen = Mapping[str, Mapping[int, str | None]]
"""Node name to map index to Airflow's state."""


def settle_from_airflow(ti: Any, process: StepProcess) -> _Seen:
    """
    Append to the ledger what only Airflow knows about the steps of this run that are over.

    The steps are those of the definition that the run began under: a deploy may have taken one away.

    :returns: what was seen.
    """
    definition = definition_of(process.start.key, process.ledger)
    known = {record.key: record for record in process.ledger.list_tasks(process.start.key)}
    shown = _airflow_states(ti, definition)
    by_others = behind_others(ti, definition)
    now = SystemClock().now()
    states = {key: record.state for key, record in known.items()}
    for key in [key for key in states if _removed(shown, key)]:
        # Beyond the end of a list that was longer before a clear; a process may have been inside even so.
        if states[key].terminal:
            del states[key]
    for node in in_order(definition):
        by_node: Mapping[str, TaskState] | None = None
        failing_fast: Collection[str] = ()
        for index in sorted(shown.get(node.name, {-1: "removed"})):
            key = TaskKey(ti.dag_id, ti.run_id, node.name, index)
            airflow_state = shown.get(node.name, {}).get(index, "removed")
            state = states.get(key, TaskState.PENDING)
            left_over = key not in states and _removed(shown, key)
            seen = shown_by(airflow_state)
            if left_over or not seen.over or (state.terminal and seen is not Shown.SKIPPED):
                # Nothing is missing of it.
                continue
            if by_node is None:
                # Once for a node, however many indexes it has: those that explain it come before it.
                by_node = states_by_node(definition, states)
                if definition.aggregation == "fail_fast":
                    failing_fast = evaluate(definition, by_node).cancelled
            changes = changes_from_airflow(
                state,
                airflow_state,
                explained=explains_skip(node, by_node, whole=index < 0) or node.name in by_others,
                fast=node.name in failing_fast,
            )
            session = known[key].session if key in known else 0
            for number, change in enumerate(changes):
                states[key] = change.to
                row = process.ledger.mark(
                    key, change, session=session + number, source=Source.WORKER, now=now
                )
                if row is None:
                    break
                process.log.tell("state", "%s: %s -> %s (%s)", key, row.from_state, row.to_state, row.trigger)
    return shown


def _removed(shown: _Seen, key: TaskKey) -> bool:
    return key.map_index >= 0 and shown.get(key.task_id, {}).get(key.map_index, "removed") == "removed"


def settle_for_rules(ti: Any, process: StepProcess) -> set[TaskKey]:
    """
    Bring the ledger up to what a step needs that decides by its own rules whether it runs.

    :returns: tasks that Airflow has taken up again, after a clear, though the ledger holds them for over.
    """
    return {
        TaskKey(ti.dag_id, ti.run_id, name, index)
        for name, indexes in settle_from_airflow(ti, process).items()
        for index, state in indexes.items()
        if not shown_by(state).over
    }


def cancel_others(ti: Any, process: StepProcess, *, seen: _Seen | None = None) -> None:
    """
    Cancel what is left of a run that fails fast, where it has failed.

    :param seen: of :func:`settle_from_airflow`, where that was done just now.
    """
    run = process.start.key
    definition = definition_of(run, process.ledger)
    if definition.aggregation != "fail_fast":
        return
    if seen is None:
        # What was cleared and is skipped now has not failed any more.
        seen = settle_from_airflow(ti, process)
    over = {
        TaskKey(ti.dag_id, ti.run_id, name, index)
        for name, indexes in seen.items()
        for index, state in indexes.items()
        if shown_by(state).over
    }
    ended = {task.key for task in process.ledger.list_tasks(run) if task.state.terminal}
    done = cascade(
        definition,
        run,
        process.ledger,
        source=Source.WORKER,
        # What is over for the ledger and not for Airflow was cleared; this very task has just ended.
        unsettled=ended - over - {process.key},
        now=SystemClock().now(),
    )
    for one in done:
        process.log.tell(
            "cascade", "%s is %s: %s", one.task, "told to end" if one.ask else "cancelled", one.why
        )


def _airflow_states(ti: Any, definition: Definition) -> _Seen:
    mapped = {node.name for node in definition.nodes if node.mapped}
    shown: dict[str, dict[int, str | None]] = {}
    for names in names_apart(definition.names, mapped):
        found = ti.get_task_states(dag_id=ti.dag_id, task_ids=names, run_ids=[ti.run_id])
        for label, state in found.get(ti.run_id, {}).items():
            name, index = (label, -1) if label in names else _indexed(label, mapped)
            shown.setdefault(name, {})[index] = state
    return shown


def names_apart(names: Sequence[str], mapped: Collection[str]) -> list[list[str]]:
    """
    The names of steps in groups, in each of which no two tasks are called the same by Airflow.

    It writes the index behind the name: index 1 of ``load`` is as a step with the name ``load_1``. Such a
    name has a group of its own; all others, of which there always are some, are in the first.

    :param mapped: those of them that have indexes.
    """
    alike = [name for name in names if _indexed(name, mapped)[1] >= 0]
    return [[name for name in names if name not in alike], *([name] for name in alike)]


def _indexed(label: str, mapped: Collection[str]) -> tuple[str, int]:
    """Name and map index of the task that Airflow calls so."""
    name, _, index = label.rpartition("_")
    return (name, int(index)) if name in mapped and index.isdecimal() else (label, -1)
