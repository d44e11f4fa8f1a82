"""
The table that everybody reads, in SQLite: which content of a partition counts is one row, written at once.

Rows are kept by content, beside each other; ``loads`` says which content of a partition is the current one.
So loading is one small transaction however long staging takes, readers never see half a partition, and
undoing a load is a mark that brings the content before it back.

``SHOP_WAREHOUSE`` names the file; by default it is ``warehouse.db`` beside the shop's own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date
from pathlib import Path

from shop.database import database_path
from shop.etl.rows import Sale

__all__ = ["Partition", "current", "stage", "staged", "transaction", "warehouse_path"]

_BUSY_SECONDS = 60.0
_VERSION = 1

_SCHEMA = (
    """
    CREATE TABLE sales (
        day TEXT, region TEXT, content_hash TEXT, sale_id TEXT,
        sold_at TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL, unit_cents INTEGER NOT NULL,
        PRIMARY KEY (day, region, content_hash, sale_id)
    )
    """,
    # Which content of a partition was loaded as its which version; the key makes a load happen once.
    """
    CREATE TABLE loads (
        key TEXT PRIMARY KEY,
        day TEXT NOT NULL, region TEXT NOT NULL, version INTEGER NOT NULL,
        content_hash TEXT NOT NULL, rows INTEGER NOT NULL, undone INTEGER NOT NULL DEFAULT 0
    )
    """,
    # Content that a person has looked at, whatever was wrong with it.
    "CREATE TABLE reviewed (key TEXT, day TEXT, region TEXT, content_hash TEXT, "
    "PRIMARY KEY (key, day, region))",
    """
    CREATE VIEW current_sales AS
    SELECT sales.* FROM sales JOIN loads USING (day, region, content_hash)
    WHERE loads.undone = 0 AND loads.version = (
        SELECT max(version) FROM loads AS others
        WHERE others.day = sales.day AND others.region = sales.region AND others.undone = 0
    )
    """,
    "CREATE TABLE daily_totals (day TEXT, region TEXT, sales INTEGER, pieces INTEGER, cents INTEGER, "
    "PRIMARY KEY (day, region))",
    "CREATE TABLE weekly_totals (week TEXT, region TEXT, days INTEGER, cents INTEGER, "
    "PRIMARY KEY (week, region))",
)

Partition = tuple[str, str]
"""Day and region."""


def warehouse_path() -> Path:
    """The file, as the environment names it now."""
    named = os.environ.get("SHOP_WAREHOUSE")
    return Path(named) if named else database_path().with_name("warehouse.db")


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """One transaction; committed at the end of the block, rolled back where the block raises."""
    # isolation_level=None: the module's own implicit BEGIN would be deferred, and come too late.
    opened = sqlite3.connect(warehouse_path(), timeout=_BUSY_SECONDS, isolation_level=None)
    with closing(opened) as warehouse:
        with suppress(sqlite3.OperationalError):
            warehouse.execute("PRAGMA journal_mode = WAL")
        warehouse.execute("BEGIN IMMEDIATE")
        try:
            if warehouse.execute("PRAGMA user_version").fetchone() == (0,):
                for statement in _SCHEMA:
                    warehouse.execute(statement)
                warehouse.execute(f"PRAGMA user_version = {_VERSION}")
            yield warehouse
        except BaseException:
            warehouse.execute("ROLLBACK")
            raise
        warehouse.execute("COMMIT")


def current(warehouse: sqlite3.Connection, day: date, region: str) -> tuple[int, str | None]:
    """Version and content hash of what counts of the partition; 0 and ``None`` where it was never loaded."""
    row = warehouse.execute(
        "SELECT version, content_hash FROM loads WHERE day = ? AND region = ? AND undone = 0 "
        "ORDER BY version DESC LIMIT 1",
        (day.isoformat(), region),
    ).fetchone()
    return (0, None) if row is None else (int(row[0]), str(row[1]))


def stage(
    warehouse: sqlite3.Connection, day: date, region: str, content_hash: str, sales: Sequence[Sale]
) -> None:
    """Put rows beside those that count. The same rows again change nothing."""
    warehouse.executemany(
        "INSERT OR IGNORE INTO sales VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                day.isoformat(),
                region,
                content_hash,
                sale.sale_id,
                sale.sold_at.isoformat(),
                sale.sku,
                sale.quantity,
                sale.unit_cents,
            )
            for sale in sales
        ),
    )


def staged(warehouse: sqlite3.Connection, day: date, region: str, content_hash: str) -> int:
    """How many rows of this content are there."""
    (count,) = warehouse.execute(
        "SELECT count(*) FROM sales WHERE day = ? AND region = ? AND content_hash = ?",
        (day.isoformat(), region, content_hash),
    ).fetchone()
    return int(count)
