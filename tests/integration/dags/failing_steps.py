"""
Airflow Dags of the tests: a workflow that fails fast around steps of every kind, and a mapped step one index
of which fails, both until somebody has mended what they need.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from airflow.sdk import Param

from louver.definition import ApprovalNode, Definition, Step
from louver_provider.dag_builder import build_dag

MENDED = Path(os.environ["AIRFLOW_HOME"]) / "mended"
"""Names of the runs for which it is mended, a directory with a file for each."""

BROKEN = Path(os.environ["AIRFLOW_HOME"]) / "broken"
"""Names of the runs in which it may fail now: those that it shall fail beside are there."""


def mended(run_id: str) -> bool:
    """Whether the run may succeed now."""
    return (MENDED / run_id).exists()


def pay_intent() -> dict[str, Any]:
    """What is shown to the person who approves."""
    return {"pay": 5}


def pay() -> str:
    """Come after the approval."""
    return "paid"


def busy(ctx: Any) -> str:
    """Do what can be undone, then work until it is told to end."""
    ctx.effect("reserve", intent={"seat": 1}, perform=lambda key: key, compensate=str)
    while not mended(ctx.run_id):
        ctx.checkpoint()
        time.sleep(0.1)
    return "done"


def deaf(ctx: Any) -> str:
    """Work on whatever it is told."""
    while not mended(ctx.run_id):
        time.sleep(0.1)
    return "done"


def bad(ctx: Any) -> str:
    """Fail, once the others are there."""
    while not mended(ctx.run_id):
        if (BROKEN / ctx.run_id).exists():
            raise RuntimeError("broken")
        time.sleep(0.1)
    return "good"


def last() -> str:
    """Come after all of them."""
    return "all of it"


failing_fast = build_dag(
    Definition(
        name="failing_fast",
        version="1.0.0",
        aggregation="fail_fast",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload="tests:intent"),
            Step(name="pay", task="tests:pay", after=["ask"], approval="ask"),
            Step(name="busy", task="tests:busy"),
            Step(name="deaf", task="tests:deaf"),
            Step(name="bad", task="tests:bad"),
            Step(name="last", task="tests:last", after=["pay", "busy", "deaf", "bad"]),
        ],
    ),
    tasks={
        "tests:intent": pay_intent,
        "tests:pay": pay,
        "tests:busy": busy,
        "tests:deaf": deaf,
        "tests:bad": bad,
        "tests:last": last,
    },
)


def rows(count: int) -> list[int]:
    """What to map over."""
    return list(range(count))


def each(ctx: Any, row: int) -> int:
    """Double a row; the fourth one fails until it is mended."""
    if row == 3 and not mended(ctx.run_id):
        raise RuntimeError("broken")
    return row * 2


def total(doubled: list[int]) -> int:
    """Sum up what came out."""
    return sum(doubled)


def tags(found: list[Any]) -> list[str]:
    """What became of each, in order."""
    return [one.tag for one in found]


mapped_rows = build_dag(
    Definition(
        name="mapped_rows",
        version="1.0.0",
        params=["count"],
        nodes=[
            Step(name="rows", task="tests:rows", params={"count": "count"}),
            Step(name="each", task="tests:each", over={"row": "rows"}),
            Step(name="total", task="tests:total", deps={"doubled": "each"}),
            Step(name="tags", task="tests:tags", deps={"found": "each"}, join="all_settled"),
        ],
    ),
    tasks={"tests:rows": rows, "tests:each": each, "tests:total": total, "tests:tags": tags},
    params={"count": Param(5, type="integer")},
)
