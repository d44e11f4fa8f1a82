"""What the steps of these Dags do: say when they are in and out, and stay in as long as is told."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["use"]

TABLE = Path(os.environ["AIRFLOW_HOME"]) / "sharing.db"
"""Who was in, from when on, and until when; a killed process never says when it was out."""


def use(ctx: Any) -> str:
    """Use what only one may use at a time."""
    with closing(sqlite3.connect(TABLE, timeout=60, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS used (run_id, process, came, went)")
        me = os.getpid(), time.monotonic()
        connection.execute("INSERT INTO used VALUES (?, ?, ?, NULL)", [ctx.run_id, *me])
        while (TABLE.parent / f"stay-{ctx.run_id}").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        connection.execute("UPDATE used SET went = ? WHERE process = ? AND came = ?", [time.monotonic(), *me])
    return str(ctx.run_id)
