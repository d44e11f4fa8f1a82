"""What the steps of these Dags do: write down that they ran, in which way, and take it back."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["ask", "go", "note", "pay", "take_back"]

TABLE = Path(os.environ["AIRFLOW_HOME"]) / "versioned.db"
"""What was done, one row each time: what was done twice stands there twice."""


def _write(what: str, run_id: str) -> None:
    with closing(sqlite3.connect(TABLE, timeout=60, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS done (what, run_id)")
        connection.execute("INSERT INTO done VALUES (?, ?)", [what, run_id])


def pay(ctx: Any) -> dict[str, str]:
    """Do something that can be undone."""
    run_id = ctx.run_id

    def perform(key: str) -> str:
        _write("pay", run_id)
        return key

    ctx.effect("pay", intent={"run": run_id}, perform=perform, compensate=take_back, provider_idempotent=True)
    return {"run": run_id}


def take_back(undo: Any) -> None:
    """Undo it."""
    _write("take back", undo.intent["run"])


def ask(paid: dict[str, str]) -> dict[str, str]:
    """What is to be approved."""
    return paid


def go(ctx: Any, how: str = "as it was") -> str:
    """What was approved; how, the definition says."""
    _write(f"go {how}", ctx.run_id)
    return how


def note(ctx: Any) -> str:
    """A step that does nothing else."""
    _write(ctx.name, ctx.run_id)
    return str(ctx.name)
