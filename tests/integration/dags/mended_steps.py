"""
Airflow Dags of the tests: a step that fails for good until somebody has mended what it needs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Param

from louver.definition import Definition, Step
from louver.policies import RetryPolicy
from louver_provider.dag_builder import build_dag

MENDED = Path(os.environ["AIRFLOW_HOME"]) / "mended"
"""Names of the runs for which it is mended, a directory with a file for each."""


def prepare(ctx: Any, pays: bool) -> str:
    """Come first, and do what can be undone, where the run says so."""
    if pays:
        ctx.effect("pay", intent={"pay": 5}, perform=lambda key: key, compensate=str)
    return "ready"


def work(ctx: Any) -> str:
    """Fail, until it is mended."""
    if not (MENDED / ctx.run_id).exists():
        raise RuntimeError("broken")
    return "worked"


def finish(done: str) -> str:
    """Come last."""
    return f"{done} and finished"


mending = build_dag(
    Definition(
        name="mending",
        version="1.0.0",
        params=["pays"],
        nodes=[
            Step(name="prepare", task="tests:prepare", params={"pays": "pays"}),
            Step(
                name="work",
                task="tests:work",
                after=["prepare"],
                retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=1)),
            ),
            Step(name="finish", task="tests:finish", deps={"done": "work"}),
        ],
    ),
    tasks={"tests:prepare": prepare, "tests:work": work, "tests:finish": finish},
    params={"pays": Param(False, type="boolean")},
)
