"""
The reconciler's part in buckets: pools that are missing are made again (semantics section 9, case A01).

Somebody may delete a pool while its tasks wait, or restore a database that has none of them; then these tasks
would wait for ever. Slots that a person has changed are that person's: they are told of, and left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import func, select

from louver.buckets.policy import pool_name
from louver_provider.buckets.pools import BucketPool, Change, make_pools, plan_pools, read_pools
from louver_provider.buckets.settings import BucketSettings, load_bucket_settings
from louver_provider.own_acts import note_pool

__all__ = ["MakePool", "PoolsSeen", "decide_pools", "look_at_pools", "make_pool"]

_UNFINISHED = tuple(state for state in State.unfinished if state is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePool:
    """
    Make the pool of a bucket.

    :param slots: as configured.
    """

    bucket: int
    slots: int
    why: str

    @property
    def pool(self) -> str:
        """Its name."""
        return pool_name(self.bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsSeen:
    """
    What there is to do about pools.

    :param missing: to be made.
    :param resized: Louver's own, with other slots than configured; drained ones are not among them.
    """

    missing: tuple[MakePool, ...] = ()
    resized: tuple[BucketPool, ...] = ()


def look_at_pools(*, now: datetime) -> PoolsSeen:
    """
    What there is to do in this Airflow; nothing without buckets, or where Louver is to make no pools.

    :raises ConfigurationError: where the options of buckets cannot be used.
    """
    settings = load_bucket_settings()
    if settings is None or not settings.provision:
        return PoolsSeen()
    plan = plan_pools(settings, read_pools())
    missing = [pool.pool for pool in plan if pool.change is Change.CREATE]
    return decide_pools(settings, plan, _waiting(missing), now=now)


def decide_pools(
    settings: BucketSettings, plan: Iterable[BucketPool], waiting: Mapping[str, int], *, now: datetime
) -> PoolsSeen:
    """
    Which of the missing pools are needed: those of the epoch in force, and those in which tasks wait.

    :param plan: of all buckets.
    :param waiting: how many unfinished tasks there are in missing pools, by name.
    """
    count = settings.policy.count_at(now) or 0
    missing, resized = [], []
    for pool in plan:
        if pool.change is Change.RESIZE:
            resized.append(pool)
        elif pool.change is Change.CREATE and (pool.bucket < count or waiting.get(pool.pool)):
            held = waiting.get(pool.pool, 0)
            why = f"it was missing; {held} unfinished tasks are in it"
            missing.append(MakePool(bucket=pool.bucket, slots=pool.slots, why=why))
    return PoolsSeen(missing=tuple(missing), resized=tuple(resized))


def make_pool(repair: MakePool) -> bool:
    """Make it, and write that down; False where it has come back meanwhile: it stays as it is."""
    with create_session(scoped=False) as session:
        if not make_pools(session, {repair.bucket: repair.slots}):
            return False
        note_pool(session, repair.pool, slots=repair.slots, reason=repair.why)
        return True


def _waiting(pools: Collection[str]) -> dict[str, int]:
    if not pools:
        return {}
    query = (
        select(TaskInstance.pool, func.count())
        .where(TaskInstance.pool.in_(pools))
        .where(TaskInstance.state.is_(None) | TaskInstance.state.in_(_UNFINISHED))
        .group_by(TaskInstance.pool)
    )
    with create_session(scoped=False) as session:
        return dict(tuple(row) for row in session.execute(query))
