"""
Whether the cluster policy really acts in this process: a task instance that exists nowhere is sent through.

That a policy is registered proves nothing: Airflow may never call it, or other policies may undo what it did
(cases A09 and A13). So this asks Airflow's own hook, as Airflow does when it creates a task instance.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from louver_provider.buckets.routes import DEFAULT_POOL, BucketRouter

__all__ = ["probe_policy"]

_DAG = "louver_probe"
_RUN = "probe"


def probe_policy(*, now: datetime) -> str | None:
    """
    What keeps the policy from acting in this process; None where it acts, or where there are no buckets.

    :param now: stands for the time at which the run is created.
    """
    from airflow import settings

    from louver.errors import LouverError
    from louver_provider.buckets.settings import load_bucket_settings
    from louver_provider.cluster_policies import installed

    try:
        configured = load_bucket_settings()
    except LouverError as error:
        return str(error)
    router = installed()
    if configured is None:
        return None if router is None else "buckets are no longer configured, and are still routed here"
    if router is None:
        return "the policy is not registered"
    if getattr(settings.task_instance_mutation_hook, "is_noop", False):
        return "Airflow does not call the policy when it creates task instances"
    found = _example(router, now)
    if found is None:
        return None
    dag_id, conf = found
    return _send_through(router, dag_id, conf, now)


def _example(router: BucketRouter, now: datetime) -> tuple[str, dict[str, Any]] | None:
    """A Dag and a conf with a key; None where no run can have one."""
    if router.settings.policy.count_at(now) is None:
        return None
    keys = router.settings.keys
    for dag_id, rule in (*keys.by_dag.items(), (_DAG, keys.usual)):
        if rule.fixed is not None:
            return dag_id, {}
        if rule.path:
            conf: Any = "tenant-A"
            for part in reversed(rule.path):
                conf = {part: conf}
            return dag_id, conf
    return None


def _send_through(router: BucketRouter, dag_id: str, conf: dict[str, Any], now: datetime) -> str | None:
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.types import DagRunType

    with DAG(dag_id, schedule=None) as dag:
        EmptyOperator(task_id="probe")
    known = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    run = DagRun(dag_id=dag_id, run_id=_RUN, run_type=DagRunType.MANUAL, conf=conf, run_after=now)
    run.created_at = now
    ti = TaskInstance(known.get_task("probe"), run_id=_RUN, map_index=-1, dag_version_id=UUID(int=0))
    wanted = router.route_of_run(run)
    before = ti.pool
    settings.task_instance_mutation_hook(ti, dag_run=run)
    if wanted is None or ti.pool == wanted.pool:
        return None
    if before != DEFAULT_POOL:
        return f"another policy gives every task instance the pool {before!r}, which buckets do not replace"
    return f"another policy gave the task instance the pool {ti.pool!r} in place of {wanted.pool!r}"
