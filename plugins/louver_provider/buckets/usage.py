"""What is going on in the buckets, as Airflow's own tables have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import func, select

from louver.ledger.names import RunKey

__all__ = ["BucketUsage", "read_usage", "runs_in_pools"]

_COLUMNS = {
    TaskInstanceState.RUNNING: "running",
    TaskInstanceState.RESTARTING: "running",
    TaskInstanceState.QUEUED: "queued",
    TaskInstanceState.SCHEDULED: "waiting",
    TaskInstanceState.AWAITING_INPUT: "parked",
    TaskInstanceState.DEFERRED: "parked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUsage:
    """
    The tasks in one pool.

    :param running: at work.
    :param queued: handed to an executor; they hold slots too.
    :param waiting: ready, and without a slot.
    :param parked: waiting for a person or a moment; they hold no slot.
    :param taken: slots that are held.
    :param oldest: since when the one that waits or is queued longest does so; aware.
    """

    running: int = 0
    queued: int = 0
    waiting: int = 0
    parked: int = 0
    taken: int = 0
    oldest: datetime | None = None


def read_usage(pools: Iterable[str]) -> dict[str, BucketUsage]:
    """What is going on in these pools; of a pool without tasks there is nothing."""
    query = (
        select(
            TaskInstance.pool,
            TaskInstance.state,
            func.count(),
            func.sum(TaskInstance.pool_slots),
            func.min(func.coalesce(TaskInstance.scheduled_dttm, TaskInstance.queued_dttm)),
        )
        .where(TaskInstance.pool.in_(tuple(pools)), TaskInstance.state.in_(tuple(_COLUMNS)))
        .group_by(TaskInstance.pool, TaskInstance.state)
    )
    counted: dict[str, dict[str, int]] = {}
    oldest: dict[str, datetime] = {}
    with create_session(scoped=False) as session:
        for pool, state, count, slots, since in session.execute(query):
            column = _COLUMNS[TaskInstanceState(state)]
            row = counted.setdefault(pool, {})
            row[column] = row.get(column, 0) + count
            if column in ("running", "queued"):
                row["taken"] = row.get("taken", 0) + slots
            if column in ("waiting", "queued") and since is not None:
                oldest[pool] = min(since, oldest.get(pool, since))
    return {pool: BucketUsage(**row, oldest=oldest.get(pool)) for pool, row in counted.items()}


def runs_in_pools(pools: Iterable[str]) -> set[RunKey]:
    """The runs that have a task in one of these pools."""
    query = select(TaskInstance.dag_id, TaskInstance.run_id).where(TaskInstance.pool.in_(tuple(pools)))
    with create_session(scoped=False) as session:
        return {RunKey(dag_id, run_id) for dag_id, run_id in session.execute(query.distinct())}
