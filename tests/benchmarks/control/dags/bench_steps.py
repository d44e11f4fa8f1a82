"""
Airflow Dags of the control benchmark.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow.sdk import Param, task

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag

TABLE = Path(os.environ["AIRFLOW_HOME"]) / "bench.db"
"""When code of a step began to run, and which runs may end."""

PAIRS = 10


def count(ctx: Any, seconds: float) -> int:
    """Say that it runs; then come by checkpoints until the benchmark has seen enough."""
    with closing(sqlite3.connect(TABLE, timeout=60, isolation_level=None)) as connection:
        connection.execute("INSERT INTO begun VALUES (?, ?)", [ctx.run_id, time.time()])
        ctx.checkpoint(1)
        # In case the benchmark has gone.
        for _ in range(6000):
            ctx.checkpoint()
            if connection.execute("SELECT 1 FROM enough WHERE run_id = ?", [ctx.run_id]).fetchone():
                break
            time.sleep(seconds)
    return 1


def nothing() -> None:
    """What a task does that costs nothing."""


# One task of a run at a time: the second step runs only while the first one has given its slot back.
slot = build_dag(
    Definition(
        name="slot",
        version="1.0.0",
        params=["seconds"],
        nodes=[
            Step(name="work", task="bench:count", params={"seconds": "seconds"}, priority=10),
            Step(name="other", task="bench:nothing"),
        ],
    ),
    tasks={"bench:count": count, "bench:nothing": nothing},
    params={"seconds": Param(0.05, type="number")},
    max_active_tasks=1,
    max_active_runs=1,
)

# Steps and plain tasks of Airflow in turns, one at a time: what disturbs the machine disturbs both.
pairs = build_dag(
    Definition(
        name="pairs",
        version="1.0.0",
        nodes=[
            Step(
                name=f"step_{number}",
                task="bench:nothing",
                after=[f"step_{number - 1}"] if number else [],
            )
            for number in range(PAIRS)
        ],
    ),
    tasks={"bench:nothing": nothing},
    max_active_runs=1,
)

with pairs:
    for number in range(PAIRS):
        plain = task(task_id=f"plain_{number}")(nothing)()
        plain.set_upstream(pairs.get_task(f"step_{number}"))
        if number + 1 < PAIRS:
            plain.set_downstream(pairs.get_task(f"step_{number + 1}"))
