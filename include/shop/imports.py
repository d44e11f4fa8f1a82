"""
A long import, as a data engineer writes one: in batches, each of them done once whatever happens meanwhile.

The rows of a batch and the note that it is done are one transaction, so a process that dies before its
checkpoint finds the batch done and passes it over. A checkpoint after each batch says where to go on, and is
where the import may be paused or stopped.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from louver.context import TaskContext
from shop.database import database_path

__all__ = ["import_rows", "imported", "report"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS imported (source TEXT, row INTEGER, value TEXT, PRIMARY KEY (source, row))",
    "CREATE TABLE IF NOT EXISTS batches (source TEXT, first INTEGER, PRIMARY KEY (source, first))",
)


def import_rows(ctx: TaskContext, source: str, rows: int, batch: int, seconds: float) -> dict[str, Any]:
    """
    Import ``rows`` rows of ``source``.

    :param batch: rows between two checkpoints.
    :param seconds: how long a batch takes, so that there is time to pause it.
    """
    first = ctx.restore({"next": 0})["next"]
    ctx.log.info("import %s goes on at row %s", source, first)
    while first < rows:
        last = min(first + batch, rows)
        _import_batch(source, first, last)
        time.sleep(seconds)
        first = last
        ctx.progress(first, total=rows, unit="rows")
        ctx.checkpoint({"next": first})
    return {"source": source, "rows": rows}


def _import_batch(source: str, first: int, last: int) -> None:
    with closing(_open()) as connection, connection:
        new = connection.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", (source, first)).rowcount
        if new:
            # No "OR IGNORE": a row that came twice would be an error, not a silence.
            connection.executemany(
                "INSERT INTO imported VALUES (?, ?, ?)",
                ((source, row, f"{source}-{row}") for row in range(first, last)),
            )


def report(done: dict[str, Any]) -> int:
    """How many rows the source has now."""
    return imported(done["source"])


def imported(source: str) -> int:
    """How many rows of the source are there."""
    with closing(_open()) as connection:
        (count,) = connection.execute("SELECT count(*) FROM imported WHERE source = ?", (source,)).fetchone()
    return int(count)


def _open() -> sqlite3.Connection:
    connection = sqlite3.connect(database_path(), timeout=30)
    for statement in _SCHEMA:
        connection.execute(statement)
    return connection
