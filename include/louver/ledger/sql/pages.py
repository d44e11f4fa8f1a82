"""
Rows by the page, by their count and by their removal: what verifying and cleaning need beyond single rows.

Whoever verifies reads what anybody may have written. So a row that no ledger can have written, such as one
whose state is no state, is named here and not tripped over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, delete, func, select, tuple_
from sqlalchemy.exc import OperationalError

from louver.ledger.names import RunKey
from louver.ledger.records import PayloadRecord, Record
from louver.ledger.rows import OPENING_BYTES, TRAIL, Damaged, PayloadHead
from louver.ledger.sql.tables import TABLES
from louver.ledger.sql.types import binary
from louver.ledger.storable import FIELDS, require_fields, require_storable

__all__ = ["SqlPages"]

T = TypeVar("T", bound=Record)

# What comes of reading a column that somebody filled with what its type cannot be.
_UNREADABLE = (TypeError, ValueError, AttributeError)


class SqlPages:
    """
    The part of :class:`~louver.ledger.rows.Rows` that looks at many rows.

    :param connection: with a transaction begun, which somebody else ends.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, kind: type[T], /, *, after: tuple[Any, ...] | None = None, limit: int, **equal: Any
    ) -> list[T | Damaged]:
        """Rows with these field values behind this primary key, at most so many; not locked."""
        wanted = _where(kind, select(*_columns(kind, FIELDS[kind])), equal)
        if after is not None:
            wanted = wanted.where(_primary(kind) > tuple_(*after))
        return self._all(kind, wanted.order_by(*_columns(kind, kind.PRIMARY)).limit(limit))

    def read(self, kind: type[T], primaries: Iterable[tuple[Any, ...]]) -> list[T | Damaged]:
        """The rows with these primary keys, as far as they are there; not locked."""
        wanted = select(*_columns(kind, FIELDS[kind]))
        return self._all(kind, wanted.where(_primary(kind).in_(list(primaries))))

    def _all(self, kind: type[T], wanted: Select[Any]) -> list[T | Damaged]:
        """The rows of the query; where one of them cannot be read, each is read by itself."""
        try:
            return self._records(kind, wanted)
        except _UNREADABLE:
            pass
        except OperationalError as error:
            # SQLite may keep as text what is none.
            if "decode" not in str(error.orig):
                raise
        keys = wanted.with_only_columns(*_columns(kind, kind.PRIMARY))
        return [self._readable(kind, tuple(key)) for key in self._connection.execute(keys).all()]

    def _readable(self, kind: type[T], primary: tuple[Any, ...]) -> T | Damaged:
        wanted = select(*_columns(kind, FIELDS[kind]))
        try:
            (found,) = self._records(kind, wanted.where(_primary(kind) == tuple_(*primary)))
        except (*_UNREADABLE, OperationalError):
            return Damaged(kind=kind, primary=primary)
        return found

    def _records(self, kind: type[T], wanted: Select[Any]) -> list[T | Damaged]:
        return [
            kind(**dict(zip(FIELDS[kind], row, strict=True))) for row in self._connection.execute(wanted)
        ]

    def count(self, kind: type[Record], /, **equal: Any) -> int:
        """How many rows have these field values."""
        counting = _where(kind, select(func.count()).select_from(TABLES[kind]), equal)
        return int(self._connection.execute(counting).scalar_one())

    def remove(self, kind: type[Record], /, **equal: Any) -> int:
        """Remove the rows with these field values, and say how many there were."""
        removing = _where(kind, delete(TABLES[kind]), equal)
        return self._connection.execute(removing.execution_options(preserve_rowcount=True)).rowcount

    def run_keys(self, *, dag_id: str | None, after: RunKey | None, limit: int) -> list[RunKey]:
        """The runs that any row of the audit trail tells of."""
        found: set[RunKey] = set()
        for kind in TRAIL:
            # Each by itself: a UNION would read and sort the whole of all of them first.
            columns = _columns(kind, ("dag_id", "run_id"))
            wanted = select(*columns).distinct().order_by(*columns).limit(limit)
            if dag_id is not None:
                wanted = _where(kind, wanted, {"dag_id": dag_id})
            if after is not None:
                wanted = wanted.where(tuple_(*columns) > tuple_(after.dag_id, after.run_id))
            found.update(RunKey(*row) for row in self._connection.execute(wanted))
        return sorted(found)[:limit]

    def sizes(self, payload_ids: Iterable[str]) -> Mapping[str, int]:
        """Bytes of the envelopes of these payloads, as far as they are there."""
        payload = TABLES[PayloadRecord].c
        wanted = select(payload.payload_id, func.length(payload.envelope)).where(
            payload.payload_id.in_(list(payload_ids))
        )
        return {payload_id: size for payload_id, size in self._connection.execute(wanted)}

    def heads(self, *, after: str | None, limit: int) -> list[PayloadHead]:
        """Payloads without their values, in order of their ids, behind this one."""
        payload = TABLES[PayloadRecord].c
        opening = func.substr(payload.envelope, 1, OPENING_BYTES, type_=binary())
        wanted = select(payload.payload_id, func.length(payload.envelope), opening)
        if after is not None:
            wanted = wanted.where(payload.payload_id > after)
        found = self._connection.execute(wanted.order_by(payload.payload_id).limit(limit))
        return [PayloadHead(payload_id=name, size=size, opening=_bytes(opened)) for name, size, opened in found]


def _columns(kind: type[Record], names: Iterable[str]) -> list[ColumnElement[Any]]:
    return [TABLES[kind].c[name] for name in names]


def _primary(kind: type[Record]) -> Any:
    return tuple_(*_columns(kind, kind.PRIMARY))


def _where(kind: type[Record], statement: Any, equal: Mapping[str, Any]) -> Any:
    require_fields(kind, equal)
    for name, value in equal.items():
        require_storable(name, value)
        column = TABLES[kind].c[name]
        statement = statement.where(column.is_(None) if value is None else column == value)
    return statement


def _bytes(opened: Any) -> bytes:
    # SQLite keeps whatever was put in; what is no envelope opens with nothing.
    return bytes(opened) if isinstance(opened, bytes | memoryview) else b""
