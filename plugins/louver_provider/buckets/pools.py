"""
The pools of the buckets: what should be there, what is, and what makes one of the other.

A pool of ours is known by its name and its description. ``default_pool`` and every other pool are never
touched, nor is one that has a bucket's name and somebody else's description. A pool that somebody has drained
(0 slots) stays so until it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow.models.pool import Pool
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from louver.buckets.policy import pool_name
from louver_provider.buckets.settings import BucketSettings

__all__ = [
    "BucketPool",
    "Change",
    "FoundPool",
    "apply_pools",
    "describe_pool",
    "make_pools",
    "plan_pools",
    "read_pools",
]


class Change(str, Enum):
    """
    What is to be done with a bucket's pool.

    ``create``: it is missing. ``resize``: it has other slots than configured. ``undrain``: the same, of one
    that was drained. ``none``: it is as it should be. ``drained``: somebody has drained it, and nobody has
    asked for an end of that. ``foreign``: its name is taken by a pool that is not Louver's.
    """

    CREATE = "create"
    RESIZE = "resize"
    UNDRAIN = "undrain"
    NONE = "none"
    DRAINED = "drained"
    FOREIGN = "foreign"

    def __str__(self) -> str:
        return self.value

    @property
    def writes(self) -> bool:
        """Whether anything is written."""
        return self in (Change.CREATE, Change.RESIZE, Change.UNDRAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPool:
    """
    A pool as Airflow has it.

    :param slots: -1 for no limit.
    """

    pool: str
    slots: int
    description: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPool:
    """
    A bucket's pool, as it is and as it should be.

    :param slots: as configured.
    :param found: the slots that it has; None where it is missing.
    """

    bucket: int
    slots: int
    found: int | None
    change: Change

    @property
    def pool(self) -> str:
        """Its name."""
        return pool_name(self.bucket)


def describe_pool(bucket: int) -> str:
    """The description by which a pool is known as Louver's."""
    return f"Louver bucket {bucket}"


def plan_pools(
    settings: BucketSettings, found: Mapping[str, FoundPool], *, undrain: bool = False
) -> list[BucketPool]:
    """
    What to do, for each bucket of any epoch.

    :param found: Airflow's pools, by name.
    :param undrain: give slots back to drained pools too.
    """
    plan = []
    for bucket in range(settings.policy.most):
        slots, pool = settings.slots.of(bucket), found.get(pool_name(bucket))
        plan.append(
            BucketPool(
                bucket=bucket,
                slots=slots,
                found=None if pool is None else pool.slots,
                change=_change(bucket, slots, pool, undrain=undrain),
            )
        )
    return plan


def _change(bucket: int, slots: int, pool: FoundPool | None, *, undrain: bool) -> Change:
    if pool is None:
        return Change.CREATE
    if pool.description != describe_pool(bucket):
        return Change.FOREIGN
    if pool.slots == slots:
        return Change.NONE
    if pool.slots == 0:
        return Change.UNDRAIN if undrain else Change.DRAINED
    return Change.RESIZE


def read_pools() -> dict[str, FoundPool]:
    """All pools of this Airflow, by name."""
    with create_session(scoped=False) as session:
        rows = session.execute(select(Pool.pool, Pool.slots, Pool.description)).all()
    return {name: FoundPool(pool=name, slots=slots, description=text) for name, slots, text in rows}


def apply_pools(plan: Iterable[BucketPool]) -> None:
    """Do what is planned, in one transaction; whoever else does it at the same time does no harm."""
    writing = [pool for pool in plan if pool.change.writes]
    if not writing:
        return
    with create_session(scoped=False) as session:
        missing = {pool.bucket: pool.slots for pool in writing if pool.change is Change.CREATE}
        if missing:
            make_pools(session, missing)
        for pool in writing:
            if pool.change is Change.CREATE:
                continue
            # By description too: it may have changed hands since it was read.
            query = select(Pool).where(Pool.pool == pool.pool, Pool.description == describe_pool(pool.bucket))
            row = session.scalars(query).one_or_none()
            if row is not None:
                row.slots = pool.slots


def make_pools(session: Any, slots: Mapping[int, int]) -> int:
    """
    Make pools of buckets in a transaction of somebody else; those that are there stay as they are.

    Never through a savepoint: inside the scheduler that counts as a commit, which it does not allow. And all
    in one statement, by number: two schedulers that made them one by one could wait for each other.

    :param slots: of each bucket whose pool is to be there.
    :returns: how many were made.
    """
    rows = [
        {
            "pool": pool_name(bucket),
            "slots": slots[bucket],
            "description": describe_pool(bucket),
            "include_deferred": False,
        }
        for bucket in sorted(slots)
    ]
    insert = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}.get(session.get_bind().dialect.name)
    if insert is not None:
        statement: Any = insert(Pool).values(rows)
        done = session.execute(statement.on_conflict_do_nothing(index_elements=[Pool.pool]))
        return int(done.rowcount)
    known = set(session.scalars(select(Pool.pool)))
    missing = [Pool(**row) for row in rows if row["pool"] not in known]
    session.add_all(missing)
    return len(missing)
