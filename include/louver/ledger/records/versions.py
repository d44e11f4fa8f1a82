"""Definitions that runs went on under, after those that they began with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import RunKey
from louver.ledger.records.base import Record
from louver.states import Source

__all__ = ["AcceptanceRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRecord(Record):
    """
    That a run goes on under another definition than before (row O14); never updated.

    Signed like a request for approval: what the run saved under the earlier definition is read only because
    this says so.

    :param number: of the run's acceptances, from 1, without gaps.
    :param reason: what was changed, and why that is compatible.
    :param task_id: the task whose process found the change and accepted it by the policy of its definition.
    :param process: that process.
    :param key_id: which key signed it.
    :param mac: over the row.
    """

    TABLE: ClassVar[str] = "acceptance"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "incarnation", "number")

    dag_id: str
    run_id: str
    incarnation: int
    number: int
    from_version: str
    from_fingerprint: str
    to_version: str
    to_fingerprint: str
    reason: str
    task_id: str
    map_index: int
    process: str
    source: Source
    accepted_at: datetime
    key_id: str = ""
    mac: str = ""

    @property
    def run(self) -> RunKey:
        """Names the run."""
        return RunKey(self.dag_id, self.run_id)
