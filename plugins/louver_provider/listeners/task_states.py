"""
Listener for what no task process can see: a person sets the state of a task, or of a whole run, in Airflow.

Airflow calls the same hooks elsewhere. In the task process the step writes its own state. In the scheduler
they tell of a process that it gave up: who finds that next (the next process, the closing tasks, the
reconciler) records it with what Airflow knows, so the scheduler never waits for the ledger. A listener must
never disturb its process: trouble is logged, in one line.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.listeners import hookimpl

from louver.errors import describe
from louver_provider.operators.names import WITH_STATES

__all__ = [
    "on_dag_run_failed",
    "on_dag_run_success",
    "on_task_instance_failed",
    "on_task_instance_skipped",
    "on_task_instance_success",
]

log = logging.getLogger(__name__)

_BY_HAND = "manually set"
"""Airflow's words where a person set the state of a run; it has no other sign of it."""


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """A task instance was set to success."""
    _task(previous_state, task_instance, "success")


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """A task instance was set to failed; the scheduler says so of each lost try too (case C05)."""
    _task(previous_state, task_instance, "failed")


@hookimpl
def on_task_instance_skipped(previous_state: Any, task_instance: Any) -> None:
    """A task instance was set to skipped."""
    _task(previous_state, task_instance, "skipped")


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """A Dag run was set to success."""
    _run(dag_run, msg)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """A Dag run was set to failed."""
    _run(dag_run, msg)


def _task(previous_state: Any, task_instance: Any, airflow_state: str) -> None:
    # Whoever sets a state by hand has no previous one to tell; so much for stock Dags, and for the scheduler.
    if previous_state is not None or _is_task_process(task_instance):
        return
    if task_instance.operator not in WITH_STATES:
        return
    from louver_provider.marks import note_mark

    try:
        note_mark(task_instance, airflow_state)
    except Exception as error:
        log.error("louver: a state set in Airflow could not be noted; it is found later: %s", describe(error))


def _run(dag_run: Any, msg: str) -> None:
    if _BY_HAND not in (msg or ""):
        return
    from louver_provider.marks import note_skipped_with_run

    try:
        note_skipped_with_run(dag_run)
    except Exception as error:
        log.error(
            "louver: a run marked in Airflow could not be noted; it is found later: %s", describe(error)
        )


def _is_task_process(task_instance: Any) -> bool:
    """Whether this is the running task's own view of itself, and not a row of the database."""
    return not hasattr(type(task_instance), "__tablename__")
