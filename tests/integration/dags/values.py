"""
Airflow Dags of the tests: values go from step to step, and to a task that knows no Louver.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, get_current_context, task
from value_kinds import KEPT, REFUSED, compare, make_refused, same
from value_kinds import make as make_kept

from louver.definition import ApprovalNode, Definition, Step
from louver.policies import RetryPolicy
from louver_provider.dag_builder import build_dag

values = build_dag(
    Definition(
        name="values",
        version="1.0.0",
        nodes=[
            *(Step(name=kind, task="value_kinds:make", kwargs={"kind": kind}) for kind in KEPT),
            Step(name="compare", task="value_kinds:compare", deps={kind: kind for kind in KEPT}),
        ],
    ),
    tasks={"value_kinds:make": make_kept, "value_kinds:compare": compare},
)

# Retries are allowed, and must not be used: another attempt would return the same.
refused_values = build_dag(
    Definition(
        name="refused_values",
        version="1.0.0",
        nodes=[
            Step(
                name=kind,
                task="value_kinds:make_refused",
                kwargs={"kind": kind},
                retry=RetryPolicy(max_attempts=3),
            )
            for kind in REFUSED
        ],
    ),
    tasks={"value_kinds:make_refused": make_refused},
)


def total() -> dict[str, Any]:
    """A result that a later step needs."""
    return {"total": "14.95"}


def intent(bill: dict[str, Any]) -> dict[str, Any]:
    """What is shown to the person who approves."""
    return {"pay": bill["total"]}


def pay(bill: dict[str, Any]) -> str:
    """Needs the result of a step that ended long ago."""
    return f"paid {bill['total']}"


# Waits for a person between a step and the one that needs its result.
approved_values = build_dag(
    Definition(
        name="approved_values",
        version="1.0.0",
        nodes=[
            Step(name="total", task="tests:total"),
            ApprovalNode(name="ask", of="pay", payload="tests:intent", deps={"bill": "total"}),
            Step(name="pay", task="tests:pay", deps={"bill": "total"}, after=["ask"], approval="ask"),
        ],
    ),
    tasks={"tests:total": total, "tests:intent": intent, "tests:pay": pay},
)

with DAG("plain_reader", schedule=None) as plain_reader:

    @task
    def read() -> dict[str, Any]:
        """Pull the values of a run of ``values``, as any task of Airflow may."""
        context = get_current_context()
        ti, wanted = context["ti"], context["dag_run"].conf
        outcomes = {}
        for kind in wanted["task_ids"]:
            try:
                value = ti.xcom_pull(dag_id="values", run_id=wanted["run_id"], task_ids=kind)
            except Exception as error:
                outcomes[kind] = f"{type(error).__name__}: {error}"
            else:
                outcomes[kind] = "same" if same(value, make_kept(kind)) else "another"
        ti.xcom_push("pair", (1, "b"))
        return {"outcomes": outcomes, "text": "x" * 40_000}

    read()
