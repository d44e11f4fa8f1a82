"""The ledger in SQLite or Postgres. SQL is written here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from louver.ledger.contract import Ledger

__all__ = ["open_sql"]


def open_sql(url: str, **given: Any) -> Ledger:
    """
    Open the ledger in the database at ``url``.

    :param given: as for :class:`~louver.ledger.sql.store.SqlLedger`.
    """
    # Loaded only now: a driver, and what it needs, is a matter of who uses it.
    if url.partition("://")[0].partition("+")[0] == "postgresql":
        from louver.ledger.sql.postgres.store import PostgresLedger

        return PostgresLedger(url, **given)
    from louver.ledger.sql.store import SqlLedger

    return SqlLedger(url, **given)
