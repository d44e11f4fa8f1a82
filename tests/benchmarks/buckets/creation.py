"""Task instances as Airflow creates them: seconds for so many, under each policy in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.buckets.policies import POLICIES

__all__ = ["Creation", "measure_creation"]

_TASKS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """
    What it took to create so many task instances, by policy and round.

    :param elapsed: seconds.
    :param cpu: seconds of this process alone, which other processes on the machine disturb less.
    """

    elapsed: Mapping[str, Sequence[float]]
    cpu: Mapping[str, Sequence[float]]


def measure_creation(*, tasks: int, rounds: int, say: Callable[[str], None]) -> Creation:
    """
    Create them.

    :param tasks: task instances in each round and policy; a multiple of 500, which one run has.
    """
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG
    from airflow.utils.session import create_session
    from sqlalchemy import text
    from support.airflow_rows import AirflowRows

    rows = AirflowRows()
    with DAG("bench", schedule=None) as dag:
        for number in range(_TASKS):
            EmptyOperator(task_id=f"t{number}")
    rows.deploy(dag)
    conf = {"tenant": "tenant-A"}
    elapsed: dict[str, list[float]] = {name: [] for name in POLICIES}
    cpu: dict[str, list[float]] = {name: [] for name in POLICIES}
    for number in range(rounds):
        say(f"creation: round {number + 1} of {rounds}")
        for taken in (elapsed, cpu):
            for name in POLICIES:
                taken[name].append(0.0)
        # One run each, in turns: what disturbs the machine for a second disturbs all of them.
        for run in range(tasks // _TASKS):
            for name in _in_turns(run):
                with POLICIES[name]():
                    began, busy = time.perf_counter(), time.process_time()
                    _create(f"{name}-{run}", conf)
                    elapsed[name][-1] += time.perf_counter() - began
                    cpu[name][-1] += time.process_time() - busy
        for name in POLICIES:
            with create_session(scoped=False) as session:
                query = text("SELECT DISTINCT pool FROM task_instance WHERE run_id LIKE :run")
                pools = set(session.scalars(query, {"run": f"{name}-%"}))
            if pools != {"bucket_07" if name == "louver" else "default_pool"}:
                raise RuntimeError(f"policy {name} left the tasks in {pools}")
        rows.clear()
    return Creation(elapsed=elapsed, cpu=cpu)


def _in_turns(number: int) -> list[str]:
    """Each policy comes first as often as any other."""
    names = list(POLICIES)
    first = number % len(names)
    return names[first:] + names[:first]


def _create(run_id: str, conf: dict[str, Any]) -> None:
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    trigger_dag(dag_id="bench", run_id=run_id, conf=conf, triggered_by=DagRunTriggeredByType.TEST)
