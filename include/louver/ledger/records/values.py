"""Payloads, and the rows that say what they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from louver.ledger.records.base import Record

__all__ = ["RESULT", "STATE", "CheckpointRecord", "EventRecord", "PayloadRecord"]

RESULT = "return_value"
"""Checkpoint name of a step's result; Airflow's name for the same thing."""

STATE = "state"
"""Checkpoint name of what ``ctx.checkpoint(state)`` saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord(Record):
    """
    The newest value saved under a name by one generation of a task.

    :param digest: SHA-256 of the envelope.
    """

    TABLE: ClassVar[str] = "checkpoint"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index", "generation", "name")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    generation: int
    name: str
    incarnation: int
    digest: str
    saved_at: datetime

    @property
    def payload(self) -> str:
        """Payload id of the envelope."""
        place = f"{self.dag_id}:{self.run_id}:{self.task_id}:{self.map_index}"
        return f"checkpoint:{place}:{self.incarnation}:{self.generation}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord(Record):
    """
    An accepted event, by its identity.

    :param identity: canonical ``[source, id]``, hashed.
    :param triggered_at: when the run was seen to exist; ``None`` while only this row does.
    """

    TABLE: ClassVar[str] = "event"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "identity")

    dag_id: str
    identity: str
    payload_fingerprint: str
    run_id: str
    accepted_at: datetime
    triggered_at: datetime | None

    @property
    def payload(self) -> str:
        """Payload id of the event."""
        return f"event:{self.dag_id}:{self.identity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRecord(Record):
    """A signed envelope: the only place where payload is kept."""

    TABLE: ClassVar[str] = "payload"
    PRIMARY: ClassVar[tuple[str, ...]] = ("payload_id",)

    payload_id: str
    envelope: bytes = field(repr=False)
    saved_at: datetime
