"""A ledger's tables in the hands of somebody who may write them all, by SQL and past the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from louver.ledger.records import RECORDS

__all__ = ["PRIMARY", "Row", "Tables"]

Row = dict[str, Any]

PRIMARY: dict[str, tuple[str, ...]] = {kind.TABLE: kind.PRIMARY for kind in RECORDS}
"""Names of the columns of each table's primary key."""


class Tables:
    """
    The tables of a ledger.

    :param connection: to its database, of its own and in autocommit.
    :param parameter: how a value stands in a statement.
    """

    def __init__(self, connection: Any, parameter: str) -> None:
        self._connection = connection
        self._parameter = parameter

    @classmethod
    @contextmanager
    def of(cls, url: str) -> Iterator[Tables]:
        """The tables of the ledger at the URL."""
        if url.startswith("sqlite"):
            path = Path(url.removeprefix("sqlite:///"))
            with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
                yield cls(connection, "?")
        else:
            with closing(psycopg2.connect(url)) as connection:
                connection.autocommit = True
                yield cls(connection, "%s")

    def rows(self, table: str, **equal: Any) -> list[Row]:
        """Rows with these values, by their primary key."""
        order = ", ".join(f'"{name}"' for name in PRIMARY[table])
        names, found = self._run(
            f"SELECT * FROM louver_{table}{self._where(equal)} ORDER BY {order}", equal.values()
        )
        return [dict(zip(names, map(_plain, row), strict=True)) for row in found]

    def row(self, table: str, **equal: Any) -> Row:
        """The row with these values."""
        (found,) = self.rows(table, **equal)
        return found

    def update(self, table: str, row: Row, **values: Any) -> Row:
        """Change the row, and return what it is then."""
        key = self.key(table, row)
        given = ", ".join(f'"{name}" = {self._parameter}' for name in values)
        self._run(
            f"UPDATE louver_{table} SET {given}{self._where(key)}", [*values.values(), *key.values()], count=1
        )
        return {**row, **values}

    def delete(self, table: str, row: Row) -> None:
        """Remove the row."""
        key = self.key(table, row)
        self._run(f"DELETE FROM louver_{table}{self._where(key)}", key.values(), count=1)

    def insert(self, table: str, row: Row) -> None:
        """Add a row."""
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join([self._parameter] * len(row))
        self._run(f"INSERT INTO louver_{table} ({names}) VALUES ({values})", row.values(), count=1)

    def clear(self, table: str) -> None:
        """Remove all rows."""
        self._run(f"DELETE FROM louver_{table}", ())

    def swap(self, table: str, one: Row, other: Row) -> None:
        """Exchange all that two rows hold but their primary keys."""
        names = [name for name in one if name not in PRIMARY[table]]
        self.update(table, one, **{name: other[name] for name in names})
        self.update(table, other, **{name: one[name] for name in names})

    def columns(self, table: str) -> list[str]:
        """Names of the table's columns."""
        return list(self._run(f"SELECT * FROM louver_{table} WHERE 1 = 0", ())[0])

    def run(self, statement: str) -> None:
        """Run a statement of one's own."""
        self._run(statement, ())

    @staticmethod
    def key(table: str, row: Row) -> Row:
        """The row's primary key."""
        return {name: row[name] for name in PRIMARY[table]}

    def _where(self, equal: Row) -> str:
        conditions = " AND ".join(f'"{name}" = {self._parameter}' for name in equal)
        return f" WHERE {conditions}" if conditions else ""

    def _run(
        self, statement: str, values: Any, *, count: int | None = None
    ) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, list(values))
            if count is not None and cursor.rowcount != count:
                raise LookupError(f"{cursor.rowcount} rows: {statement}")
            columns = cursor.description or ()
            return [column[0] for column in columns], cursor.fetchall() if columns else []


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
