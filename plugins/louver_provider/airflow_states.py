"""
What Airflow's task states mean to Louver, where a step's own process could not say so itself.

A step that was never started, that Airflow gave up, or that a person marked in the UI has no process to write
its last transition. The closing tasks ask Airflow and append what is missing to the step's side chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from louver.clock import SystemClock
from louver.closing import definition_of
from louver.definition import Definition
from louver.ledger.names import TaskKey
from louver.ledger.records import TaskRecord
from louver.sessions import Change
from louver.states import FailureKind, Precision, Source, TaskState
from louver_provider.runtime import StepProcess

__all__ = ["change_from_airflow", "settle_from_airflow"]

_STARTED = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING})


def change_from_airflow(state: TaskState, airflow_state: str | None) -> Change | None:
    """
    The transition that is missing, if one is.

    :param state: what the ledger holds.
    :param airflow_state: what Airflow's task instance is in; None where it has no state.
    """
    if state.terminal:
        return None
    if airflow_state == "success":
        return _marked(TaskState.SUCCEEDED, "Airflow holds it for success")
    if airflow_state in ("skipped", "upstream_failed", "removed"):
        if state in (TaskState.PENDING, TaskState.BLOCKED):
            return Change(
                to=TaskState.SKIPPED,
                trigger="orchestrator:upstream",
                reason=f"Airflow: {airflow_state}",
                precision=Precision.BOUNDED,
            )
        return _marked(TaskState.SKIPPED, f"Airflow: {airflow_state}")
    if airflow_state == "failed":
        if state in _STARTED:
            return Change(
                to=TaskState.LOST,
                trigger="runtime:attempt_lost",
                reason="Airflow gave it up: its process ended without a word",
                failure_kind=FailureKind.LOST,
                precision=Precision.BOUNDED,
            )
        return _marked(TaskState.FAILED, "Airflow holds it for failed")
    return None


def _marked(to: TaskState, reason: str) -> Change:
    kind = FailureKind.EXCEPTION if to is TaskState.FAILED else None
    return Change(to=to, trigger="user:marked", reason=reason, failure_kind=kind, precision=Precision.BOUNDED)


def settle_from_airflow(ti: Any, process: StepProcess) -> None:
    """
    Append to the ledger what only Airflow knows about the steps of this run; called once they are all over.

    The steps are those of the definition that the run began under: a deploy may have taken one away.
    """
    definition = definition_of(process.start.key, process.ledger)
    known = {record.task_id: record for record in process.ledger.list_tasks(process.start.key)}
    states = _airflow_states(ti, definition)
    now = SystemClock().now()
    for name in definition.names:
        record = known.get(name)
        state = record.state if record is not None else TaskState.PENDING
        change = change_from_airflow(state, states.get(name, "removed"))
        if change is None:
            continue
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
