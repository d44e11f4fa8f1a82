"""An Airflow Dag of the tests whose runs are told to the outside."""

from __future__ import annotations

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag

definition = Definition(
    name="told",
    version="1.0.0",
    nodes=[
        Step(name="buy", task="told_work:buy"),
        Step(name="ship", task="told_work:ship", deps={"bought": "buy"}),
    ],
)
dag = build_dag(definition)
