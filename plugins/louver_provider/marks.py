"""Recording that a person marked a Louver task in Airflow."""

from __future__ import annotations

from typing import Any

from louver.clock import SystemClock
from louver.ledger.names import TaskKey
from louver.states import Source
from louver_provider.airflow_states import change_from_airflow
from louver_provider.hooks.ledger import get_ledger

__all__ = ["record_mark"]


def record_mark(task_instance: Any, airflow_state: str) -> None:
    """
    Append to the task's side chain what was set from outside; a task that Louver does not know is left alone.

    :param task_instance: Airflow's row.
    :param airflow_state: ``success`` or ``failed``.
    """
    ledger = get_ledger()
    key = TaskKey(task_instance.dag_id, task_instance.run_id, task_instance.task_id, task_instance.map_index)
    record = ledger.get_task(key)
    if record is None:
        return
    change = change_from_airflow(record.state, airflow_state)
    if change is not None:
        ledger.mark(key, change, session=record.session, source=Source.LISTENER, now=SystemClock().now())
