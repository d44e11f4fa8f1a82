"""
Airflow Dags of the tests: one that a single person may approve, and one that who started it may not approve.
"""

from __future__ import annotations

from typing import Any

from louver.definition import ApprovalNode, Definition, Step
from louver_provider.dag_builder import build_dag


def intent() -> dict[str, Any]:
    """What is shown to the person who approves."""
    return {"pay": 5}


def pay() -> str:
    """Come after the approval."""
    return "paid"


def build(name: str, **approve: Any) -> Any:
    """Ask, then act."""
    return build_dag(
        Definition(
            name=name,
            version="1.0.0",
            nodes=[
                ApprovalNode(name="ask", of="pay", payload="tests:intent", **approve),
                Step(name="pay", task="tests:pay", after=["ask"], approval="ask"),
            ],
        ),
        tasks={"tests:intent": intent, "tests:pay": pay},
    )


asks_alice = build("asks_alice", approvers=["alice"])
asks_another = build("asks_another", four_eyes=True)
