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
from louver.ledger.records import RECORDS, Record, RunRecord
from louver.ledger.requests import Capability, RunFilter
from louver.ledger.rows import Rows
from louver.ledger.storable import require_fields, require_storable, storable
from louver.ledger.transactions import MAX_VALUE_BYTES
from louver.signing import SigningKeys

__all__ = ["MemoryLedger", "MemoryRows"]

T = TypeVar("T", bound=Record)

_Table = dict[tuple[Any, ...], Record]
_Tables = dict[type[Record], _Table]


class MemoryLedger(LedgerOperations):
    """
    Rows in dictionaries, one transaction at a time.

    What it does not do: outlive its process, or be shared with another one: a forked child has a copy.

    :param keys: sign and verify every payload and every transition.
    :param max_value_bytes: the largest value kept, as it is stored.
    """

    CAPABILITIES = frozenset({Capability.LISTING})

    def __init__(self, *, keys: SigningKeys, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        super().__init__(keys=keys, max_value_bytes=max_value_bytes)
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
    def _transaction(self, *, write: bool) -> Iterator[Rows]:
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

    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first."""
        equal = {name: getattr(wanted, name) for name in ("dag_id", "run_id")}
        found = self.find(RunRecord, **{name: value for name, value in equal.items() if value is not None})
        after = None if wanted.after is None else _order_of(wanted.after)
        listed = [
            run
            for run in found
            if (not wanted.states or run.state in wanted.states)
            and (wanted.since is None or run.created_at >= wanted.since)
            and (wanted.until is None or run.created_at < wanted.until)
            and (after is None or _order_of(run) < after)
        ]
        return sorted(listed, key=_order_of, reverse=True)[: wanted.limit]

    def commit(self) -> None:
        """Make what was written true, all of it at once."""
        # One call into C: a signal handler that raises (a timeout, Ctrl-C) comes before it or after it.
        deque(map(dict.update, self._tables.values(), self._written.values()), maxlen=0)


def _primary_of(record: Record) -> tuple[Any, ...]:
    found = attrgetter(*type(record).PRIMARY)(record)
    return found if len(type(record).PRIMARY) > 1 else (found,)


def _order_of(run: RunRecord) -> tuple[Any, ...]:
    return run.created_at, run.dag_id, run.run_id
