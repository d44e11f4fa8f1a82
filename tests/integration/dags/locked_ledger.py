"""
An Airflow Dag of the tests, whose step loses the ledger between its start and its result.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag

LEDGER = Path(os.environ["AIRFLOW_HOME"]) / "louver.db"

# Of this Dag's processes alone: they wait for the lock for one second instead of thirty.
os.environ["AIRFLOW__LOUVER__LEDGER_URL"] = f"sqlite:///{LEDGER}?timeout=1"

_HELD: list[sqlite3.Connection] = []


def write(ctx: Any) -> str:
    """Return a result; before, the first attempt takes the ledger's lock, for as long as it lives."""
    if ctx.attempt == 1:
        connection = sqlite3.connect(LEDGER, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        _HELD.append(connection)
    return f"attempt {ctx.attempt}"


dag = build_dag(
    Definition(name="locked_ledger", version="1.0.0", nodes=[Step(name="write", task="tests:write")]),
    tasks={"tests:write": write},
)
