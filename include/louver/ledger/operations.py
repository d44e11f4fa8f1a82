"""
The meaning of every ledger operation, written once over :class:`~louver.ledger.rows.Rows`.

The groups are classes of their own only because each is one idea; a store derives from
:class:`LedgerOperations`, which joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.approvals import Answer, decide, expire
from louver.errors import ApprovalClosed, EventConflict, LedgerError
from louver.ledger.contract import ApprovalRequest, EventOutcome
from louver.ledger.effect_operations import EffectOperations
from louver.ledger.names import Decision, RunKey, Token
from louver.ledger.records import ApprovalRecord, EventRecord, RunRecord, TaskRecord, TransitionRecord
from louver.ledger.rows import Rows
from louver.sessions import Change

__all__ = ["LedgerOperations"]


class LedgerOperations(EffectOperations):
    """All of the contract, for a store that offers transactions over rows."""

    def park(
        self, token: Token, change: Change, *, nonce: str, request: ApprovalRequest, now: datetime
    ) -> tuple[ApprovalRecord, TransitionRecord]:
        with self._transaction() as rows:
            held = self._hold(rows, token)
            asked = self._ask(rows, held, self._run(rows, held.key.run), request, now=now)
            record, written = self._append(rows, held, [change], token.source, now)
            rows.update(replace(record, nonce=nonce))
            return asked, written[0]

    def _ask(
        self, rows: Rows, task: TaskRecord, run: RunRecord, request: ApprovalRequest, *, now: datetime
    ) -> ApprovalRecord:
        evidence = self._evidence(rows, run.key, request.ancestors)
        earlier = self._requests(rows, run.key)
        fresh = ApprovalRecord(
            request_id=request.request_id,
            sequence=len(earlier) + 1,
            dag_id=task.dag_id,
            run_id=task.run_id,
            task_id=task.task_id,
            map_index=task.map_index,
            generation=task.generation,
            of=request.of,
            definition_name=run.definition_name,
            definition_version=run.definition_version,
            definition_fingerprint=run.definition_fingerprint,
            payload_fingerprint=request.payload_fingerprint,
            ancestors=request.ancestors,
            state_version=evidence.state_version,
            upstream_fingerprint=evidence.fingerprint,
            approvers=request.approvers,
            four_eyes=request.four_eyes,
            requester=run.requester,
            requested_at=now,
            expires_at=request.expires_at,
        )
        kept = None
        for known in self._pending_requests(rows, fresh.task):
            if known.expires_at is not None and now >= known.expires_at:
                rows.update(expire(known, now=now))
            elif _same_question(known, fresh):
                kept = known
            else:
                rows.update(replace(known, decision=Decision.VOID, decided_at=now))
        if kept is not None:
            return kept
        if not rows.insert(fresh):
            raise LedgerError(f"approval request {fresh.request_id} exists already; take another id")
        self._keep(rows, fresh.payload, request.payload, binding=_approval_binding(fresh), now=now)
        return fresh

    @staticmethod
    def _requests(rows: Rows, run: RunKey) -> list[ApprovalRecord]:
        found = rows.find(ApprovalRecord, dag_id=run.dag_id, run_id=run.run_id)
        return sorted(found, key=lambda record: record.sequence)

    def decide_approval(self, request_id: str, answer: Answer, *, now: datetime) -> ApprovalRecord:
        with self._transaction() as rows:
            decided = decide(self._approval(rows, request_id), answer, now=now)
            rows.update(decided)
            return decided

    def expire_approval(self, request_id: str, *, now: datetime) -> ApprovalRecord:
        with self._transaction() as rows:
            expired = expire(self._approval(rows, request_id), now=now)
            rows.update(expired)
            return expired

    @staticmethod
    def _approval(rows: Rows, request_id: str) -> ApprovalRecord:
        record = rows.get(ApprovalRecord, request_id)
        if record is None:
            raise ApprovalClosed(f"there is no approval request {request_id}")
        return record

    def get_approval(self, request_id: str) -> ApprovalRecord | None:
        with self._transaction() as rows:
            return rows.peek(ApprovalRecord, request_id)

    def list_approvals(self, run: RunKey) -> list[ApprovalRecord]:
        with self._transaction() as rows:
            return self._requests(rows, run)

    def load_approval(self, record: ApprovalRecord) -> Any:
        with self._transaction() as rows:
            return self._load(rows, record.payload, binding=_approval_binding(record))

    def accept_event(
        self,
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
        with self._transaction() as rows:
            if rows.insert(fresh):
                self._keep(rows, fresh.payload, dict(event), binding=_event_binding(fresh), now=now)
                return EventOutcome.ACCEPTED, fresh
            known = rows.get(EventRecord, dag_id, identity)
            if known is None or known.payload_fingerprint != payload_fingerprint:
                raise EventConflict(known.run_id if known else run_id)
            return EventOutcome.DUPLICATE, known

    def confirm_event(self, record: EventRecord, *, now: datetime) -> None:
        with self._transaction() as rows:
            known = rows.get(EventRecord, record.dag_id, record.identity)
            if known is not None and known.triggered_at is None:
                rows.update(replace(known, triggered_at=now))

    def load_event(self, dag_id: str, identity: str) -> tuple[EventRecord, Mapping[str, Any]] | None:
        with self._transaction() as rows:
            known = rows.peek(EventRecord, dag_id, identity)
            if known is None:
                return None
            return known, self._load(rows, known.payload, binding=_event_binding(known))


def _same_question(known: ApprovalRecord, fresh: ApprovalRecord) -> bool:
    """Whether an answer to the one request answers the other: everything it is bound to is the same."""

    def bound(record: ApprovalRecord) -> tuple[object, ...]:
        return (
            record.of,
            record.generation,
            record.definition_fingerprint,
            record.payload_fingerprint,
            record.state_version,
            record.upstream_fingerprint,
            record.approvers,
            record.four_eyes,
        )

    return bound(known) == bound(fresh)


def _approval_binding(record: ApprovalRecord) -> Mapping[str, Any]:
    return {"kind": "approval", "request_id": record.request_id}


def _event_binding(record: EventRecord) -> Mapping[str, Any]:
    return {"kind": "event", "dag_id": record.dag_id, "identity": record.identity}
