"""
The statements for each kind of row, as text that was compiled once.

SQLAlchemy keeps what it has compiled with an engine, and no process uses an engine that it inherited (see
:class:`~louver.ledger.sql.engine.Engines`). So every process of a task would compile what it runs once or
twice: some ten milliseconds, more than all that it asks the database. Text belongs to nobody: what the parent
of the processes has compiled is there after a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    Connection,
    Dialect,
    bindparam,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from louver.ledger.records import RECORDS, Record
from louver.ledger.sql.tables import TABLES
from louver.ledger.storable import FIELDS, VALUES

__all__ = ["DIALECTS", "RowTexts", "compile_all", "texts_of"]

DIALECTS = ("sqlite", "postgresql")
"""The dialects there are, by SQLAlchemy's names for them."""

T = TypeVar("T", bound=Record)

_Values = dict[str, Any]
_Convert = Callable[[Any], Any]

# Names of parameters that a column can never have.
_KEY = "primary__"
_EQUAL = "equal__"

# Postgres' number for the type of a float; no column's type but that asks.
_FLOAT8 = 701

# Of an INSERT, SQLAlchemy forgets the count otherwise.
_COUNTED = {"preserve_rowcount": True}


class RowTexts(Generic[T]):
    """
    The statements for one kind of row in one dialect, and how its values go there and come back.

    Each method runs one of them, in the connection's transaction.

    :param kind: of the rows.
    :param dialect: ``sqlite`` or ``postgresql``.
    """

    def __init__(self, kind: type[T], dialect: str) -> None:
        self._kind = kind
        self._dialect = _dialect(dialect)
        self._columns = TABLES[kind].c
        self._names = FIELDS[kind]
        self._binders = {
            name: self._columns[name].type.dialect_impl(self._dialect).bind_processor(self._dialect)
            for name in self._names
        }
        self._readers = [
            self._columns[name].type.dialect_impl(self._dialect).result_processor(self._dialect, _FLOAT8)
            for name in self._names
        ]
        self._select = select(*(self._columns[name] for name in self._names))
        self._finds: dict[tuple[tuple[str, bool], ...], str] = {}
        key = [self._columns[name] == self._parameter(_KEY, name) for name in kind.PRIMARY]
        # SQLite has no FOR UPDATE and needs none: its transactions begin with the write lock.
        self._get = self._text(self._select.where(*key).with_for_update())
        self._peek = self._text(self._select.where(*key))
        self._hold = self._text(self._select.where(*key).with_for_update(read=True, key_share=True))
        rest = [name for name in self._names if name not in kind.PRIMARY]
        self._update = self._text(update(TABLES[kind]).where(*key), rest)
        # ON CONFLICT is no common SQL, so each dialect has an insert of its own.
        of_dialect: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
        adding = of_dialect(TABLES[kind]).inline()
        ignoring = adding.on_conflict_do_nothing(index_elements=list(kind.PRIMARY))
        self._insert = self._text(ignoring, self._names)
        taken = {name: adding.excluded[name] for name in rest}
        replacing = adding.on_conflict_do_update(index_elements=list(kind.PRIMARY), set_=taken)
        self._put = self._text(replacing, self._names)

    def get(self, connection: Connection, primary: Sequence[Any]) -> T | None:
        """The row with this primary key, locked for writing."""
        return self._one(connection, self._get, primary)

    def peek(self, connection: Connection, primary: Sequence[Any]) -> T | None:
        """The row with this primary key, not locked."""
        return self._one(connection, self._peek, primary)

    def hold(self, connection: Connection, primary: Sequence[Any]) -> T | None:
        """The row with this primary key, locked against removal."""
        return self._one(connection, self._hold, primary)

    def insert(self, connection: Connection, record: T) -> bool:
        """Add the row; whether it was added."""
        return self._run(connection, self._insert, self._bound(record)) == 1

    def put(self, connection: Connection, record: T) -> None:
        """Add the row, or replace the one that has its primary key."""
        self._run(connection, self._put, self._bound(record))

    def update(self, connection: Connection, record: T) -> bool:
        """Replace the row that has this primary key; whether there is one."""
        values = self._bound(record)
        for name in self._kind.PRIMARY:
            values[_KEY + name] = values.pop(name)
        return self._run(connection, self._update, values) == 1

    def find(self, connection: Connection, equal: _Values) -> list[T]:
        """Rows with these field values, in order of their primary key."""
        text = self._find(tuple((name, value is None) for name, value in equal.items()))
        values = {
            _EQUAL + name: self._bind(name, value) for name, value in equal.items() if value is not None
        }
        return [self.record(row) for row in connection.exec_driver_sql(text, values)]

    def compile_find(self, names: Iterable[str]) -> None:
        """Have the query by these fields ready."""
        self._find(tuple((name, False) for name in names))

    def _one(self, connection: Connection, text: str, primary: Sequence[Any]) -> T | None:
        key = {
            _KEY + name: self._bind(name, value)
            for name, value in zip(self._kind.PRIMARY, primary, strict=True)
        }
        row = connection.exec_driver_sql(text, key).first()
        return None if row is None else self.record(row)

    def _run(self, connection: Connection, text: str, values: _Values) -> int:
        return connection.exec_driver_sql(text, values, execution_options=_COUNTED).rowcount

    def record(self, row: Iterable[Any]) -> T:
        """The record behind what the driver returned, its fields in their order."""
        values = {
            name: value if read is None else read(value)
            for name, read, value in zip(self._names, self._readers, row, strict=True)
        }
        return self._kind(**values)

    def _bound(self, record: T) -> _Values:
        values = zip(self._names, VALUES[self._kind](record), strict=True)
        return {name: self._bind(name, value) for name, value in values}

    def _bind(self, name: str, value: Any) -> Any:
        bind = self._binders[name]
        return value if bind is None else bind(value)

    def _find(self, wanted: tuple[tuple[str, bool], ...]) -> str:
        known = self._finds.get(wanted)
        if known is None:
            conditions = [self._is(name, missing) for name, missing in wanted]
            order = (self._columns[name] for name in self._kind.PRIMARY)
            known = self._finds[wanted] = self._text(self._select.where(*conditions).order_by(*order))
        return known

    def _is(self, name: str, missing: bool) -> ColumnElement[bool]:
        column = self._columns[name]
        return column.is_(None) if missing else column == self._parameter(_EQUAL, name)

    def _parameter(self, prefix: str, name: str) -> BindParameter[Any]:
        return bindparam(prefix + name, type_=self._columns[name].type)

    def _text(self, statement: ClauseElement, given: Collection[str] | None = None) -> str:
        """
        :param given: the columns that an insert or update has values for.
        """
        keys = None if given is None else list(given)
        return str(statement.compile(dialect=self._dialect, column_keys=keys))


@cache
def _dialect(name: str) -> Dialect:
    # Named parameters, which both drivers take as a dict.
    if name == "sqlite":
        return sqlite.dialect(paramstyle="named")
    dialect: Dialect = postgresql.psycopg2.dialect()  # type: ignore[no-untyped-call]
    return dialect


_TEXTS: dict[tuple[type[Record], str], RowTexts[Any]] = {}


def texts_of(kind: type[T], dialect: str) -> RowTexts[T]:
    """The statements for this kind of row in this dialect, compiled when they are first asked for."""
    known = _TEXTS.get((kind, dialect))
    # Of two threads that get here at once either may win: both make the same.
    return known or _TEXTS.setdefault((kind, dialect), RowTexts(kind, dialect))


def compile_all(dialect: str) -> None:
    """
    Compile the statements for every kind of row, for the processes that are forked from this one.

    :param dialect: ``sqlite`` or ``postgresql``.
    """
    for kind in RECORDS:
        texts = texts_of(kind, dialect)
        names = FIELDS[kind]
        for wanted in (("dag_id", "run_id"), ("dag_id", "run_id", "task_id", "map_index")):
            if set(wanted) <= set(names):
                texts.compile_find(wanted)
