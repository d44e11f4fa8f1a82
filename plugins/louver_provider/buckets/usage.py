"""What is going on in the buckets, as Airflow's own tables have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import func, select

from louver.buckets.policy import pool_name
from louver.errors import ValueRefused
from louver.ledger.names import RunKey
from louver.ledger.records import RunRecord
from louver_provider.buckets.declared import declared_for
from louver_provider.buckets.routes import BucketRouter
from louver_provider.buckets.settings import require_bucket_settings

__all__ = ["BucketUsage", "in_buckets", "read_usage"]

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


def in_buckets(pages: Iterable[list[RunRecord]], buckets: Collection[int]) -> Iterator[list[RunRecord]]:
    """
    Those of the runs that are in one of these buckets, page by page.

    By the pools of their tasks, which stay what they were when somebody edits the settings; and by their own
    keys, since all tasks of a run may name pools of their own.
    """
    router = BucketRouter.configured(require_bucket_settings())
    inside = _runs_in_pools(pool_name(bucket) for bucket in buckets)
    for page in pages:
        keyed = _runs_with_keys(router, [run.key for run in page if run.key not in inside], buckets)
        yield [run for run in page if run.key in inside or run.key in keyed]


def _runs_with_keys(router: BucketRouter, runs: Sequence[RunKey], buckets: Collection[int]) -> set[RunKey]:
    dags = sorted({run.dag_id for run in runs})
    query = select(DagRun.dag_id, DagRun.run_id, DagRun.conf, DagRun.created_at, DagRun.run_after).where(
        DagRun.dag_id.in_(dags), DagRun.run_id.in_([run.run_id for run in runs])
    )
    declared = {dag_id: declared_for(dag_id) for dag_id in dags}
    wanted, found = set(runs), set()
    with create_session(scoped=False) as session:
        for dag_id, run_id, conf, created, after in session.execute(query):
            try:
                route = router.route(dag_id, conf, created or after, declared=declared[dag_id])
            except ValueRefused:
                continue
            if route is not None and route.bucket in buckets and RunKey(dag_id, run_id) in wanted:
                found.add(RunKey(dag_id, run_id))
    return found


def _runs_in_pools(pools: Iterable[str]) -> set[RunKey]:
    """The runs that have a task in one of these pools."""
    query = select(TaskInstance.dag_id, TaskInstance.run_id).where(TaskInstance.pool.in_(tuple(pools)))
    with create_session(scoped=False) as session:
        return {RunKey(dag_id, run_id) for dag_id, run_id in session.execute(query.distinct())}
