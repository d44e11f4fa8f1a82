"""Prepared statements on pooled connections, each its own transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Any

import psycopg2
from psycopg2 import errorcodes

from louver.ledger.sql.engine import Engines
from louver.ledger.sql.postgres.statements import Statement

__all__ = ["Answer", "Prepared"]

log = logging.getLogger(__name__)

# A pooler between us and the server may hand each transaction to another server connection.
_POOLER = {errorcodes.INVALID_SQL_STATEMENT_NAME, errorcodes.DUPLICATE_PREPARED_STATEMENT}


class Answer(Enum):
    """What became of a statement that returned no row to speak of."""

    NOTHING = "nothing"
    LOST = "lost"


class Prepared:
    """
    Runs statements in autocommit: a round trip each, and no other.

    A connection is not asked whether it still lives before it is used; where it does not, the caller is told
    that the answer is lost and finds out by the common path what became of the statement.

    :param engines: whose pool is used.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._prepares = True

    def run(self, statement: Statement, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | Answer:
        """
        The rows; ``NOTHING`` where the server refused, ``LOST`` where nobody knows.

        What the server has against it the common path will meet too, and explain.
        """
        try:
            pooled = self._engines.current.raw_connection()
        except Exception as error:
            # Not begun, so nothing is written; the common path says what is wrong with the server.
            log.debug("no connection: %s", type(error).__name__)
            return Answer.NOTHING
        connection: Any = pooled.driver_connection
        try:
            connection.autocommit = True
            try:
                with connection.cursor() as cursor:
                    self._execute(cursor, statement, values, pooled.info)
                    rows: list[tuple[Any, ...]] = cursor.fetchall()
                return rows
            except psycopg2.Error as error:
                if error.pgcode in _POOLER:
                    log.info("prepared statements are not kept between transactions here; doing without")
                    self._prepares = False
                if connection.closed or error.pgcode is None:
                    pooled.invalidate(error)
                    return Answer.LOST
                return Answer.NOTHING
            finally:
                if not connection.closed:
                    connection.autocommit = False
        finally:
            pooled.close()

    def _execute(
        self, cursor: Any, statement: Statement, values: Mapping[str, Any], info: dict[Any, Any]
    ) -> None:
        if not self._prepares:
            cursor.execute(statement.unprepared, values)
            return
        if statement.name not in info:
            cursor.execute(statement.prepare)
            info[statement.name] = True
        cursor.execute(statement.execute, [values[name] for name in statement.parameters])
