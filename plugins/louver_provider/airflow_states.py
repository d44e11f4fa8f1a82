"""
What Airflow's task states mean to Louver, where a step's own process could not say so itself.

A step that was never started, that Airflow gave up, or that a person marked in the UI has no process to write
its last transition. The closing tasks ask Airflow and append what is missing to the step's side chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from louver.clock import SystemClock
from louver.closing import definition_of
from louver.definition import Definition
from louver.ledger.names import TaskKey
from louver.ledger.records import TaskRecord
from louver.sessions import Change
from louver.sightings import Shown, Sighting, explains_skip, in_order, missed_change
from louver.states import Source, TaskState

if TYPE_CHECKING:
    from louver_provider.runtime import StepProcess

__all__ = ["change_from_airflow", "settle_from_airflow", "shown_by"]

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


def change_from_airflow(
    state: TaskState, airflow_state: str | None, *, explained: bool | None = True
) -> Change | None:
    """
    The transition that is missing, if one is.

    :param state: what the ledger holds.
    :param airflow_state: what Airflow's task instance is in; None where it has no state.
    :param explained: whether an upstream did not deliver; see :func:`louver.sightings.missed_change`.
    """
    seen = Sighting(shown=shown_by(airflow_state), said=airflow_state or "no state")
    return missed_change(state, seen, explained=explained)


def settle_from_airflow(ti: Any, process: StepProcess) -> None:
    """
    Append to the ledger what only Airflow knows about the steps of this run; called once they are all over.

    The steps are those of the definition that the run began under: a deploy may have taken one away.
    """
    definition = definition_of(process.start.key, process.ledger)
    known = {record.task_id: record for record in process.ledger.list_tasks(process.start.key)}
    shown = _airflow_states(ti, definition)
    states = {name: record.state for name, record in known.items()}
    now = SystemClock().now()
    for node in in_order(definition):
        name, record = node.name, known.get(node.name)
        explained = explains_skip(node, states)
        change = change_from_airflow(
            states.get(name, TaskState.PENDING), shown.get(name, "removed"), explained=explained
        )
        if change is None:
            continue
        states[name] = change.to
        key = TaskKey(ti.dag_id, ti.run_id, name)
        row = process.ledger.mark(key, change, session=_session(record), source=Source.WORKER, now=now)
        if row is not None:
            process.log.tell(
                "state", "%s: state %s -> %s (%s)", name, row.from_state, row.to_state, row.trigger
            )


def _session(record: TaskRecord | None) -> int:
    return 0 if record is None else record.session


def _airflow_states(ti: Any, definition: Definition) -> Mapping[str, str | None]:
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(definition.names), run_ids=[ti.run_id])
    return dict(found.get(ti.run_id, {}))
