"""
Airflow Dags of the tests: runs that something happens to which no process of theirs can record.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, get_current_context, task
from ended_work import TABLE, count_failure

from louver.definition import Definition, Step
from louver.timeouts import Timeouts
from louver_provider.dag_builder import build_dag


def acting(name: str) -> DAG:
    """Acts, then waits, then acts no more."""
    return build_dag(
        Definition(
            name=name,
            version="1.0.0",
            nodes=[
                Step(name="act", task="ended_work:act"),
                Step(name="wait", task="ended_work:wait", after=["act"]),
                Step(name="after", task="ended_work:wait", after=["wait"]),
            ],
        ),
    )


killed = acting("killed")
marked = acting("marked")
deleted = acting("deleted")

# As an argument it is refused, for what it does; a Dag may still have it.
timed_out = acting("timed_out")
timed_out.dagrun_timeout = timedelta(seconds=25)

holding = build_dag(
    Definition(
        name="holding",
        version="1.0.0",
        nodes=[
            Step(name="hold", task="ended_work:hold", timeouts=Timeouts(attempt=timedelta(seconds=3))),
        ],
    ),
    default_args={"on_failure_callback": count_failure},
)

late = build_dag(
    Definition(
        name="late",
        version="1.0.0",
        nodes=[Step(name="start", task="ended_work:wait", timeouts=Timeouts(start=timedelta(seconds=3)))],
    ),
    default_args={"pool": "narrow", "on_failure_callback": count_failure},
)

with DAG("blocker", schedule=None) as blocker:

    @task(pool="narrow")
    def block() -> None:
        """Hold the only slot of the pool until the test says so."""
        import time

        go = Path(TABLE.parent / f"go-{get_current_context()['run_id']}")
        while not go.exists():
            time.sleep(0.2)

    block()
