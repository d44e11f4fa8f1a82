"""
Which pool and which queue the tasks of a run belong into.

Made once a process, with everything that can be worked out beforehand: it decides for every task instance
that Airflow makes, so each decision has to be a matter of microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.configuration import conf as airflow_conf

from louver.buckets.keys import KeyRule
from louver.buckets.policy import pool_name
from louver_provider.buckets.declared import declared_by
from louver_provider.buckets.settings import BucketSettings

__all__ = ["DEFAULT_POOL", "BucketRouter", "Route"]

DEFAULT_POOL = "default_pool"
"""``Pool.DEFAULT_POOL_NAME``; Airflow's models cannot be imported yet where a policy is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """
    Where the tasks of a run go.

    :param bucket: its number.
    :param pool: its pool.
    :param queue: that of its owner; None where nobody owns it.
    """

    bucket: int
    pool: str
    queue: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRouter:
    """
    Decides, and applies what it decided.

    :param settings: what is configured.
    :param routes: by bucket, of all that there are in any epoch.
    :param pools: the names that it may replace; None where it may replace all.
    :param queues: the same of queues.
    """

    settings: BucketSettings
    routes: tuple[Route, ...]
    pools: frozenset[str] | None
    queues: frozenset[str]

    @classmethod
    def configured(cls, settings: BucketSettings) -> BucketRouter:
        """The router for these settings."""
        routes = tuple(
            Route(bucket=bucket, pool=pool_name(bucket), queue=settings.owners.owner_of(bucket))
            for bucket in range(settings.policy.most)
        )
        default_queue = airflow_conf.get("operators", "default_queue", fallback="default")
        return cls(
            settings=settings,
            routes=routes,
            pools=None
            if settings.override_pools
            else frozenset([DEFAULT_POOL, *(route.pool for route in routes)]),
            queues=frozenset([default_queue, *settings.owners.nodes]),
        )

    def route(
        self, dag_id: str, conf: Any, created: datetime, *, declared: KeyRule | None = None
    ) -> Route | None:
        """
        Where the tasks of a run go.

        :param conf: of the run.
        :param created: when the run was created, aware: a clear does not change that, so a run never moves.
        :param declared: where its key is, by the Dag's own word.
        :returns: None where the run is in no bucket: it has no key, or is older than all buckets.
        :raises ValueRefused: where it has a key that cannot be used.
        """
        digest = self.settings.keys.of(dag_id, declared).digest(conf)
        if digest is None:
            return None
        count = self.settings.policy.count_at(created)
        return None if count is None else self.routes[digest % count]

    def route_of_run(self, run: Any, *, dag: Any = None) -> Route | None:
        """
        :meth:`route`, of a ``DagRun``.

        :param dag: the serialized Dag, where the run does not have it.

        All of it is there, since Airflow has just written the row, or read it. An attribute that is not would
        be read by the session that holds the run.
        """
        known = run.__dict__
        try:
            conf = known["conf"]
        except KeyError:
            conf = run.conf
        created = known.get("created_at") or run.created_at or run.run_after
        dag = known.get("dag") or dag
        declared = declared_by(dag.tags) if dag is not None else None
        return self.route(known.get("dag_id") or run.dag_id, conf, created, declared=declared)

    def apply(self, task_instance: Any, run: Any) -> None:
        """
        Give a task instance its pool and its queue, unless it names its own.

        :raises ValueRefused: as :meth:`route`; the task instance is as it was then.
        """
        pools, pool = self.pools, task_instance.pool
        replaceable = pools is None or pool in pools
        if not replaceable and not self.settings.owners:
            return
        task = task_instance.__dict__.get("task")
        route = self.route_of_run(run, dag=None if task is None else task.dag)
        if route is None:
            return
        if replaceable and pool != route.pool:
            task_instance.pool = route.pool
        # Each by itself: a task with a pool of its own still belongs to the bucket's node.
        if route.queue is not None and task_instance.queue in self.queues:
            task_instance.queue = route.queue
