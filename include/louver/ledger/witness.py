"""
What a transaction changed, told once it is committed.

Everybody who changes what is true writes rows: workers, the reconciler, the CLI, the API, the embedded
engine. So this is the one place that all of them pass. A ledger that nobody observes has nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

from louver.errors import ApprovalStale
from louver.ledger.names import Decision
from louver.ledger.records import (
    ApprovalRecord,
    CommandRecord,
    EffectRecord,
    Record,
    RunRecord,
    TransitionRecord,
)
from louver.ledger.rows import Rows

__all__ = ["WITNESSED", "Observer", "RowChange", "witnessed"]

R = TypeVar("R")
T = TypeVar("T", bound=Record)

WITNESSED: tuple[type[Record], ...] = (
    RunRecord,
    TransitionRecord,
    EffectRecord,
    ApprovalRecord,
    CommandRecord,
)
"""The kinds of row whose changes are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """
    A row as it was before the transaction, and as it is after it.

    :param before: None where the row is new.
    """

    before: Record | None
    after: Record


class Observer(Protocol):
    """
    Who is told. It is called after the commit, by the thread that wrote; what it raises would reach the
    caller of an operation that has come about, so it raises nothing.
    """

    def saw(self, changes: Collection[RowChange]) -> None:
        """These rows have changed, in this order."""

    def saw_stale(self, request: ApprovalRecord, *, now: datetime | None) -> None:
        """The request allows nothing any more: an effect was refused for it, or another one was made."""


class _Witness:
    """
    Rows of one transaction, with an eye on what is written.

    Whoever updates a row has read it before in the same transaction: that is what it was.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[Any, ...], Record] = {}
        self.changes: dict[tuple[Any, ...], RowChange] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def get(self, kind: type[T], *primary: Any) -> T | None:
        return self._seen(self._rows.get(kind, *primary))

    def peek(self, kind: type[T], *primary: Any) -> T | None:
        return self._seen(self._rows.peek(kind, *primary))

    def hold(self, kind: type[T], *primary: Any) -> T | None:
        return self._seen(self._rows.hold(kind, *primary))

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        found = self._rows.find(kind, **equal)
        if kind in WITNESSED and kind is not TransitionRecord:
            for record in found:
                self._seen(record)
        return found

    def insert(self, record: Record) -> bool:
        inserted = self._rows.insert(record)
        if inserted and isinstance(record, WITNESSED):
            self.changes[_name_of(record)] = RowChange(before=None, after=record)
        return inserted

    def update(self, record: Record) -> None:
        self._rows.update(record)
        if isinstance(record, WITNESSED):
            name = _name_of(record)
            earlier = self.changes.get(name)
            before = self._known.get(name) if earlier is None else earlier.before
            self.changes[name] = RowChange(before=before, after=record)

    def requests(self) -> list[ApprovalRecord]:
        """The approval requests that were read."""
        return [record for record in self._known.values() if isinstance(record, ApprovalRecord)]

    def _seen(self, record: T | None) -> T | None:
        if isinstance(record, WITNESSED):
            self._known.setdefault(_name_of(record), record)
        return record


def _name_of(record: Record) -> tuple[Any, ...]:
    return (type(record), *(getattr(record, name) for name in record.PRIMARY))


def witnessed(
    decide: Callable[[str, Callable[[Rows], R]], R],
    name: str,
    work: Callable[[Rows], R],
    observer: Observer,
    *,
    now: datetime | None,
) -> R:
    """
    Decide, and tell the observer what has changed by it.

    :param decide: the store's; it may do the work again where nothing of it was committed.
    :param now: the time that the operation was given.
    """
    last: list[_Witness] = []

    def watched(rows: Rows) -> R:
        last[:] = [_Witness(rows)]
        return work(cast(Rows, last[0]))

    try:
        answer = decide(name, watched)
    except ApprovalStale:
        _tell_stale(last[0].requests() if last else [], observer, now)
        raise
    if last and last[0].changes:
        changes = last[0].changes.values()
        anew = {row.after.of for row in changes if isinstance(row.after, ApprovalRecord) and not row.before}
        if anew:
            # What was approved and not used is not what is asked for now.
            _tell_stale([known for known in last[0].requests() if _unused(known, anew)], observer, now)
        observer.saw(changes)
    return answer


def _unused(request: ApprovalRecord, steps: Collection[str]) -> bool:
    return request.of in steps and request.decision is Decision.APPROVED and request.consumed_by is None


def _tell_stale(requests: list[ApprovalRecord], observer: Observer, now: datetime | None) -> None:
    """Of several, the newest is the one that counted."""
    if requests:
        observer.saw_stale(max(requests, key=lambda request: request.sequence), now=now)
