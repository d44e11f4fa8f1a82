"""
The resume guard: whether a parked task may be woken now (semantics section 8).

Airflow fails a task that is answered before it has noticed the end of the process that parked it. So whoever
wakes a task, a person's answer on its way through the API server or a command, asks here first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import ColumnElement, select

from louver.ledger.names import TaskKey
from louver.liveness import LocalProcesses
from louver_provider.api.refusal import Refusal
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["Park", "guard", "guard_park", "judge_park", "place_of", "read_park"]

_SETTLED = timedelta(seconds=30)
"""After this long in its park, whatever there was to notice has been noticed, or nobody is there to."""

_PAUSE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """
    A task as Airflow has it.

    :param state: of the task instance; None where it has none yet.
    :param parked_at: when it came into that state.
    :param examined_at: when the scheduler last looked at the run.
    :param lingering: whether the process that parked it is known to be alive still.
    """

    state: str | None
    parked_at: datetime
    examined_at: datetime | None
    lingering: bool


def place_of(key: TaskKey) -> tuple[ColumnElement[bool], ...]:
    """What finds the task's row in Airflow's table."""
    return (
        TaskInstance.dag_id == key.dag_id,
        TaskInstance.run_id == key.run_id,
        TaskInstance.task_id == key.task_id,
        TaskInstance.map_index == key.map_index,
    )


def read_park(key: TaskKey) -> Park | None:
    """The task as Airflow has it now; None where it has no such task."""
    # Not the scoped session: closing that one would take a request's own objects away.
    with create_session(scoped=False) as session:
        row = session.execute(
            select(TaskInstance.state, TaskInstance.updated_at, DagRun.last_scheduling_decision)
            .join(TaskInstance.dag_run)
            .where(*place_of(key))
        ).one_or_none()
    if row is None:
        return None
    record = get_ledger().get_task(key)
    processes = LocalProcesses()
    process = (record.process if record else None) or ""
    return Park(
        state=row.state,
        parked_at=row.updated_at,
        examined_at=row.last_scheduling_decision,
        lingering=processes.is_neighbour(process) and not processes.proves_dead(process),
    )


def guard_park(key: TaskKey, *, now: datetime) -> Refusal | None:
    """Why the task cannot be woken now, or None: :func:`guard` over what Airflow knows."""
    park = read_park(key)
    return None if park is None else guard(park, now=now)


def guard(park: Park, *, now: datetime) -> Refusal | None:
    """Why a task that stands so cannot be woken now, or None, by the configured ``resume_guard``."""
    return judge_park(
        state=park.state,
        parked_at=park.parked_at,
        examined_at=park.examined_at,
        lingering=park.lingering,
        guard=load_settings().resume_guard,
        now=now,
    )


def judge_park(
    *,
    state: str | None,
    parked_at: datetime,
    examined_at: datetime | None,
    lingering: bool,
    guard: timedelta,
    now: datetime,
) -> Refusal | None:
    """
    The resume guard: Airflow fails a task that is answered before it has noticed its parked process end.

    A time alone is not enough on a busy machine. So, for the first half minute, the process has to be gone as
    far as this machine can tell, and the scheduler has to have looked at the run since.

    :param state: of Airflow's task instance.
    :param parked_at: when it came into that state.
    :param examined_at: when the scheduler last looked at the run.
    :param lingering: whether the parked process is known to be alive still.
    """
    if state != TaskInstanceState.AWAITING_INPUT:
        if state in (TaskInstanceState.RUNNING, TaskInstanceState.QUEUED, TaskInstanceState.SCHEDULED):
            return _too_early("The task is about to wait; answer again.", guard)
        return Refusal(status=409, detail=f"The task is {state or 'not started'} and waits for nobody.")
    age = now - parked_at
    if age < guard:
        return _too_early("The task has only just parked; answer again.", guard - age)
    unnoticed = examined_at is None or examined_at < parked_at + guard
    if age < _SETTLED and (lingering or unnoticed):
        return _too_early("The task's process is just ending; answer again.", _PAUSE)
    return None


def _too_early(detail: str, wait: timedelta) -> Refusal:
    return Refusal(status=409, detail=detail, retry_after=max(1, math.ceil(wait.total_seconds())))
