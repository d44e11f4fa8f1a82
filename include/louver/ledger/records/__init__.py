"""
The rows of the ledger, as values.

Every record class says under which table and by which fields it is kept; the stores need to know no more
about it. Times are aware UTC. What people or other systems gave us (intents, results, events, checkpoint
states) is kept in :class:`PayloadRecord` alone; every other record holds ids, hashes and states (row O9).
"""

from __future__ import annotations

from louver.ledger.records.base import Record
from louver.ledger.records.budgets import RetryBudgetRecord
from louver.ledger.records.control import CommandRecord, LeaseRecord, TouchRecord
from louver.ledger.records.effects import OF_NO_GENERATION, ApprovalRecord, EffectRecord
from louver.ledger.records.permits import LineRecord, PermitRecord, PlaceRecord, ResourceRecord
from louver.ledger.records.runs import RunRecord, SealRecord, TaskRecord, TransitionRecord
from louver.ledger.records.values import RESULT, STATE, CheckpointRecord, EventRecord, PayloadRecord
from louver.ledger.records.versions import AcceptanceRecord

__all__ = [
    "OF_NO_GENERATION",
    "RECORDS",
    "RESULT",
    "STATE",
    "AcceptanceRecord",
    "ApprovalRecord",
    "CheckpointRecord",
    "CommandRecord",
    "EffectRecord",
    "EventRecord",
    "LeaseRecord",
    "LineRecord",
    "PayloadRecord",
    "PermitRecord",
    "PlaceRecord",
    "Record",
    "ResourceRecord",
    "RetryBudgetRecord",
    "RunRecord",
    "SealRecord",
    "TaskRecord",
    "TouchRecord",
    "TransitionRecord",
]

RECORDS: tuple[type[Record], ...] = (
    RunRecord,
    TaskRecord,
    TransitionRecord,
    SealRecord,
    AcceptanceRecord,
    EffectRecord,
    ApprovalRecord,
    CheckpointRecord,
    EventRecord,
    PayloadRecord,
    CommandRecord,
    TouchRecord,
    LeaseRecord,
    RetryBudgetRecord,
    ResourceRecord,
    PermitRecord,
    PlaceRecord,
    LineRecord,
)
"""Every kind of row, for stores that make their tables from it."""
