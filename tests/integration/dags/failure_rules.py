"""
Airflow Dags of the tests: one for each set of failure rules, whose step `odd` ends as it is told.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from airflow.sdk import Param

# A copy of tests/support/failure_rules.py, put beside this file.
from rules_of_the_tests import AGGREGATIONS, ON_FAILURE, end_as, rules_workflow

from louver_provider.dag_builder import build_dag
from louver_provider.hooks.ledger import get_ledger


def odd(ctx: Any, end: str) -> None:
    """End as told."""
    end_as(ctx, end, get_ledger())


def good() -> None:
    """Succeed, with a legal None."""


def join(one: Any, two: Any) -> int:
    """Come after both."""
    return 1


def after(given: Any) -> int:
    """Come behind a join."""
    return 2


def build(aggregation: str, on_failure: str) -> Any:
    """The Airflow Dag of these rules."""
    return build_dag(
        rules_workflow(aggregation, on_failure),
        tasks={"good": good, "odd": odd, "rules:join": join, "rules:after": after},
        params={"end": Param("succeeded", type="string")},
    )


for rules in product(AGGREGATIONS, ON_FAILURE):
    globals()["_".join(rules)] = build(*rules)
