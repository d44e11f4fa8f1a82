"""
Airflow Dags of the tests: steps that take as long as they are told, to be paused, resumed and stopped.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow.sdk import Param

from louver.definition import ApprovalNode, Definition, Step
from louver_provider.dag_builder import build_dag

DONE = Path(os.environ["AIRFLOW_HOME"]) / "control.db"
"""What was done, one row each time: a row done twice stands there twice."""


def _do(run_id: str, number: int, seconds: float) -> None:
    """Do a row: slowly, until the test says that it has seen enough of that."""
    with closing(sqlite3.connect(DONE, timeout=60, isolation_level=None)) as connection:
        # What a test kills are processes: the system keeps what they have written.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE IF NOT EXISTS done (run_id, number)")
        connection.execute("CREATE TABLE IF NOT EXISTS hurry (run_id)")
        if connection.execute("SELECT 1 FROM hurry WHERE run_id = ?", [run_id]).fetchone() is None:
            time.sleep(seconds)
        connection.execute("INSERT INTO done VALUES (?, ?)", [run_id, number])


def count(ctx: Any, rows: int, seconds: float) -> int:
    """Do rows one by one, each saved as soon as it is done."""
    for number in range(ctx.restore(0), rows):
        _do(ctx.run_id, number, seconds)
        ctx.progress(number + 1, rows, unit="rows")
        ctx.checkpoint(number + 1)
    return rows


def tick(ctx: Any, rows: int, seconds: float) -> int:
    """Do the same without saving anything: it can only pause in place."""
    for number in range(rows):
        _do(ctx.run_id, number, seconds)
        ctx.checkpoint()
    return rows


def finish() -> str:
    """Come last."""
    return "finished"


def build(name: str, body: Callable[..., int]) -> Any:
    """A step that does rows, and one that comes after it."""
    step = Step(name="work", task="tests:work", params={"rows": "rows", "seconds": "seconds"})
    return build_dag(
        Definition(
            name=name,
            version="1.0.0",
            params=["rows", "seconds"],
            nodes=[step, Step(name="finish", task="tests:finish", after=["work"])],
        ),
        tasks={"tests:work": body, "tests:finish": finish},
        params={"rows": Param(40, type="integer"), "seconds": Param(0.1, type="number")},
        max_active_runs=16,
    )


counting = build("counting", count)
ticking = build("ticking", tick)


# One task of a run at a time: the second step runs only while the first one has given its slot back.
sharing = build_dag(
    Definition(
        name="sharing",
        version="1.0.0",
        params=["rows", "seconds"],
        nodes=[
            Step(name="work", task="tests:work", params={"rows": "rows", "seconds": "seconds"}, priority=10),
            Step(name="other", task="tests:finish"),
        ],
    ),
    tasks={"tests:work": count, "tests:finish": finish},
    params={"rows": Param(40, type="integer"), "seconds": Param(0.1, type="number")},
    max_active_tasks=1,
)


def intent() -> dict[str, Any]:
    """What is shown to the person who approves."""
    return {"pay": 5}


asking = build_dag(
    Definition(
        name="asking",
        version="1.0.0",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload="tests:intent"),
            Step(name="pay", task="tests:finish", after=["ask"], approval="ask"),
        ],
    ),
    tasks={"tests:intent": intent, "tests:finish": finish},
)
