"""
What is done once for a run, in the scheduler, as it starts: its pool is there, and a bad key is audited.

The cluster policy cannot do either: it is called for each task instance, in the middle of somebody else's
transaction, and must not touch a table. Here the scheduler tells of a run that begins to run, before any of
its tasks can be scheduled. What is written goes into the same transaction, by the session that holds the run;
no session is opened and none is committed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from louver.errors import ValueRefused
from louver_provider.buckets.routes import BucketRouter, Route
from louver_provider.own_acts import BUCKET_KEY_REFUSED, BUCKET_NOT_OWNED

__all__ = ["run_started"]

_TRUSTED = timedelta(seconds=30)
"""For so long a pool that was seen is not looked for again: somebody may delete it at any time."""


@dataclass(slots=True)
class _Seen:
    """
    The pools that this process has seen in the table.

    :param at: when it last looked.
    """

    pools: frozenset[str] = frozenset()
    at: datetime | None = None

    def has(self, pool: str, *, now: datetime) -> bool:
        """Whether it was there a moment ago."""
        # A clock that was set back makes it no younger.
        fresh = self.at is not None and timedelta(0) <= now - self.at < _TRUSTED
        return fresh and pool in self.pools


_SEEN = _Seen()


def run_started(router: BucketRouter, run: Any, *, now: datetime) -> None:
    """
    Look after a run that begins to run.

    :param run: a ``DagRun`` in a session.
    :param now: aware.
    """
    from sqlalchemy.orm import object_session

    session = object_session(run)
    if session is None:
        return
    try:
        route = router.route_of_run(run)
    except ValueRefused as refused:
        _audit(session, run, BUCKET_KEY_REFUSED, {"reason": str(refused)})
        return
    if route is None:
        return
    if router.settings.provision:
        _provide(session, router, route, now=now)
    if router.settings.owners and route.queue is None:
        _audit(session, run, BUCKET_NOT_OWNED, {"bucket": route.bucket})


def _provide(session: Any, router: BucketRouter, route: Route, *, now: datetime) -> None:
    """
    A task in a pool that does not exist waits for ever (case A01).

    There is no pool to fall back to: this one is made in the transaction in which the run begins to run, and
    one that is deleted later is made again by the reconciler.
    """
    if _SEEN.has(route.pool, now=now):
        return
    from airflow.models.pool import Pool
    from sqlalchemy import select

    from louver_provider.buckets.pools import make_pools

    names = [one.pool for one in router.routes]
    _SEEN.pools = frozenset(session.scalars(select(Pool.pool).where(Pool.pool.in_(names))))
    _SEEN.at = now
    if route.pool not in _SEEN.pools:
        # What is made is not remembered: it is gone again if the scheduler rolls back.
        slots = router.settings.slots
        missing = [one.bucket for one in router.routes if one.pool not in _SEEN.pools]
        make_pools(session, {bucket: slots.of(bucket) for bucket in missing})


def _audit(session: Any, run: Any, event: str, extra: dict[str, Any]) -> None:
    from airflow.models.log import Log

    session.add(
        Log(event=event, dag_id=run.dag_id, run_id=run.run_id, owner="louver", extra=json.dumps(extra))
    )
