"""Accepted events (semantics section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.errors import EventConflict
from louver.ledger.records import EventRecord
from louver.ledger.requests import EventOutcome
from louver.ledger.rows import Rows
from louver.ledger.transactions import Transactional, decision, question

__all__ = ["EventOperations", "event_binding"]


class EventOperations(Transactional):
    """The part of the contract that concerns events."""

    @decision
    def accept_event(
        self,
        rows: Rows,
        *,
        dag_id: str,
        identity: str,
        payload_fingerprint: str,
        run_id: str,
        event: Mapping[str, Any],
        now: datetime,
    ) -> tuple[EventOutcome, EventRecord]:
        fresh = EventRecord(
            dag_id=dag_id,
            identity=identity,
            payload_fingerprint=payload_fingerprint,
            run_id=run_id,
            accepted_at=now,
            triggered_at=None,
        )
        if rows.insert(fresh):
            self._keep(rows, fresh.payload, dict(event), binding=event_binding(fresh), now=now)
            return EventOutcome.ACCEPTED, fresh
        known = rows.get(EventRecord, dag_id, identity)
        if known is None or known.payload_fingerprint != payload_fingerprint:
            raise EventConflict(known.run_id if known else run_id)
        return EventOutcome.DUPLICATE, known

    @decision
    def confirm_event(self, rows: Rows, record: EventRecord, *, now: datetime) -> None:
        known = rows.get(EventRecord, record.dag_id, record.identity)
        if known is not None and known.triggered_at is None:
            rows.update(replace(known, triggered_at=now))

    @question
    def load_event(
        self, rows: Rows, dag_id: str, identity: str
    ) -> tuple[EventRecord, Mapping[str, Any]] | None:
        known = rows.peek(EventRecord, dag_id, identity)
        if known is None:
            return None
        return known, self._load(rows, known.payload, binding=event_binding(known))


def event_binding(record: EventRecord) -> Mapping[str, Any]:
    """What the envelope of an event is bound to."""
    return {"kind": "event", "dag_id": record.dag_id, "identity": record.identity}
