"""
Airflow Dags of the workflow benchmark: each workflow beside a plain Dag of the same shape and work.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag

CHAIN, WIDE = 5, 50


def work() -> int:
    """A business step of one second."""
    time.sleep(1)
    return 1


def item(row: int) -> int:
    """One of many."""
    time.sleep(0.2)
    return row


def rows() -> list[int]:
    """What is fanned out over."""
    return list(range(WIDE))


def total(parts: list[int]) -> int:
    """What it comes to."""
    return sum(parts)


TASKS = {"bench:work": work, "bench:item": item, "bench:rows": rows, "bench:total": total}

louver_chain = build_dag(
    Definition(
        name="louver_chain",
        version="1.0.0",
        nodes=[
            Step(name=f"step_{number}", task="bench:work", after=[f"step_{number - 1}"] if number else [])
            for number in range(CHAIN)
        ],
    ),
    tasks={"bench:work": work},
    max_active_runs=1,
)

with DAG("plain_chain", schedule=None, max_active_runs=1) as plain_chain:
    before = None
    for number in range(CHAIN):
        plain = task(task_id=f"step_{number}")(work)()
        if before is not None:
            plain.set_upstream(before)
        before = plain

louver_wide = build_dag(
    Definition(
        name="louver_wide",
        version="1.0.0",
        nodes=[
            Step(name="rows", task="bench:rows"),
            Step(name="item", task="bench:item", over={"row": "rows"}),
            Step(name="total", task="bench:total", deps={"parts": "item"}),
        ],
    ),
    tasks={name: function for name, function in TASKS.items() if name != "bench:work"},
    max_active_runs=1,
)

with DAG("plain_wide", schedule=None, max_active_runs=1) as plain_wide:
    parts = task(task_id="item")(item).expand(row=task(task_id="rows")(rows)())
    task(task_id="total")(total)(parts)
