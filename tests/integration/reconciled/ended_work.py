"""What the steps of these Dags do: act on a table, wait for the test, hold the interpreter."""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["TABLE", "act", "count_failure", "hold", "take_back", "wait"]

TABLE = Path(os.environ["AIRFLOW_HOME"]) / "reconciled.db"
"""What was done, one row each time: what was done twice stands there twice."""


def note(what: str, run_id: str) -> None:
    """Write down what was done."""
    with closing(sqlite3.connect(TABLE, timeout=60, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS done (what, run_id)")
        connection.execute("INSERT INTO done VALUES (?, ?)", [what, run_id])


def act(ctx: Any) -> str:
    """Do something that can be undone."""
    run_id = ctx.run_id

    def perform(key: str) -> str:
        note("act", run_id)
        return run_id

    intent = {"run": run_id}
    return str(
        ctx.effect("act", intent=intent, perform=perform, compensate=take_back, provider_idempotent=True)
    )


def take_back(undo: Any) -> None:
    """Undo it."""
    note("take back", undo.intent["run"])


def wait(ctx: Any) -> str:
    """Wait until the test lets the run go on, which may be in another process."""
    note("wait", ctx.run_id)
    while not (TABLE.parent / f"go-{ctx.run_id}").exists():
        ctx.checkpoint()
        time.sleep(0.1)
    return "gone on"


def hold(ctx: Any) -> None:
    """Sleep inside C without letting go of the interpreter, deaf to SIGTERM."""
    note("hold", ctx.run_id)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ctypes.PyDLL(None).sleep(600)


def count_failure(context: Any) -> None:
    """A failure callback."""
    note("callback", context["ti"].run_id)
