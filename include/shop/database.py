"""
The SQLite file behind the shop: prices, what the providers did, and the faults they were told.

``SHOP_DB`` names the file; by default it is ``shop.db`` in ``AIRFLOW_HOME``, or in the current directory
where that is not set. Task processes come and go, so each transaction opens the file anew. There are no
customer ids, amounts or addresses in it: what a request asked for is kept as a hash alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

__all__ = ["database_path", "transaction", "utc_now"]

_VERSION = 1
_BUSY_SECONDS = 30.0

_SCHEMA = (
    "CREATE TABLE prices (sku TEXT PRIMARY KEY, unit_price TEXT NOT NULL)",
    # Every request that reached a provider, those too that failed or found their work done.
    """
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        provider TEXT NOT NULL,
        action TEXT NOT NULL,
        key TEXT NOT NULL,
        order_id TEXT NOT NULL,
        at TEXT NOT NULL
    )
    """,
    # Every real effect, in the order in which they happened. The unique key makes a provider idempotent.
    """
    CREATE TABLE done (
        id INTEGER PRIMARY KEY,
        provider TEXT NOT NULL,
        action TEXT NOT NULL,
        key TEXT NOT NULL,
        body_hash TEXT NOT NULL,
        order_id TEXT NOT NULL,
        reference TEXT NOT NULL UNIQUE,
        at TEXT NOT NULL,
        UNIQUE (provider, action, key)
    )
    """,
    # An empty order_id stands for every order; remaining is NULL where the fault stays for good.
    """
    CREATE TABLE faults (
        place TEXT NOT NULL,
        order_id TEXT NOT NULL,
        mode TEXT NOT NULL,
        remaining INTEGER,
        seconds REAL NOT NULL,
        PRIMARY KEY (place, order_id)
    )
    """,
)

_PRICES = (("mug-blue", "14.95"), ("notebook", "7.50"), ("teapot", "100.00"))


def database_path() -> Path:
    """The shop's file, as the environment names it now."""
    if named := os.environ.get("SHOP_DB"):
        return Path(named)
    return Path(os.environ.get("AIRFLOW_HOME") or Path.cwd()) / "shop.db"


def utc_now() -> str:
    """The current time as the file keeps it: RFC 3339, UTC, microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """
    One transaction on the file, which is made and filled with prices where it is missing.

    It is committed at the end of the block, and rolled back where the block raises.

    :raises FileNotFoundError: where the file's directory is missing.
    """
    path = database_path()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is missing; make it, or let SHOP_DB name another file")
    # isolation_level=None: the module's own implicit BEGIN would be deferred, and come too late.
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as shop:
        # In WAL mode readers do not block the writer. The mode stays with the file, so where another process
        # is changing it at this moment, there is nothing left to do; nothing below depends on it.
        with suppress(sqlite3.OperationalError):
            shop.execute("PRAGMA journal_mode = WAL")
        # IMMEDIATE: a transaction that began by reading could not write once another one has written.
        shop.execute("BEGIN IMMEDIATE")
        try:
            _create(shop)
            yield shop
        except BaseException:
            shop.execute("ROLLBACK")
            raise
        shop.execute("COMMIT")


def _create(shop: sqlite3.Connection) -> None:
    if shop.execute("PRAGMA user_version").fetchone() == (0,):
        for statement in _SCHEMA:
            shop.execute(statement)
        shop.executemany("INSERT INTO prices (sku, unit_price) VALUES (?, ?)", _PRICES)
        shop.execute(f"PRAGMA user_version = {_VERSION}")
