"""A ledger in this process's memory: for tests, and for runs that nobody needs to remember."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from threading import RLock
from typing import Any, TypeVar

from louver.errors import LedgerClosed, LedgerError
from louver.ledger.operations import LedgerOperations
from louver.ledger.records import RECORDS, Record
from louver.ledger.rows import Rows
from louver.ledger.storable import require_fields, require_storable, storable
from louver.signing import SigningKeys

__all__ = ["MemoryLedger", "MemoryRows"]

T = TypeVar("T", bound=Record)

_Table = dict[tuple[Any, ...], Record]
_Tables = dict[type[Record], _Table]


class MemoryLedger(LedgerOperations):
    """
    Rows in dictionaries, one transaction at a time.

    What it does not do: outlive its process, or be shared with another one: a forked child has a copy.

    :param keys: sign and verify every payload.
    """

    def __init__(self, *, keys: SigningKeys) -> None:
        super().__init__(keys=keys)
        self._tables: _Tables = {kind: {} for kind in RECORDS}
        self._lock = RLock()
        self._busy = False
        self._closed = False

    def close(self) -> None:
        """Forget everything; twice is fine."""
        with self._lock:
            self._closed = True
            self._tables = {kind: {} for kind in RECORDS}

    @contextmanager
    def _transaction(self) -> Iterator[Rows]:
        with self._lock:
            if self._closed:
                raise LedgerClosed
            if self._busy:
                # A database would wait for itself here; the lock is reentrant only to be able to say so.
                raise LedgerError("a transaction of this ledger is open in this thread already")
            rows = MemoryRows(self._tables)
            self._busy = True
            try:
                yield rows
                rows.commit()
            finally:
                self._busy = False


class MemoryRows:
    """The tables as one transaction sees them: what it wrote lies above what was there, until it commits."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._written: _Tables = {kind: {} for kind in tables}

    def get(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key."""
        for name, value in zip(kind.PRIMARY, primary, strict=True):
            require_storable(name, value)
        found = self._written[kind].get(primary) or self._tables[kind].get(primary)
        return found if isinstance(found, kind) else None

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key; the whole ledger is locked anyway."""
        return self.get(kind, *primary)

    def insert(self, record: Record) -> bool:
        """Add the row; False where its primary key is taken."""
        record = storable(record)
        kind, primary = type(record), _primary_of(record)
        if primary in self._written[kind] or primary in self._tables[kind]:
            return False
        self._written[kind][primary] = record
        return True

    def update(self, record: Record) -> None:
        """
        Replace the row that has this primary key.

        :raises LedgerError: where there is none.
        """
        record = storable(record)
        kind, primary = type(record), _primary_of(record)
        if primary not in self._written[kind] and primary not in self._tables[kind]:
            raise LedgerError(f"there is no {kind.TABLE} row with this primary key to update")
        self._written[kind][primary] = record

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        """Rows with these field values, in order of their primary key."""
        require_fields(kind, equal)
        for name, value in equal.items():
            require_storable(name, value)
        rows = {**self._tables[kind], **self._written[kind]}
        found = [
            record
            for record in rows.values()
            if isinstance(record, kind)
            and all(getattr(record, name) == value for name, value in equal.items())
        ]
        return sorted(found, key=_primary_of)

    def commit(self) -> None:
        """Make what was written true, all of it at once."""
        # One call into C: a signal handler that raises (a timeout, Ctrl-C) comes before it or after it.
        deque(map(dict.update, self._tables.values(), self._written.values()), maxlen=0)


def _primary_of(record: Record) -> tuple[Any, ...]:
    found = attrgetter(*type(record).PRIMARY)(record)
    return found if len(type(record).PRIMARY) > 1 else (found,)
