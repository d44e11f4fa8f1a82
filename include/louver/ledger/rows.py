"""
What a store has to offer: rows by primary key inside one transaction.

The meaning of every ledger operation is written once, in :mod:`louver.ledger.operations`, over this port. A
store may override an operation with a faster statement of the same meaning; the contract suite tells.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from louver.ledger.records import Record, RunRecord
from louver.ledger.requests import RunFilter

__all__ = ["Rows"]

T = TypeVar("T", bound=Record)


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

    def find(self, kind: type[T], /, **equal: Any) -> list[T]:
        """Rows with these field values, in order of their primary key."""

    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first; then by ``dag_id`` and ``run_id``, falling too."""
