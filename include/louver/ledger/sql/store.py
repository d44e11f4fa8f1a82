"""The ledger in a database: many processes and machines, one truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from louver.errors import LedgerClosed
from louver.ledger.operations import LedgerOperations
from louver.ledger.rows import Rows
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.faults import explained, place_of
from louver.ledger.sql.rows import SqlRows
from louver.ledger.sql.schema import prepare
from louver.signing import SigningKeys

__all__ = ["SqlLedger"]


class SqlLedger(LedgerOperations):
    """
    Rows in SQLite or Postgres, opened and checked at once.

    It may be used by many threads, and by a child that was forked: each process has connections of its own.

    :param url: ``sqlite:///...`` or ``postgresql://...``.
    :param keys: sign and verify every payload.
    :raises ConfigurationError: for a URL that cannot be used.
    :raises LedgerUnavailable: where it is missing, locked, read-only or unreachable.
    :raises LedgerSchemaError: where its schema is not the one of this release.
    """

    def __init__(self, url: str, *, keys: SigningKeys) -> None:
        super().__init__(keys=keys)
        self._engines = Engines(parse_url(url))
        self._closed = False
        try:
            with explained(self._engines.url):
                prepare(self._engines)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_of(self._engines.url)!r})"

    def close(self) -> None:
        """Close the connections of this process; twice is fine."""
        self._closed = True
        self._engines.close()

    @contextmanager
    def _transaction(self) -> Iterator[Rows]:
        if self._closed:
            raise LedgerClosed
        with explained(self._engines.url), self._engines.begin() as connection:
            yield SqlRows(connection)
