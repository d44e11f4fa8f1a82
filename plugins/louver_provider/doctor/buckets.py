"""Checks of buckets: pools that are missing or too small, owners, and queues that nobody serves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import func, select

from louver.buckets.owners import ranges_text
from louver.buckets.policy import pool_name
from louver_provider.buckets.declared import declared_by
from louver_provider.buckets.pools import Change, FoundPool, plan_pools
from louver_provider.buckets.routes import DEFAULT_POOL
from louver_provider.buckets.settings import BucketSettings
from louver_provider.doctor.findings import Finding, some
from louver_provider.doctor.known_dags import known_dags

__all__ = [
    "Waiting",
    "check_default_pool",
    "check_owners",
    "check_pools",
    "check_queues",
    "check_sizes",
    "check_unknown_pools",
    "large_tasks",
    "read_waiting",
    "smallest",
]

_UNFINISHED = tuple(state for state in State.unfinished if state is not None)

_APPLY = "airflow louver buckets apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """
    Unfinished tasks of one pool, one queue and one size.

    :param slots: that each of them takes.
    :param example: one of them, as ``dag run task``.
    """

    pool: str
    queue: str
    slots: int
    count: int
    example: str


def read_waiting() -> list[Waiting]:
    """All unfinished tasks of this Airflow, grouped."""
    task = func.min(TaskInstance.dag_id + " " + TaskInstance.run_id + " " + TaskInstance.task_id)
    query = (
        select(TaskInstance.pool, TaskInstance.queue, TaskInstance.pool_slots, func.count(), task)
        .where(TaskInstance.state.is_(None) | TaskInstance.state.in_(_UNFINISHED))
        .group_by(TaskInstance.pool, TaskInstance.queue, TaskInstance.pool_slots)
    )
    with create_session(scoped=False) as session:
        return [
            Waiting(pool=pool, queue=queue or "", slots=slots or 1, count=count, example=example)
            for pool, queue, slots, count, example in session.execute(query)
        ]


def large_tasks(settings: BucketSettings) -> dict[str, int]:
    """
    Tasks of all Dags that may go into buckets, and take more slots than the smallest has.

    :returns: slots by ``dag task``.
    """
    least = smallest(settings)
    return {
        f"{dag.dag_id} {task.task_id}": task.pool_slots
        for dag in known_dags()
        if settings.keys.of(dag.dag_id, declared_by(dag.tags)).leads_somewhere
        for task in dag.task_dict.values()
        if task.pool_slots > least and (settings.override_pools or task.pool == DEFAULT_POOL)
    }


def check_default_pool(found: Mapping[str, FoundPool]) -> Iterator[Finding]:
    """Airflow's own pool is there (case A02)."""
    if DEFAULT_POOL not in found:
        yield Finding.error(
            "pools",
            f"{DEFAULT_POOL} is missing: no task without a pool of its own is started",
            mend="airflow db migrate, which makes it again; or airflow pools set default_pool 128 ''",
        )


def check_unknown_pools(found: Mapping[str, FoundPool], waiting: Iterable[Waiting]) -> Iterator[Finding]:
    """No task waits in a pool that does not exist (case A01)."""
    for pool in sorted({group.pool for group in waiting} - set(found)):
        groups = [group for group in waiting if group.pool == pool]
        yield Finding.error(
            "pools",
            f"{sum(group.count for group in groups)} tasks wait in pool {pool!r}, which does not exist, "
            f"as {groups[0].example}",
            mend=_APPLY if pool.startswith("bucket_") else f"airflow pools set {pool} SLOTS ''",
        )


def check_pools(settings: BucketSettings, found: Mapping[str, FoundPool]) -> Iterator[Finding]:
    """Every bucket has its pool, and it is Louver's."""
    by_change: dict[Change, list[int]] = {}
    for pool in plan_pools(settings, found):
        by_change.setdefault(pool.change, []).append(pool.bucket)
    for change, buckets in by_change.items():
        what = ranges_text(buckets)
        if change is Change.CREATE:
            if settings.provision:
                what = f"buckets {what} have no pool; the scheduler makes one when a run needs it"
                yield Finding.warning("pools", what, mend=_APPLY)
            else:
                what = f"buckets {what} have no pool, and [louver] bucket_provision is off"
                yield Finding.error("pools", what, mend=_APPLY)
        elif change is Change.FOREIGN:
            yield Finding.error(
                "pools",
                f"the pools of buckets {what} were not made by Louver, which does not touch them",
                mend=f"remove or rename them, then {_APPLY}",
            )
        elif change is Change.DRAINED:
            yield Finding.warning(
                "pools",
                f"buckets {what} are drained: nothing new begins in them",
                mend=f"{_APPLY} --undrain, when they are to go on",
            )
        elif change is Change.RESIZE:
            yield Finding.warning(
                "pools", f"buckets {what} have other slots than [louver] bucket_slots", mend=_APPLY
            )
        else:
            yield Finding.fine("pools", f"buckets {what} have their pools")


