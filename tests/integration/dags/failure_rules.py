"""
Airflow Dags of the tests: one for each set of failure rules, whose step `odd` ends as it is told.
"""

from __future__ import annotations

from itertools import product
from typing import Any
from uuid import uuid4

from airflow.sdk import Param

# A copy of tests/support/failure_rules.py, put beside this file.
from rules_of_the_tests import AGGREGATIONS, ON_FAILURE, rules_workflow

from louver.clock import SystemClock
from louver.ledger.names import TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import Source
from louver_provider.dag_builder import build_dag
from louver_provider.hooks.ledger import get_ledger


def odd(ctx: Any, end: str) -> None:
    """End as told: by itself, or by a command as others would send it."""
    if end == "failed":
        raise RuntimeError
    if end == "skipped":
        ctx.skip("told to")
    verb = {"stopped": Verb.STOP, "cancelled": Verb.CANCEL}.get(end)
    if verb is not None:
        key = TaskKey(ctx.dag_id, ctx.run_id, ctx.name, ctx.map_index)
        request = CommandRequest(
            command_id=uuid4().hex, task=key, verb=verb, actor="rules", reason=None, source=Source.API
        )
        get_ledger().send_command(request, now=SystemClock().now())
        while True:
            ctx.checkpoint()


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
