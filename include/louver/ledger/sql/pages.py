"""
Rows by the page, by their count and by their removal: what verifying and cleaning need beyond single rows.

Whoever verifies reads what anybody may have written. So a row that no ledger can have written, such as one
whose state is no state, is named here and not tripped over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    Integer,
    LargeBinary,
    Select,
    Text,
    bindparam,
    delete,
    func,
    select,
    tuple_,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.types import TypeEngine

from louver.ledger.names import RunKey
from louver.ledger.records import PayloadRecord, Record
from louver.ledger.rows import OPENING_BYTES, TRAIL, Damaged, PayloadHead
from louver.ledger.sql.tables import TABLES
from louver.ledger.sql.types import EnumText, TextTuple, UtcTime, binary
from louver.ledger.storable import FIELDS, require_fields, require_storable

__all__ = ["SqlPages"]

T = TypeVar("T", bound=Record)

# Names of parameters that a column can never have.
_EQUAL, _AFTER = "equal__", "after__"
_AMONG, _LIMIT = "among__", "limit__"

_READ_AS: dict[type[TypeEngine[Any]], tuple[type, ...]] = {
    UtcTime: (datetime,),
    TextTuple: (tuple,),
    Text: (str,),
    BigInteger: (int,),
    Boolean: (bool,),
    Double: (float, int),
    LargeBinary: (bytes,),
}

# What comes of reading a column that somebody filled with what its type cannot be.
_UNREADABLE = (TypeError, ValueError, AttributeError)


class SqlPages:
    """
    The part of :class:`~louver.ledger.rows.Rows` that looks at many rows.

    :param connection: with a transaction begun, which somebody else ends.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sqlite = connection.dialect.name == "sqlite"

    def page(
        self, kind: type[T], /, *, after: tuple[Any, ...] | None = None, limit: int, **equal: Any
    ) -> list[T | Damaged]:
        """Rows with these field values behind this primary key, at most so many; not locked."""
        values = _values(equal) | {_LIMIT: limit}
        if after is not None:
            values |= {_AFTER + name: value for name, value in zip(kind.PRIMARY, after, strict=True)}
        return self._all(kind, _page(kind, tuple(equal), after is not None), values)

    def read(self, kind: type[T], primaries: Iterable[tuple[Any, ...]]) -> list[T | Damaged]:
        """The rows with these primary keys, as far as they are there; not locked."""
        if self._one_by_one(kind):
            return [row for key in primaries for row in self._all(kind, _one(kind), _named(kind, key))]
        return self._all(kind, _read(kind), {_AMONG: _plain(kind, primaries)})

    def _one_by_one(self, kind: type[Record]) -> bool:
        """
        Whether rows are looked for one at a time.

        SQLite reads the whole table to find several by a key of many columns, and has no network in between.
        """
        return self._sqlite and len(kind.PRIMARY) > 1

    def _all(self, kind: type[T], wanted: Select[Any], values: Mapping[str, Any]) -> list[T | Damaged]:
        """The rows of the query; where one of them cannot be read, each is read by itself."""
        try:
            return self._records(kind, wanted, values)
        except _UNREADABLE:
            pass
        except OperationalError as error:
            # SQLite may keep as text what is none.
            if "decode" not in str(error.orig):
                raise
        keys = wanted.with_only_columns(*_columns(kind, kind.PRIMARY))
        return [self._readable(kind, tuple(key)) for key in self._connection.execute(keys, values).all()]

    def _readable(self, kind: type[T], primary: tuple[Any, ...]) -> T | Damaged:
        try:
            (found,) = self._records(kind, _one(kind), _named(kind, primary))
        except (*_UNREADABLE, OperationalError):
            return Damaged(kind=kind, primary=primary)
        return found

    def _records(self, kind: type[T], wanted: Select[Any], values: Mapping[str, Any]) -> list[T | Damaged]:
        found = self._connection.execute(wanted, values).all()
        if self._sqlite:
            types = _types(kind)
            if not all(isinstance(value, of) for row in found for value, of in zip(row, types, strict=True)):
                raise TypeError(f"a column of {kind.TABLE} holds what is of another type")
        return [kind(**dict(zip(FIELDS[kind], row, strict=True))) for row in found]

    def count(self, kind: type[Record], /, **equal: Any) -> int:
        """How many rows have these field values."""
        counting = select(func.count()).select_from(TABLES[kind]).where(*_conditions(kind, tuple(equal)))
        return int(self._connection.execute(counting, _values(equal)).scalar_one())

    def remove(self, kind: type[Record], /, **equal: Any) -> int:
        """Remove the rows with these field values, and say how many there were."""
        removing = delete(TABLES[kind]).where(*_conditions(kind, tuple(equal)))
        removing = removing.execution_options(preserve_rowcount=True)
        return self._connection.execute(removing, _values(equal)).rowcount

    def discard(self, kind: type[Record], primaries: Iterable[tuple[Any, ...]]) -> None:
        """Remove the rows with these primary keys, as far as they are there."""
        if self._one_by_one(kind):
            removing = delete(TABLES[kind]).where(*_conditions(kind, kind.PRIMARY))
            if several := [_named(kind, key) for key in primaries]:
                self._connection.execute(removing, several)
        else:
            removing = delete(TABLES[kind]).where(_among(kind))
            self._connection.execute(removing, {_AMONG: _plain(kind, primaries)})

    def run_keys(self, *, dag_id: str | None, after: RunKey | None, limit: int) -> list[RunKey]:
        """The runs that any row of the audit trail tells of."""
        found: set[RunKey] = set()
        for kind in TRAIL:
            # Each by itself: a UNION would read and sort the whole of all of them first.
            columns = _columns(kind, ("dag_id", "run_id"))
            wanted = select(*columns).distinct().order_by(*columns).limit(limit)
            if dag_id is not None:
                require_storable("dag_id", dag_id)
                wanted = wanted.where(columns[0] == dag_id)
            if after is not None:
                wanted = wanted.where(tuple_(*columns) > tuple_(after.dag_id, after.run_id))
            found.update(RunKey(*row) for row in self._connection.execute(wanted))
        return sorted(found, key=_order)[:limit]

    def sizes(self, payload_ids: Iterable[str]) -> Mapping[str, int]:
        """Bytes of the envelopes of these payloads, as far as they are there."""
        payload = TABLES[PayloadRecord].c
        wanted = select(payload.payload_id, func.length(payload.envelope)).where(_among(PayloadRecord))
        found = self._connection.execute(wanted, {_AMONG: list(payload_ids)})
        return {payload_id: size for payload_id, size in found}  # noqa: C416 - rows are no pairs to mypy

    def heads(self, *, after: str | None, limit: int) -> list[PayloadHead]:
        """Payloads without their values, in order of their ids, behind this one."""
        payload = TABLES[PayloadRecord].c
        opening = func.substr(payload.envelope, 1, OPENING_BYTES, type_=binary())
        wanted = select(payload.payload_id, func.length(payload.envelope), opening)
        if after is not None:
            wanted = wanted.where(payload.payload_id > after)
        found = self._connection.execute(wanted.order_by(payload.payload_id).limit(limit))
        return [
            PayloadHead(payload_id=name, size=size, opening=_bytes(opened)) for name, size, opened in found
        ]


