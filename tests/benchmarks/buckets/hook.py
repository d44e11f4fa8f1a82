"""The hook alone: microseconds for each task instance."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from statistics import median
from typing import Any
from uuid import UUID

from benchmarks.buckets.policies import foreign, louver

__all__ = ["measure_hook"]

_BATCH = 200
_NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


def measure_hook(*, batches: int) -> dict[str, float]:
    """
    Medians over batches of calls, in microseconds.

    :returns: ``louver``: Louver's own function, for a task instance that is routed. ``louver, no key``: the
        same of a run without one. ``airflow + louver`` and ``airflow + empty``: Airflow's hook with it, and
        with a policy that does nothing.
    """
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.types import DagRunType

    from louver_provider.cluster_policies import PLUGIN

    with DAG("bench", schedule=None) as dag:
        EmptyOperator(task_id="one")
    task = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).get_task("one")
    tis = [
        TaskInstance(task, run_id="r", map_index=index, dag_version_id=UUID(int=0)) for index in range(_BATCH)
    ]

    def run_with(conf: dict[str, Any]) -> Any:
        made = DagRun(dag_id="bench", run_id="r", run_type=DagRunType.MANUAL, conf=conf, run_after=_NOW)
        made.created_at = _NOW
        return made

    routed, plain = run_with({"tenant": "tenant-A", "order": 7}), run_with({"order": 7})
    hook: Any = settings.task_instance_mutation_hook
    taken: dict[str, list[float]] = {}

    def take(name: str, call: Callable[[Any, Any], Any], run: Any) -> None:
        for ti in tis:
            ti.pool = "default_pool"
        began = time.perf_counter()
        for ti in tis:
            call(ti, run)
        taken.setdefault(name, []).append((time.perf_counter() - began) / _BATCH * 1e6)

    for _ in range(batches):
        with louver():
            own = settings.get_policy_plugin_manager().get_plugin(PLUGIN).task_instance_mutation_hook
            take("louver", own, routed)
            take("louver, no key", own, plain)
            take("airflow + louver", hook, routed)
        with foreign():
            take("airflow + empty", hook, routed)
    return {name: median(samples) for name, samples in taken.items()}
