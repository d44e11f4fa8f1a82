"""
Airflow Dags of the tests: a workflow in a Dag file, with its functions beside it, and Airflow's own operators
before, between and behind its steps.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import (
    BranchPythonOperator,
    PythonOperator,
    ShortCircuitOperator,
)
from airflow.sdk import Asset

from louver_provider.decorators import workflow


def extract(source: str, rows: int) -> list[dict[str, Any]]:
    return [{"source": source, "amount": Decimal(number) / 10} for number in range(rows)]


def price(row: dict[str, Any], ctx: Any) -> Decimal:
    if row["source"] == "broken" and row["amount"] > 0:
        raise ctx.skip("no price")
    return row["amount"] * 2


def total(prices: list[Decimal]) -> Decimal:
    return sum(prices, Decimal(0))


def count(rows: list[Any]) -> int:
    return len(rows)


def report(parts: list[Any]) -> dict[str, Any]:
    return {"total": parts[0], "rows": parts[1]}


@workflow(
    version="1.0.0",
    tags=["decorated"],
    max_active_runs=8,
    task_arguments={"report": {"outlets": [Asset("decorated_report")], "max_active_tis_per_dag": 4}},
)
def decorated(wf, source: str = "sales", rows: int = 3):
    """Prices of some rows."""
    found = wf.step("extract", extract, args=[source, rows])
    prices = wf.map("price", price, over=found, param="row")
    added = wf.step("total", total, deps={"prices": prices})
    counted = wf.step("count", count, deps={"rows": found})
    return wf.join("report", report, deps=[added, counted], collect="parts")


decorated()


def stay(name: str = "step") -> str:
    return name


@workflow(version="1.0.0")
def gated(wf, gate: str = "open", way: str = "left"):
    """A ShortCircuit before, a branch between, an EmptyOperator behind the steps."""
    first = wf.step("first", stay)
    left = wf.step("left", stay, after=[first])
    right = wf.step("right", stay, after=[first])
    wf.step("either", stay, after=[left, right], join="any_succeeded")
    return wf.step("alone", stay)


def is_open(params: dict[str, Any]) -> bool:
    if params["gate"] == "broken":
        raise ValueError("the gate is broken")
    return params["gate"] == "open"


with gated() as dag:
    gate = ShortCircuitOperator(task_id="gate", python_callable=is_open)
    fork = BranchPythonOperator(task_id="fork", python_callable=lambda params: params["way"])
    done = EmptyOperator(task_id="done")
    gate >> dag.get_task("first") >> fork >> [dag.get_task("left"), dag.get_task("right")]
    dag.get_task("either") >> done


def tags(parts: list[Any]) -> list[str]:
    return [part.tag for part in parts]


@workflow(version="1.0.0")
def softly_gated(wf, gate: str = "open"):
    """A ShortCircuit before the first step that lets the joins further down be asked."""
    first = wf.step("first", stay)
    second = wf.step("second", stay, after=[first])
    other = wf.step("other", stay)
    return wf.join("report", tags, deps=[second, other], collect="parts", join="all_settled")


with softly_gated() as behind_soft_gate:
    soft_gate = ShortCircuitOperator(
        task_id="gate", python_callable=is_open, ignore_downstream_trigger_rules=False
    )
    soft_gate >> behind_soft_gate.get_task("first")


def look(params: dict[str, Any]) -> None:
    if params["door"] == "broken":
        raise ValueError("the door is broken")


def charge_for(ctx: Any) -> Any:
    import noted_acts

    order = {"order": ctx.run_id}
    return ctx.effect(
        "charge", intent=order, perform=lambda key: noted_acts.pay(order, key), compensate=noted_acts.refund
    )


@workflow(version="1.0.0")
def guarded(wf, door: str = "sound"):
    """A plain task that may fail stands between the steps."""
    first = wf.step("first", charge_for)
    return wf.step("second", stay, after=[first])


with guarded() as behind_door:
    door = PythonOperator(task_id="door", python_callable=look)
    behind_door.get_task("first") >> door >> behind_door.get_task("second")