def check_sizes(
    settings: BucketSettings,
    found: Mapping[str, FoundPool],
    waiting: Iterable[Waiting],
    large: Mapping[str, int],
) -> Iterator[Finding]:
    """
    No task takes more slots than its pool has (case A18): it would wait for ever.

    :param large: tasks of Dags with more slots than the smallest bucket, by :func:`large_tasks`.
    """
    for group in waiting:
        pool = found.get(group.pool)
        # A drained pool is meant to hold its tasks; -1 is no limit.
        if pool is not None and 0 < pool.slots < group.slots:
            yield Finding.error(
                "sizes",
                f"{group.count} tasks take {group.slots} slots each of pool {group.pool}, which has "
                f"{pool.slots}, as {group.example}",
                mend=f"give the pool {group.slots} slots, or the tasks fewer pool_slots, and clear them",
            )
    if large:
        named = some(f"{task} ({slots})" for task, slots in large.items())
        yield Finding.warning(
            "sizes",
            f"tasks take more slots than the smallest bucket has, which is {smallest(settings)}, and would "
            f"wait for ever in it: {named}",
            mend="give buckets more in [louver] bucket_slots, or the tasks fewer pool_slots or a pool of "
            "their own; or leave their Dags out by bucket_key_by_dag",
        )


def smallest(settings: BucketSettings) -> int:
    """The slots of the smallest bucket that is not drained; 0 where all are."""
    slots = (settings.slots.of(bucket) for bucket in range(settings.policy.most))
    return min((count for count in slots if count), default=0)


def check_owners(settings: BucketSettings, waiting: Iterable[Waiting]) -> Iterator[Finding]:
    """Every bucket has exactly one owner, where any has (row T17)."""
    owners, most = settings.owners, settings.policy.most
    if not owners:
        return
    groups = list(waiting)
    gaps = owners.gaps(most)
    if gaps:
        wait = _held(groups, gaps)
        yield Finding.error(
            "owners",
            f"nobody owns buckets {ranges_text(gaps)}{wait}",
            mend="name an owner in [louver] bucket_owners and restart all components; clear what waits, so "
            "that it gets the owner's queue",
        )
    for bucket, nodes in owners.overlaps().items():
        wait = _held(groups, [bucket])
        yield Finding.error(
            "owners",
            f"bucket {bucket} is claimed by {', '.join(nodes)}; its tasks go to {nodes[0]}{wait}",
            mend="leave it to one of them in [louver] bucket_owners",
        )
    beyond = owners.beyond(most)
    if beyond:
        yield Finding.warning(
            "owners",
            f"buckets {ranges_text(beyond)} have owners, and there are only {most}",
            mend="append an epoch to [louver] buckets, or take them out of bucket_owners",
        )
    if not gaps and not owners.overlaps():
        yield Finding.fine("owners", f"each of the {most} buckets has one owner")


def _held(waiting: Iterable[Waiting], buckets: Iterable[int]) -> str:
    """What is in these buckets, for the end of a sentence."""
    pools = {pool_name(bucket) for bucket in buckets}
    held = [group for group in waiting if group.pool in pools]
    if not held:
        return ""
    return f"; {sum(group.count for group in held)} tasks are in there, as {held[0].example}"


def check_queues(
    settings: BucketSettings,
    waiting: Iterable[Waiting],
    served: Collection[str] | None,
    *,
    one_place: bool = False,
) -> Iterator[Finding]:
    """
    Somebody serves every queue into which tasks are sent.

    :param served: the queues that workers serve; None where that cannot be asked.
    :param one_place: the executor runs all tasks where the scheduler is, whatever their queue.
    """
    nodes = set(settings.owners.nodes)
    if one_place:
        if nodes:
            yield Finding.warning(
                "queues",
                "the executor runs the tasks of all queues beside the scheduler; owners change nothing",
                mend="use an executor with queues, as the CeleryExecutor, or empty [louver] bucket_owners",
            )
        return
    if served is None:
        if nodes:
            yield Finding.warning(
                "queues",
                f"whether workers serve the queues of {some(nodes)} cannot be asked of this executor",
                mend="see to it that a worker of each node serves the queue of its name",
            )
        return
    for queue in sorted({*nodes, *(group.queue for group in waiting)} - set(served) - {""}):
        groups = [group for group in waiting if group.queue == queue]
        wait = (
            f"; {sum(one.count for one in groups)} tasks are in it, as {groups[0].example}" if groups else ""
        )
        yield Finding.error(
            "queues",
            f"no worker serves queue {queue!r}{wait}",
            mend=f"start one that does: airflow celery worker --queues {queue}",
        )
