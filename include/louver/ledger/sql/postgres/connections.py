"""Statements that are each a transaction: on borrowed connections at first, later prepared on kept ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Any
from weakref import WeakSet

import psycopg2
from psycopg2 import errorcodes

from louver.ledger.sql.engine import Engines
from louver.ledger.sql.postgres.statements import Statement

__all__ = ["Answer", "Prepared"]

log = logging.getLogger(__name__)

# Most processes live one step, and ask little. To them a connection of their own would cost more than all
# that they ask on it, and so would preparing what they ask once.
_BORROWS = 16

# A pooler between us and the server may hand each transaction to another server connection.
_POOLER = {errorcodes.INVALID_SQL_STATEMENT_NAME, errorcodes.DUPLICATE_PREPARED_STATEMENT}


class Answer(Enum):
    """What became of a statement that returned no row to speak of."""

    NOTHING = "nothing"
    LOST = "lost"


class _Held:
    """
    A connection in autocommit, used by one thread at a time.

    It was taken out of the pool for good: giving it back and taking it again would cost as much as a
    statement. The driver leaves a parent's alone in a forked child.
    """

    def __init__(self, engines: Engines) -> None:
        self.process = os.getpid()
        pooled = engines.current.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.autocommit = True
        self.connection = connection
        self.cursor: Any = connection.cursor()
        self.prepared: set[str] = set()

    def close(self) -> None:
        """End the connection, if it is this process's."""
        if self.process == os.getpid():
            with suppress(psycopg2.Error):
                self.connection.close()


class Prepared:
    """
    Runs statements in autocommit: a round trip each, and no other.

    A process that has asked a few times keeps connections from then on, as many as it has threads that ask
    at once, and has the statements prepared there. No connection is asked whether it still lives before it is
    used; where it does not, the caller is told that the answer is lost and finds out by the common path what
    became of the statement.

    :param engines: where connections come from.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._prepares = True
        self._asked = (os.getpid(), 0)
        # The one used last is taken first. Taking and giving back are atomic each, so no lock is needed.
        self._idle: list[_Held] = []
        self._all: WeakSet[_Held] = WeakSet()

    def close(self) -> None:
        """Close all connections; twice is fine."""
        for held in list(self._all):
            held.close()

    def run(self, statement: Statement, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | Answer:
        """
        The rows; ``NOTHING`` where the server refused, ``LOST`` where nobody knows.

        What the server has against it the common path will meet too, and explain.
        """
        held = self._take()
        if held is None:
            if self._is_new_here():
                return self._borrow(statement, values)
            try:
                held = _Held(self._engines)
            except Exception as error:
                return _not_begun(error)
            self._all.add(held)
        try:
            self._execute(held, statement, values)
            rows: list[tuple[Any, ...]] = held.cursor.fetchall()
        except psycopg2.Error as error:
            if error.pgcode in _POOLER:
                log.info("prepared statements are not kept between transactions here; doing without")
                self._prepares = False
            if _is_lost(held.connection, error):
                held.close()
                return Answer.LOST
            self._idle.append(held)
            return Answer.NOTHING
        except BaseException:
            # Interrupted: what the connection is in the middle of, nobody knows.
            held.close()
            raise
        self._idle.append(held)
        return rows

    def _take(self) -> _Held | None:
        """A connection that nobody uses, if there is one of this process."""
        process = os.getpid()
        while True:
            try:
                held = self._idle.pop()
            except IndexError:
                return None
            if held.process == process and not held.connection.closed:
                return held

    def _is_new_here(self) -> bool:
        """Whether this process has asked little so far; of threads that count at once, one may be missed."""
        process, asked = self._asked
        asked = asked + 1 if process == os.getpid() else 1
        self._asked = (os.getpid(), asked)
        return asked <= _BORROWS

    def _borrow(self, statement: Statement, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | Answer:
        """Run it unprepared, on a connection of the pool."""
        try:
            pooled = self._engines.current.raw_connection()
        except Exception as error:
            return _not_begun(error)
        connection: Any = pooled.driver_connection
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement.unprepared, values)
                rows: list[tuple[Any, ...]] = cursor.fetchall()
                return rows
        except psycopg2.Error as error:
            if _is_lost(connection, error):
                pooled.invalidate()
                return Answer.LOST
            return Answer.NOTHING
        finally:
            if not connection.closed:
                connection.autocommit = False
            pooled.close()

    def _execute(self, held: _Held, statement: Statement, values: Mapping[str, Any]) -> None:
        if not self._prepares:
            held.cursor.execute(statement.unprepared, values)
            return
        if statement.name not in held.prepared:
            held.cursor.execute(statement.prepare)
            held.prepared.add(statement.name)
        held.cursor.execute(statement.execute, [values[name] for name in statement.parameters])


def _is_lost(connection: Any, error: psycopg2.Error) -> bool:
    return bool(connection.closed) or error.pgcode is None


def _not_begun(error: Exception) -> Answer:
    """Nothing is written; the common path says what is wrong with the server."""
    log.debug("no connection: %s", type(error).__name__)
    return Answer.NOTHING