def _order(key: RunKey) -> tuple[Any, ...]:
    # SQLite keeps bytes as a name too, behind all text.
    return tuple((not isinstance(part, str), part) for part in (key.dag_id, key.run_id))


def _columns(kind: type[Record], names: Iterable[str]) -> list[ColumnElement[Any]]:
    return [TABLES[kind].c[name] for name in names]


def _page(kind: type[Record], equal: tuple[str, ...], behind: bool) -> Select[Any]:
    known = _PAGES.get((kind, equal, behind))
    if known is None:
        primary = _columns(kind, kind.PRIMARY)
        known = select(*_columns(kind, FIELDS[kind])).where(*_conditions(kind, equal))
        if behind:
            last = (_parameter(kind, _AFTER, name) for name in kind.PRIMARY)
            known = known.where(tuple_(*primary) > tuple_(*last))
        known = known.order_by(*primary).limit(bindparam(_LIMIT, type_=Integer()))
        _PAGES[kind, equal, behind] = known
    return known


def _read(kind: type[Record]) -> Select[Any]:
    known = _READS.get(kind)
    if known is None:
        known = _READS[kind] = select(*_columns(kind, FIELDS[kind])).where(_among(kind))
    return known


def _types(kind: type[Record]) -> tuple[Any, ...]:
    """What each field of a row is read as; SQLite keeps anything in any column."""
    known = _FIELD_TYPES.get(kind)
    if known is None:
        columns = (TABLES[kind].c[name] for name in FIELDS[kind])
        known = _FIELD_TYPES[kind] = tuple(
            (*_read_as(column.type), type(None)) if column.nullable else _read_as(column.type)
            for column in columns
        )
    return known


def _read_as(kind: TypeEngine[Any]) -> tuple[type, ...]:
    if isinstance(kind, EnumText):
        return (kind.kind,)
    return next(types for column, types in _READ_AS.items() if isinstance(kind, column))


# Built once each: building a statement takes longer than running it.
_PAGES: dict[tuple[type[Record], tuple[str, ...], bool], Select[Any]] = {}
_READS: dict[type[Record], Select[Any]] = {}
_ONES: dict[type[Record], Select[Any]] = {}
_FIELD_TYPES: dict[type[Record], tuple[Any, ...]] = {}


def _one(kind: type[Record]) -> Select[Any]:
    known = _ONES.get(kind)
    if known is None:
        wanted = select(*_columns(kind, FIELDS[kind]))
        known = _ONES[kind] = wanted.where(*_conditions(kind, kind.PRIMARY))
    return known


def _named(kind: type[Record], primary: tuple[Any, ...]) -> dict[str, Any]:
    return {_EQUAL + name: value for name, value in zip(kind.PRIMARY, primary, strict=True)}


def _among(kind: type[Record]) -> ColumnElement[bool]:
    """That the row is one of those named; a row of one column by its plain value, see :func:`_plain`."""
    primary = _columns(kind, kind.PRIMARY)
    named: BindParameter[Any] = bindparam(_AMONG, expanding=True)
    return primary[0].in_(named) if len(primary) == 1 else tuple_(*primary).in_(named)


def _plain(kind: type[Record], primaries: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [primary if len(kind.PRIMARY) > 1 else primary[0] for primary in primaries]


def _conditions(kind: type[Record], equal: tuple[str, ...]) -> list[ColumnElement[bool]]:
    require_fields(kind, equal)
    return [TABLES[kind].c[name] == _parameter(kind, _EQUAL, name) for name in equal]


def _values(equal: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in equal.items():
        require_storable(name, value)
    return {_EQUAL + name: value for name, value in equal.items()}


def _parameter(kind: type[Record], prefix: str, name: str) -> BindParameter[Any]:
    return bindparam(prefix + name, type_=TABLES[kind].c[name].type)


def _bytes(opened: Any) -> bytes:
    # SQLite keeps whatever was put in; what is no envelope opens with nothing.
    return bytes(opened) if isinstance(opened, bytes | memoryview) else b""
