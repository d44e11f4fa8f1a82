"""How a database goes about the queries that a call sends it, in its own words."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from sqlalchemy import Engine, event

from benchmarks.ledger.wire import Wire

__all__ = ["SqliteTrace", "explain_postgres", "reads_all_of_it", "traced_sqlite"]

Call = Callable[[], object]

# Of a plan in Postgres, the steps that read a table or sort.
_STEP = re.compile(
    r"[\s>-]*("
    r"(?:Parallel )?(?:Bitmap Heap|Bitmap Index|Index|Index Only|Seq) Scan[^(]*"
    r"|(?:Incremental )?Sort(?! Key| Method)"
    r")\b"
)
_QUESTIONS = ("SELECT", "WITH", "EXECUTE")


def reads_all_of_it(plan: tuple[str, ...]) -> bool:
    """Whether it reads a table from end to end: no index serves it."""
    return any(
        step.startswith(("Seq Scan", "Parallel Seq Scan"))
        or (step.startswith("SCAN") and "USING" not in step)
        for step in plan
    )


def explain_postgres(wire: Wire, url: str) -> Callable[[Call], tuple[str, ...]]:
    """
    Explains what a call sends over the wire.

    :param url: of the same database, not by way of the wire.
    """

    def explain(call: Call) -> tuple[str, ...]:
        with wire.counting() as count:
            call()
        connection = psycopg2.connect(url)
        try:
            with connection.cursor() as cursor:
                return tuple(_explained(cursor, count.statements))
        finally:
            connection.close()

    return explain


def _explained(cursor: Any, statements: list[str]) -> Iterator[str]:
    for statement in statements:
        if statement.lstrip("( ").upper().startswith(_QUESTIONS):
            cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {statement}")
            for (line,) in cursor.fetchall():
                step = _STEP.match(line)
                if step:
                    yield step[1].strip()


class SqliteTrace:
    """The statements of all SQLite connections made since, with their parameters written into them."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def explain(self, file: Path) -> Callable[[Call], tuple[str, ...]]:
        """Explains what a call asks the database in ``file``."""

        def explain(call: Call) -> tuple[str, ...]:
            self.statements.clear()
            call()
            asked = [text for text in self.statements if text.lstrip("( ").upper().startswith(_QUESTIONS)]
            connection = sqlite3.connect(file)
            try:
                return tuple(step for text in asked for step in _plan(connection, text))
            finally:
                connection.close()

        return explain


def _plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    # Before Python 3.11 the values do not stand in what is traced.
    values = [None] * statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@contextmanager
def traced_sqlite() -> Iterator[SqliteTrace]:
    """Read along with every connection that SQLAlchemy makes within the block."""
    trace = SqliteTrace()

    def connected(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(trace.statements.append)

    event.listen(Engine, "connect", connected)
    try:
        yield trace
    finally:
        event.remove(Engine, "connect", connected)
