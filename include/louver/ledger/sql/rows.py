"""
Rows in a database, as one transaction sees them.

Every statement is built once for a kind of row and kept; SQLAlchemy keeps what it compiled from it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Executable,
    bindparam,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from louver.errors import LedgerError
from louver.ledger.records import Record, RunRecord
from louver.ledger.requests import RunFilter
from louver.ledger.rows import primary_of
from louver.ledger.sql.surveys import SqlSurveys
from louver.ledger.sql.tables import TABLES
from louver.ledger.storable import FIELDS, require_fields, require_storable, storable

__all__ = ["SqlRows", "listing"]

T = TypeVar("T", bound=Record)

# Names of parameters that a column can never have.
_KEY = "primary__"
_EQUAL = "equal__"


class SqlRows(SqlSurveys):
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
        return self._one(kind, primary, self._statements(kind).get)

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, not locked."""
        return self._one(kind, primary, self._statements(kind).peek)

    def hold(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, which nobody can remove until the transaction ends."""
        return self._one(kind, primary, self._statements(kind).hold)

    def _one(self, kind: type[T], primary: tuple[Any, ...], statement: Executable) -> T | None:
        key: dict[str, Any] = {}
        for name, value in zip(kind.PRIMARY, primary, strict=True):
            require_storable(name, value)
            key[_KEY + name] = value
        row = self._connection.execute(statement, key).first()
        return None if row is None else _record(kind, row)

    def insert(self, record: Record) -> bool:
        """Add the row; False, and nothing done, where its primary key is taken."""
        record = storable(record)
        statement = self._statements(type(record)).insert
        added = self._connection.execute(statement, _values(record)).rowcount == 1
        if added:
            self._wrote(record)
        return added

    def update(self, record: Record) -> None:
        """
        Replace the row that has this primary key.

        :raises LedgerError: where there is none.
        """
        kind, record = type(record), storable(record)
        values = _values(record)
        for name in kind.PRIMARY:
            values[_KEY + name] = values.pop(name)
        if self._connection.execute(self._statements(kind).update, values).rowcount != 1:
            raise LedgerError(f"there is no {kind.TABLE} row with this primary key to update")
        self._wrote(record)

    def put(self, record: Record) -> None:
        """Add the row, or replace the one that has its primary key."""
        record = storable(record)
        self._connection.execute(self._statements(type(record)).put, _values(record))
        self._wrote(record)

    def _wrote(self, record: Record) -> None:
        self.written[type(record), primary_of(record)] = record

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        """Rows with these field values, in order of their primary key; not locked."""
        require_fields(kind, equal)
        for name, value in equal.items():
            require_storable(name, value)
        statement = self._statements(kind).find(tuple((name, value is None) for name, value in equal.items()))
        values = {_EQUAL + name: value for name, value in equal.items() if value is not None}
        return [_record(kind, row) for row in self._connection.execute(statement, values)]

    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first."""
        for name in ("dag_id", "run_id"):
            require_storable(name, getattr(wanted, name))
        return [_record(RunRecord, row) for row in self._connection.execute(listing(wanted))]

    def _statements(self, kind: type[Record]) -> _Statements:
        known = _STATEMENTS.get((kind, self._dialect))
        # Of two threads that get here at once either may win: both make the same.
        return known or _STATEMENTS.setdefault((kind, self._dialect), _Statements(kind, self._dialect))


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


class _Statements:
    """The statements for one kind of row."""

    def __init__(self, kind: type[Record], dialect: str) -> None:
        self._primary = kind.PRIMARY
        self._columns = TABLES[kind].c
        self._select = select(*(self._columns[name] for name in FIELDS[kind]))
        self._finds: dict[tuple[tuple[str, bool], ...], Executable] = {}
        key = [self._columns[name] == self._parameter(_KEY, name) for name in kind.PRIMARY]
        # SQLite has no FOR UPDATE and needs none: its transactions begin with the write lock.
        self.get: Executable = self._select.where(*key).with_for_update()
        self.peek: Executable = self._select.where(*key)
        self.hold: Executable = self._select.where(*key).with_for_update(read=True, key_share=True)
        self.update: Executable = update(TABLES[kind]).where(*key)
        # ON CONFLICT is no common SQL, so each dialect has an insert of its own.
        of_dialect: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
        ignoring = of_dialect(TABLES[kind]).on_conflict_do_nothing(index_elements=list(kind.PRIMARY))
        self.insert: Executable = ignoring.execution_options(preserve_rowcount=True)
        adding = of_dialect(TABLES[kind])
        taken = {name: adding.excluded[name] for name in FIELDS[kind] if name not in kind.PRIMARY}
        self.put: Executable = adding.on_conflict_do_update(index_elements=list(kind.PRIMARY), set_=taken)

    def find(self, wanted: tuple[tuple[str, bool], ...]) -> Executable:
        """The query by these fields; for each its name, and whether it is to be NULL."""
        known = self._finds.get(wanted)
        if known is None:
            conditions = [self._is(name, missing) for name, missing in wanted]
            order = (self._columns[name] for name in self._primary)
            known = self._finds[wanted] = self._select.where(*conditions).order_by(*order)
        return known

    def _is(self, name: str, missing: bool) -> ColumnElement[bool]:
        column = self._columns[name]
        return column.is_(None) if missing else column == self._parameter(_EQUAL, name)

    def _parameter(self, prefix: str, name: str) -> BindParameter[Any]:
        return bindparam(prefix + name, type_=self._columns[name].type)


_STATEMENTS: dict[tuple[type[Record], str], _Statements] = {}


def _record(kind: type[T], row: Any) -> T:
    return kind(**dict(zip(FIELDS[kind], row, strict=True)))


def _values(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in FIELDS[type(record)]}
