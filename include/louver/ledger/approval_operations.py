"""Requests for a decision, and the decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.approvals import Answer, decide, expire
from louver.errors import ApprovalClosed, LedgerError
from louver.ledger.approval_signatures import check_signature, is_as_signed, sign_approval
from louver.ledger.names import Decision, RunKey, Token
from louver.ledger.records import ApprovalRecord, RunRecord, TaskRecord, TransitionRecord
from louver.ledger.requests import ApprovalRequest
from louver.ledger.rows import Rows
from louver.ledger.task_operations import TaskOperations
from louver.ledger.transactions import decision, question
from louver.sessions import Change

__all__ = ["ApprovalOperations", "approval_binding"]


class ApprovalOperations(TaskOperations):
    """The part of the contract that concerns approvals."""

    @decision
    def park(
        self, rows: Rows, token: Token, change: Change, *, nonce: str, request: ApprovalRequest, now: datetime
    ) -> tuple[ApprovalRecord, TransitionRecord]:
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
            late = known.expires_at is not None and now >= known.expires_at
            if not late and _same_question(known, fresh) and is_as_signed(known, keys=self._keys):
                kept = known
            else:
                decision = Decision.EXPIRED if late else Decision.VOID
                self._close_request(rows, known, replace(known, decision=decision, decided_at=now))
        if kept is not None:
            return kept
        fresh = sign_approval(fresh, keys=self._keys)
        if not rows.insert(fresh):
            raise LedgerError(f"approval request {fresh.request_id} exists already; take another id")
        self._keep(rows, fresh.payload, request.payload, binding=approval_binding(fresh), now=now)
        return fresh

    @staticmethod
    def _requests(rows: Rows, run: RunKey) -> list[ApprovalRecord]:
        found = rows.find(ApprovalRecord, dag_id=run.dag_id, run_id=run.run_id)
        return sorted(found, key=lambda record: record.sequence)

    @decision
    def decide_approval(
        self, rows: Rows, request_id: str, answer: Answer, *, now: datetime
    ) -> ApprovalRecord:
        decided = decide(self._approval(rows, request_id), answer, now=now)
        return self._write_request(rows, decided)

    @decision
    def expire_approval(self, rows: Rows, request_id: str, *, now: datetime) -> ApprovalRecord:
        known = self._approval(rows, request_id)
        expired = expire(known, now=now)
        return known if expired == known else self._write_request(rows, expired)

    def _approval(self, rows: Rows, request_id: str) -> ApprovalRecord:
        record = rows.get(ApprovalRecord, request_id)
        if record is None:
            raise ApprovalClosed(f"there is no approval request {request_id}")
        return check_signature(record, keys=self._keys)

    @question
    def get_approval(self, rows: Rows, request_id: str) -> ApprovalRecord | None:
        record = rows.peek(ApprovalRecord, request_id)
        return None if record is None else check_signature(record, keys=self._keys)

    @question
    def list_approvals(self, rows: Rows, run: RunKey) -> list[ApprovalRecord]:
        return [check_signature(record, keys=self._keys) for record in self._requests(rows, run)]

    @question
    def load_approval(self, rows: Rows, record: ApprovalRecord) -> Any:
        return self._load(rows, record.payload, binding=approval_binding(record))


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


def approval_binding(record: ApprovalRecord) -> Mapping[str, Any]:
    """What the envelope of a request's payload is bound to."""
    return {"kind": "approval", "request_id": record.request_id}
