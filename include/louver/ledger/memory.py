"""A ledger in this process's memory: for tests, and for runs that nobody needs to remember."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import partial
from operator import attrgetter
from threading import RLock
from typing import Any, TypeVar

from louver.errors import LedgerClosed, LedgerError
from louver.ledger.dead_letter_contract import BY_PEOPLE, DEAD, DeadLetter, DeadLetterFilter
from louver.ledger.names import EffectState, RunKey
from louver.ledger.operations import LedgerOperations
from louver.ledger.records import (
    RECORDS,
    EffectRecord,
    PayloadRecord,
    Record,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.requests import Capability, RunFilter
from louver.ledger.rows import OPENING_BYTES, TRAIL, Damaged, PayloadHead, Rows
from louver.ledger.storable import require_fields, require_storable, storable
from louver.ledger.transactions import MAX_VALUE_BYTES
from louver.signing import SigningKeys
from louver.states import RunState

__all__ = ["MemoryLedger", "MemoryRows"]

T = TypeVar("T", bound=Record)

_Table = dict[tuple[Any, ...], Record]
_Tables = dict[type[Record], _Table]
_Written = dict[type[Record], dict[tuple[Any, ...], "Record | None"]]


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
    """
    The tables as one transaction sees them: what it wrote lies above what was there, until it commits.

    A row that it removed is None there.
    """

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._written: _Written = {kind: {} for kind in tables}
        self._removing = False

    def get(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key."""
        for name, value in zip(kind.PRIMARY, primary, strict=True):
            require_storable(name, value)
        found = self._found(kind, primary)
        return found if isinstance(found, kind) else None

    def _found(self, kind: type[Record], primary: tuple[Any, ...]) -> Record | None:
        written = self._written[kind]
        return written[primary] if primary in written else self._tables[kind].get(primary)

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key; the whole ledger is locked anyway."""
        return self.get(kind, *primary)

    def hold(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key; the whole ledger is locked anyway."""
        return self.get(kind, *primary)

    def insert(self, record: Record) -> bool:
        """Add the row; False where its primary key is taken."""
        record = storable(record)
        kind, primary = type(record), _primary_of(record)
        if self._found(kind, primary) is not None:
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
        if self._found(kind, primary) is None:
            raise LedgerError(f"there is no {kind.TABLE} row with this primary key to update")
        self._written[kind][primary] = record

    def put(self, record: Record) -> None:
        """Add the row, or replace the one that has its primary key."""
        record = storable(record)
        self._written[type(record)][_primary_of(record)] = record

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

    def page(
        self, kind: type[T], /, *, after: tuple[Any, ...] | None = None, limit: int, **equal: Any
    ) -> list[T | Damaged]:
        """Rows with these field values behind this primary key, at most so many."""
        found = self.find(kind, **equal)
        return list([row for row in found if after is None or _primary_of(row) > after][:limit])

    def read(self, kind: type[T], primaries: Iterable[tuple[Any, ...]]) -> list[T | Damaged]:
        """The rows with these primary keys, as far as they are there."""
        found = (self._found(kind, primary) for primary in primaries)
        return [row for row in found if isinstance(row, kind)]

    def count(self, kind: type[Record], /, **equal: Any) -> int:
        """How many rows have these field values."""
        return len(self.find(kind, **equal))

    def tally(self, kind: type[Record], name: str, /) -> Mapping[str, int]:
        """How many rows have each value of the field."""
        return Counter(_plain(getattr(row, name)) for row in self.find(kind))

    def tally_runs(self, states: Collection[RunState] = ()) -> Mapping[tuple[str, str], int]:
        """How many runs each Dag has in each state."""
        found = (run for run in self.find(RunRecord) if not states or run.state in states)
        return Counter((run.dag_id, run.state.value) for run in found)

    def tally_of_runs(
        self, kind: type[Record], name: str, /, *, states: Collection[RunState]
    ) -> Mapping[str, int]:
        """As :meth:`tally`, of runs in these states alone."""
        runs = {run.key: run.incarnation for run in self.find(RunRecord) if run.state in states}
        place = attrgetter("dag_id", "run_id")
        found = [row for row in self.find(kind) if RunKey(*place(row)) in runs]
        return Counter(
            _plain(getattr(row, name))
            for row in found
            if not isinstance(row, TaskRecord) or row.incarnation == runs[row.key.run]
        )

    def dead_letters(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters that meet the filter, the newest first."""
        ends: dict[tuple[Any, ...], TransitionRecord] = {}
        for row in sorted(self.find(TransitionRecord), key=attrgetter("at", "chain", "version")):
            if row.to_state in DEAD and row.from_state is not row.to_state:
                ends[row.task, row.generation] = row
        letters = (letter for row in ends.values() if (letter := self._letter(row)) is not None)
        return sorted(filter(partial(_meets, wanted), letters), key=_end_of, reverse=True)[: wanted.limit]

    def _letter(self, end: TransitionRecord) -> DeadLetter | None:
        task = self.get(TaskRecord, end.dag_id, end.run_id, end.task_id, end.map_index)
        run = self.get(RunRecord, end.dag_id, end.run_id)
        if task is None or run is None:
            return None
        here = (task.state, task.generation, task.incarnation)
        return DeadLetter(end=end, task=task, retried=here != (end.to_state, end.generation, run.incarnation))

    def effects_with_reason(self, states: Collection[EffectState]) -> list[EffectRecord]:
        """Effects in these states that have a reason, in order of their start."""
        found = (row for row in self.find(EffectRecord) if row.state in states and row.reason is not None)
        return sorted(found, key=attrgetter("started_at", "scope", "key", "epoch"))

    def remove(self, kind: type[Record], /, **equal: Any) -> int:
        """Remove the rows with these field values, and say how many there were."""
        found = self.find(kind, **equal)
        self._removing = self._removing or bool(found)
        self._written[kind].update((_primary_of(row), None) for row in found)
        return len(found)

    def discard(self, kind: type[Record], primaries: Iterable[tuple[Any, ...]]) -> None:
        """Remove the rows with these primary keys, as far as they are there."""
        self._removing = True
        self._written[kind].update((primary, None) for primary in primaries)

    def run_keys(self, *, dag_id: str | None, after: RunKey | None, limit: int) -> list[RunKey]:
        """The runs that any row of the audit trail tells of."""
        wanted = {} if dag_id is None else {"dag_id": dag_id}
        found = {
            RunKey(*attrgetter("dag_id", "run_id")(row))
            for kind in TRAIL
            for row in self.find(kind, **wanted)
        }
        return sorted(key for key in found if after is None or key > after)[:limit]

    def of_runs(self, kind: type[T], runs: Iterable[RunKey], /, **equal: Any) -> list[T]:
        """Rows of these runs with these field values, in order of their primary key."""
        wanted = {(run.dag_id, run.run_id) for run in runs}
        place = attrgetter("dag_id", "run_id")
        return [row for row in self.find(kind, **equal) if place(row) in wanted]

    def sizes(self, payload_ids: Iterable[str]) -> Mapping[str, int]:
        """Bytes of the envelopes of these payloads, as far as they are there."""
        found = self.read(PayloadRecord, ((payload_id,) for payload_id in payload_ids))
        return {row.payload_id: len(row.envelope) for row in found if isinstance(row, PayloadRecord)}

    def heads(self, *, after: str | None, limit: int) -> list[PayloadHead]:
        """Payloads without their values, in order of their ids, behind this one."""
        return [
            PayloadHead(
                payload_id=row.payload_id, size=len(row.envelope), opening=row.envelope[:OPENING_BYTES]
            )
            for row in self.find(PayloadRecord)
            if after is None or row.payload_id > after
        ][:limit]

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
        if self._removing:
            self._tables.update(self._without_removed())
        else:
            written: Iterable[Any] = self._written.values()
            deque(map(dict.update, self._tables.values(), written), maxlen=0)

    def _without_removed(self) -> _Tables:
        """The tables that this transaction changed, as they are to be."""
        return {
            kind: {
                primary: row for primary, row in {**self._tables[kind], **written}.items() if row is not None
            }
            for kind, written in self._written.items()
            if written
        }


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _primary_of(record: Record) -> tuple[Any, ...]:
    found = attrgetter(*type(record).PRIMARY)(record)
    return found if len(type(record).PRIMARY) > 1 else (found,)


def _meets(wanted: DeadLetterFilter, letter: DeadLetter) -> bool:
    end, after = letter.end, wanted.after
    return (
        (wanted.retried or not letter.retried)
        and end.trigger not in BY_PEOPLE
        and end.task_id not in wanted.leave_out
        and wanted.dag_id in (None, end.dag_id)
        and wanted.run_id in (None, end.run_id)
        and (wanted.since is None or end.at >= wanted.since)
        and (not wanted.kinds or letter.kind in wanted.kinds)
        and (after is None or _end_of(letter) < _end_of(after))
    )


def _end_of(letter: DeadLetter) -> tuple[Any, ...]:
    return letter.end.at, *_primary_of(letter.end)


def _order_of(run: RunRecord) -> tuple[Any, ...]:
    return run.created_at, run.dag_id, run.run_id
