"""
Airflow Dags of the tests: a workflow that others call, and a plain Dag that calls it.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from airflow.sdk import Param, dag, get_current_context, task

from louver.definition import Definition, Step
from louver_provider.client import Louver, RunFailed
from louver_provider.dag_builder import build_dag


def price(amount: int) -> dict[str, Any]:
    """A result of every kind."""
    if amount <= 0:
        raise ValueError("zq7marker")
    return {
        "amount": Decimal(amount) / 4,
        "at": datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        "id": UUID(int=7),
        "raw": b"\x00\xff",
        "pair": (1, 1.0, None),
        "kinds": {"a", "b"},
    }


def wait(ctx: Any, seconds: float) -> str:
    """Take so long; it can be paused, and goes on where it was."""
    done = ctx.restore(0)
    while done * 0.1 < seconds:
        time.sleep(0.1)
        done += 1
        ctx.checkpoint(done)
    return "waited"


called = build_dag(
    Definition(
        name="called",
        version="1.0.0",
        params=["amount", "seconds"],
        sink="price",
        nodes=[
            Step(name="wait", task="tests:wait", params={"seconds": "seconds"}),
            Step(name="price", task="tests:price", params={"amount": "amount"}, after=["wait"]),
        ],
    ),
    tasks={"tests:price": price, "tests:wait": wait},
    params={"amount": Param(1, type="integer"), "seconds": Param(0.0, type="number")},
)


@dag(schedule=None, params={"amount": Param(1, type="integer")})
def caller() -> None:
    """A Dag that knows Louver by its client alone."""

    @task
    def call() -> dict[str, str]:
        context = get_current_context()
        with Louver.from_connection("louver_default") as louver:
            # Named after this run: whoever tries the task again finds the run that is there.
            run = louver.submit(
                "called",
                {"amount": context["params"]["amount"], "seconds": 0.0},
                run_id=f"for-{context['run_id']}",
            )
            try:
                result = run.get(timeout=120)
            except RunFailed as failed:
                return {"failed": str(failed)}
            status = run.status()
        return {
            "amount": str(result["amount"]),
            "kind": type(result["amount"]).__name__,
            "state": str(status.state),
        }

    call()


caller()
