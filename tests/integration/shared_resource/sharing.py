"""Two Airflow Dags of the tests that share one resource."""

from __future__ import annotations

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag


def sharing(name: str) -> Definition:
    """One step that uses the till."""
    node = Step(name="use", task="sharing_work:use", resources={"till": 1})
    return Definition(name=name, version="1.0.0", nodes=[node])


sharing_one = build_dag(sharing("sharing_one"))
sharing_two = build_dag(sharing("sharing_two"))
