"""The ledger in a database: many processes and machines, one truth."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from louver.crash_points import reach
from louver.errors import LedgerClosed
from louver.ledger.operations import LedgerOperations
from louver.ledger.requests import Capability
from louver.ledger.rows import Rows
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.faults import contended, explained, lost, place_of
from louver.ledger.sql.rows import SqlRows
from louver.ledger.sql.schema import prepare
from louver.ledger.transactions import MAX_VALUE_BYTES
from louver.signing import SigningKeys

__all__ = ["SqlLedger"]

log = logging.getLogger(__name__)

R = TypeVar("R")

_TRIES = 8
_FIRST_WAIT = 0.005


class SqlLedger(LedgerOperations):
    """
    Rows in SQLite or Postgres, opened and checked at once.

    It may be used by many threads, and by a child that was forked: each process has connections of its own.

    :param url: ``sqlite:///...`` or ``postgresql://...``.
    :param keys: sign and verify every payload and every transition.
    :param max_value_bytes: the largest value kept, as it is stored.
    :raises ConfigurationError: for a URL that cannot be used.
    :raises LedgerUnavailable: where it is missing, locked, read-only or unreachable.
    :raises LedgerSchemaError: where its schema is not the one of this release.
    """

    CAPABILITIES = frozenset({Capability.LISTING, Capability.SHARED, Capability.DURABLE})

    def __init__(self, url: str, *, keys: SigningKeys, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        super().__init__(keys=keys, max_value_bytes=max_value_bytes)
        self._engines = Engines(parse_url(url))
        self._closed = False
        try:
            with explained(self._engines.url):
                prepare(self._engines, keys=keys)
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
    def _transaction(self, *, write: bool) -> Iterator[Rows]:
        self._require_open()
        with self._engines.connect(write=write) as connection, connection.begin():
            yield SqlRows(connection)

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerClosed

    def _decide(self, name: str, work: Callable[[Rows], R]) -> R:
        def once() -> R:
            self._require_open()
            with self._engines.connect(write=True) as connection:
                transaction = connection.begin()
                rows = SqlRows(connection)
                try:
                    answer = work(rows)
                    reach(f"{name}.inside")
                except BaseException:
                    transaction.rollback()
                    raise
                if self._commit(connection, rows):
                    return answer
            return once()

        return self._tried(once)

    def _commit(self, connection: Connection, rows: SqlRows) -> bool:
        """
        Commit; False where it did not come about and the work is to be done again.

        :param rows: what the transaction wrote.
        """
        connection.get_transaction().commit()  # type: ignore[union-attr]
        return True

    def _answer(self, work: Callable[[Rows], R]) -> R:
        return self._tried(lambda: super(SqlLedger, self)._answer(work))

    def _tried(self, once: Callable[[], R]) -> R:
        """
        Do it, and again where the database gave it up: nothing of it was written then.

        That is so after a deadlock, and where the connection was gone before COMMIT was sent, as after a
        restart of the server. Whether a COMMIT came about is :meth:`_commit`'s to find out.
        """
        with explained(self._engines.url):
            wait = _FIRST_WAIT
            reconnected = False
            for _ in range(_TRIES - 1):
                try:
                    return once()
                except DBAPIError as error:
                    if lost(error) and not reconnected:
                        reconnected = True
                        log.warning("ledger %s: connection lost; trying again", place_of(self._engines.url))
                        continue
                    if not contended(error):
                        raise
                # Jitter, so that those who met once do not meet again.
                time.sleep(wait * random.uniform(0.5, 1.5))
                wait *= 2
            return once()
