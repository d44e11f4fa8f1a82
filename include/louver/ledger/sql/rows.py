"""Rows in a database, as one transaction sees them."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, literal, select, tuple_

from louver.errors import LedgerError
from louver.ledger.records import Record, RunRecord
from louver.ledger.requests import RunFilter
from louver.ledger.rows import primary_of
from louver.ledger.sql.dead_letters import SqlDeadLetters
from louver.ledger.sql.surveys import SqlSurveys
from louver.ledger.sql.tables import TABLES
from louver.ledger.sql.texts import RowTexts, texts_of
from louver.ledger.storable import FIELDS, require_fields, require_storable, storable

__all__ = ["SqlRows", "listing"]

T = TypeVar("T", bound=Record)


class SqlRows(SqlSurveys, SqlDeadLetters):
    """
    Rows of one transaction.

    :param connection: with a transaction begun, which somebody else ends.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._dialect = connection.dialect.name
        # What was written last into each row, for who has to find out whether it was kept.
        self.written: dict[tuple[type[Record], tuple[Any, ...]], Record] = {}

    def get(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, locked for writing until the transaction ends."""
        return self._texts(kind).get(self._connection, _key(kind, primary))

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, not locked."""
        return self._texts(kind).peek(self._connection, _key(kind, primary))

    def hold(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, which nobody can remove until the transaction ends."""
        return self._texts(kind).hold(self._connection, _key(kind, primary))

    def insert(self, record: Record) -> bool:
        """Add the row; False, and nothing done, where its primary key is taken."""
        record = storable(record)
        added = self._texts(type(record)).insert(self._connection, record)
        if added:
            self._wrote(record)
        return added

    def update(self, record: Record) -> None:
        """
        Replace the row that has this primary key.

        :raises LedgerError: where there is none.
        """
        record = storable(record)
        if not self._texts(type(record)).update(self._connection, record):
            raise LedgerError(f"there is no {record.TABLE} row with this primary key to update")
        self._wrote(record)

    def put(self, record: Record) -> None:
        """Add the row, or replace the one that has its primary key."""
        record = storable(record)
        self._texts(type(record)).put(self._connection, record)
        self._wrote(record)

    def _wrote(self, record: Record) -> None:
        self.written[type(record), primary_of(record)] = record

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        """Rows with these field values, in order of their primary key; not locked."""
        require_fields(kind, equal)
        for name, value in equal.items():
            require_storable(name, value)
        return self._texts(kind).find(self._connection, equal)

    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first."""
        for name in ("dag_id", "run_id"):
            require_storable(name, getattr(wanted, name))
        names = FIELDS[RunRecord]
        found = self._connection.execute(listing(wanted))
        return [RunRecord(**dict(zip(names, row, strict=True))) for row in found]

    def _texts(self, kind: type[T]) -> RowTexts[T]:
        return texts_of(kind, self._dialect)


def _key(kind: type[Record], primary: tuple[Any, ...]) -> tuple[Any, ...]:
    for name, value in zip(kind.PRIMARY, primary, strict=True):
        require_storable(name, value)
    return primary


def listing(wanted: RunFilter) -> Executable:
    """The query for a page of runs; each filter has an index that also gives the order."""
    run = TABLES[RunRecord].c
    order = (run.created_at, run.dag_id, run.run_id)
    query = select(*(run[name] for name in FIELDS[RunRecord]))
    if wanted.dag_id is not None:
        query = query.where(run.dag_id == wanted.dag_id)
    if wanted.run_id is not None:
        query = query.where(run.run_id == wanted.run_id)
    if wanted.states:
        query = query.where(run.state.in_(wanted.states))
    if wanted.since is not None:
        query = query.where(run.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(run.created_at < wanted.until)
    if wanted.after is not None:
        # Each value as its column writes it: SQLite would compare another spelling of the time as text.
        last = (literal(getattr(wanted.after, column.name), type_=column.type) for column in order)
        query = query.where(tuple_(*order) < tuple_(*last))
    return query.order_by(*(column.desc() for column in order)).limit(wanted.limit)
