"""
What a store has to offer: rows by primary key inside one transaction.

The meaning of every ledger operation is written once, in :mod:`louver.ledger.operations`, over this port. A
store may override an operation with a faster statement of the same meaning; the contract suite tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from louver.ledger.dead_letter_contract import DeadLetter, DeadLetterFilter
from louver.ledger.names import EffectState, RunKey
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    Record,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.requests import RunFilter
from louver.states import RunState

__all__ = ["OPENING_BYTES", "TRAIL", "Damaged", "PayloadHead", "Rows", "primary_of"]

T = TypeVar("T", bound=Record)

TRAIL: tuple[type[Record], ...] = (
    RunRecord,
    TaskRecord,
    TransitionRecord,
    SealRecord,
    EffectRecord,
    ApprovalRecord,
    CheckpointRecord,
    AcceptanceRecord,
)
"""The kinds of row that tell of a run and are verified."""

OPENING_BYTES = 2048
"""How much of an envelope :class:`PayloadHead` shows: its binding, unless names in it are very long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """
    A row that is there and cannot be read: no ledger wrote it so.

    :param primary: its primary key, as far as the store can tell.
    """

    kind: type[Record]
    primary: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadHead:
    """
    A payload without its value.

    :param size: bytes of its envelope.
    :param opening: the first :data:`OPENING_BYTES` of it.
    """

    payload_id: str
    size: int
    opening: bytes = field(repr=False)


class Rows(Protocol):
    """Rows as one transaction sees them. What was read with :meth:`get` stays locked until it ends."""

    def get(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, locked for writing."""

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, not locked: for what the transaction only reads."""

    def insert(self, record: Record) -> bool:
        """Add the row; False, and nothing done, where its primary key is taken."""

    def update(self, record: Record) -> None:
        """Replace the row that has this primary key."""

    def put(self, record: Record) -> None:
        """Add the row, or replace the one that has its primary key."""

    def hold(self, kind: type[T], *primary: Any) -> T | None:
        """The row with this primary key, which nobody can remove until the transaction ends; others may read
        it, hold it too, and change it."""

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        """Rows with these field values, in order of their primary key."""

    def page(
        self, kind: type[T], /, *, after: tuple[Any, ...] | None = None, limit: int, **equal: Any
    ) -> list[T | Damaged]:
        """
        Rows with these field values, in order of their primary key, at most so many; not locked.

        :param after: go on behind this primary key.
        """

    def read(self, kind: type[T], primaries: Iterable[tuple[Any, ...]]) -> list[T | Damaged]:
        """The rows with these primary keys, as far as they are there, in any order; not locked."""

    def count(self, kind: type[Record], /, **equal: Any) -> int:
        """How many rows have these field values."""

    def tally(self, kind: type[Record], name: str, /) -> Mapping[str, int]:
        """How many rows have each value of the field, which holds text or a member of an enumeration."""

    def tally_runs(self, states: Collection[RunState] = ()) -> Mapping[tuple[str, str], int]:
        """
        How many runs each Dag has in each state, by ``dag_id`` and state.

        :param states: only these; empty means all.
        """

    def tally_of_runs(
        self, kind: type[Record], name: str, /, *, states: Collection[RunState]
    ) -> Mapping[str, int]:
        """As :meth:`tally`, of runs in these states alone; tasks of a deleted run of the same id left out."""

    def dead_letters(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters that meet the filter, the newest first; not locked."""

    def effects_with_reason(self, states: Collection[EffectState]) -> list[EffectRecord]:
        """Effects in these states that have a reason, in order of their start; not locked."""

    def remove(self, kind: type[Record], /, **equal: Any) -> int:
        """Remove the rows with these field values, and say how many there were."""

    def discard(self, kind: type[Record], primaries: Iterable[tuple[Any, ...]]) -> None:
        """Remove the rows with these primary keys, as far as they are there."""

    def run_keys(self, *, dag_id: str | None, after: RunKey | None, limit: int) -> list[RunKey]:
        """The runs that any row of the audit trail tells of, whether or not they have one of their own."""

    def of_runs(self, kind: type[T], runs: Iterable[RunKey], /, **equal: Any) -> list[T]:
        """Rows of these runs with these field values, in order of their primary key; not locked."""

    def sizes(self, payload_ids: Iterable[str]) -> Mapping[str, int]:
        """Bytes of the envelopes of these payloads, as far as they are there."""

    def heads(self, *, after: str | None, limit: int) -> list[PayloadHead]:
        """Payloads without their values, in order of their ids, behind this one."""

    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first; then by ``dag_id`` and ``run_id``, falling too."""


def primary_of(row: Record | Damaged) -> tuple[Any, ...]:
    """The row's primary key."""
    if isinstance(row, Damaged):
        return row.primary
    return tuple(getattr(row, name) for name in row.PRIMARY)
