"""
Listener for what no task process can see: a person marks a task in Airflow.

Airflow calls the same hooks in the task process too; there the step's own process has written its state
already, so only the API server's and the scheduler's events are taken, which bring database rows. A listener
must never disturb its process: trouble is logged, and the closing tasks find the same truth later.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.listeners import hookimpl

__all__ = ["on_task_instance_failed", "on_task_instance_success"]

log = logging.getLogger(__name__)


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """A task instance was set to success."""
    _record(task_instance, "success")


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """
    A task instance was set to failed.

    The scheduler says so too where it will be tried again (case C05); then the next attempt records the loss.
    """
    if task_instance.state != "up_for_retry":
        _record(task_instance, "failed")


def _record(task_instance: Any, airflow_state: str) -> None:
    if _is_task_process(task_instance):
        return
    from louver_provider.marks import record_mark

    try:
        record_mark(task_instance, airflow_state)
    except Exception:
        log.exception("louver: a state set in Airflow could not be recorded; the closing task will find it")


def _is_task_process(task_instance: Any) -> bool:
    """Whether this is the running task's own view of itself, and not a row of the database."""
    return not hasattr(type(task_instance), "__tablename__")
