"""Effects and their undos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.approvals import check_use
from louver.canonical import fingerprint
from louver.effects import BeginStep, decide_begin
from louver.errors import ApprovalStale, IntegrityError, LedgerError, Superseded
from louver.ledger.approval_signatures import check_signature
from louver.ledger.names import EffectKind, EffectState, RunKey, Token
from louver.ledger.records import ApprovalRecord, EffectRecord, RunRecord
from louver.ledger.requests import BeginOutcome, Begun, EffectRequest
from louver.ledger.rows import Rows
from louver.ledger.task_operations import TaskOperations
from louver.ledger.transactions import decision, question

__all__ = ["EffectOperations", "earlier_binding", "effect_binding", "started"]

_FOUND = {
    BeginStep.RECORDED: BeginOutcome.RECORDED,
    BeginStep.IN_PROGRESS: BeginOutcome.IN_PROGRESS,
    BeginStep.UNKNOWN: BeginOutcome.UNKNOWN,
}


_OPTIONAL = ("undo", "undoes", "verify", "approval_id")

_TO_BE_UNDONE = (EffectState.COMMITTED, EffectState.UNKNOWN)


class EffectOperations(TaskOperations):
    """The part of the contract that concerns effects."""

    @decision
    def begin_effect(self, rows: Rows, token: Token, request: EffectRequest, *, now: datetime) -> Begun:
        self._hold(rows, token)
        begun = None
        while begun is None:
            begun = self._begin(rows, token, request, now=now)
        return begun

    def _begin(self, rows: Rows, token: Token, request: EffectRequest, *, now: datetime) -> Begun | None:
        """What beginning comes to; None where another process began the effect in this very moment."""
        known = self._newest(rows, request.scope, request.key)
        if known is not None and known.state is EffectState.STARTED and _same_call(known, request, token):
            # This very call began it, and its answer was lost on the way.
            return Begun(outcome=BeginOutcome.BEGUN, record=known)
        step = decide_begin(known, intent_hash=request.intent_hash)
        if known is not None and step in _FOUND:
            result = self._result(rows, known) if step is BeginStep.RECORDED else None
            now_of = (token.incarnation, token.generation)
            if known.task == token.key and (known.incarnation, known.generation) != now_of:
                # What it did is what this generation builds on: it is undone with it, and undone by another,
                # it is this one's ground that is gone.
                known = replace(known, incarnation=token.incarnation, generation=token.generation)
                rows.update(known)
            return Begun(outcome=_FOUND[step], record=known, result=result)
        record = started(token, request, epoch=_epoch(known, step), now=now)
        if request.guarded_by is not None:
            used_by_it = known.approval_id if known is not None and step is BeginStep.AGAIN else None
            record = self._consume(rows, record, request, used_by_it=used_by_it, now=now)
        if step is BeginStep.AGAIN:
            rows.update(record)
        elif not rows.insert(record):
            return None
        self._keep(
            rows, record.intent_payload, request.intent, binding=effect_binding(record, "intent"), now=now
        )
        return Begun(outcome=BeginOutcome.BEGUN, record=record)

    def _consume(
        self,
        rows: Rows,
        record: EffectRecord,
        request: EffectRequest,
        *,
        used_by_it: str | None,
        now: datetime,
    ) -> EffectRecord:
        run = self._run(rows, record.task.run)
        asked = rows.find(ApprovalRecord, dag_id=record.dag_id, run_id=record.run_id, of=request.guarded_by)
        newest = max(asked, key=lambda approval: approval.sequence, default=None)
        if newest is not None:
            # Locked and read again: another effect may be using it at this moment.
            newest = rows.get(ApprovalRecord, newest.request_id)
        for one in (*asked, *([] if newest is None else [newest])):
            # All of them: which is the newest is something that they say themselves.
            check_signature(one, keys=self._keys)
        used = check_use(
            newest,
            definition_fingerprint=run.definition_fingerprint,
            definition_version=run.definition_version,
            evidence=self._evidence(rows, run.key, newest.ancestors if newest else ()),
            intent_hash=request.intent_hash,
            reference=record.reference,
            now=now,
        )
        if newest is not None and newest.consumed_by is not None and newest.request_id != used_by_it:
            # The same key and intent in another scope are another effect.
            raise ApprovalStale("it was used already, by another effect")
        self._write_request(rows, used)
        return replace(record, approval_id=used.request_id)

    @staticmethod
    def _newest(rows: Rows, scope: str, key: str) -> EffectRecord | None:
        epochs = rows.find(EffectRecord, scope=scope, key=key)
        return rows.get(EffectRecord, scope, key, max(row.epoch for row in epochs)) if epochs else None

    def _current(self, rows: Rows, record: EffectRecord) -> EffectRecord:
        current = rows.get(EffectRecord, record.scope, record.key, record.epoch)
        if current is None:
            raise LedgerError(f"effect {record.reference} is not in the ledger")
        return current

    def _begun_by(self, rows: Rows, token: Token, record: EffectRecord) -> EffectRecord:
        """The effect as it is, if it is still this session's to end."""
        self._hold(rows, token)
        current = self._current(rows, record)
        if current.state is not EffectState.STARTED or (current.task, current.session) != (
            token.key,
            token.session,
        ):
            raise Superseded(f"effect {record.reference} is {current.state} and no longer this process's")
        return current

    @decision
    def retry_effect(
        self, rows: Rows, token: Token, record: EffectRecord, *, lease_until: datetime, now: datetime
    ) -> EffectRecord | None:
        self._hold(rows, token)
        current = self._current(rows, record)
        if current.state is not EffectState.UNKNOWN:
            return None
        again = replace(
            current,
            state=EffectState.STARTED,
            session=token.session,
            process=token.process,
            # Whoever began it before has another one, and cannot end what is begun again.
            ticket=_next_ticket(current, token),
            lease_until=lease_until,
            updated_at=now,
            **_place(token),
        )
        rows.update(again)
        self._bind_anew(rows, current, again)
        return again

    def _bind_anew(self, rows: Rows, before: EffectRecord, after: EffectRecord) -> None:
        """Have the intent's envelope vouch for what has changed of the effect."""
        binding = effect_binding(after, "intent")
        if binding != effect_binding(before, "intent"):
            intent = self._intent(rows, before)
            self._keep(rows, after.intent_payload, intent, binding=binding, now=after.started_at)

    @decision
    def commit_effect(
        self, rows: Rows, token: Token, record: EffectRecord, result: Any, *, now: datetime
    ) -> EffectRecord:
        self._hold(rows, token)
        current = self._current(rows, record)
        if current.state is EffectState.COMMITTED and _same_call(current, record, token):
            # This very call committed it, and its answer was lost on the way.
            return current
        if not _may_be_settled(current, record, token):
            if record.state is EffectState.UNKNOWN:
                # What the provider was asked about is settled, or has been begun again since.
                return current
            current = self._begun_by(rows, token, record)
        if current.kind is EffectKind.UNDO:
            self._settle_original(rows, current, EffectState.UNDONE, reason=None, now=now)
        committed = replace(
            current,
            state=EffectState.COMMITTED,
            commit_sequence=self._next_sequence(rows, current.task.run),
            reason=None,
            updated_at=now,
        )
        self._keep(
            rows, committed.result_payload, result, binding=effect_binding(committed, "result"), now=now
        )
        rows.update(committed)
        return committed

    @staticmethod
    def _next_sequence(rows: Rows, run: RunKey) -> int:
        """The place of the next commit within the run that the effect belongs to."""
        # Locked, so that branches that commit together wait for each other here. Always the last lock taken.
        record = rows.get(RunRecord, run.dag_id, run.run_id)
        if record is None:
            raise LedgerError(f"run {run.run_id} of {run.dag_id}, which the effect belongs to, is gone")
        rows.update(replace(record, commits=record.commits + 1))
        return record.commits + 1

    def _settle_original(
        self, rows: Rows, undo: EffectRecord, state: EffectState, *, reason: str | None, now: datetime
    ) -> None:
        key, _, epoch = (undo.undoes or "").rpartition("#")
        original = rows.get(EffectRecord, undo.scope, key, int(epoch))
        if original is None:
            raise LedgerError(f"{undo.key} undoes an effect that is not in the ledger")
        rows.update(replace(original, state=state, reason=reason, updated_at=now))

    @decision
    def fail_effect(
        self, rows: Rows, token: Token, record: EffectRecord, *, reason: str, now: datetime
    ) -> EffectRecord:
        self._hold(rows, token)
        current = self._current(rows, record)
        if (current.state, current.reason) == (EffectState.FAILED, reason) and _same_call(
            current, record, token
        ):
            # This very call said so, and its answer was lost on the way.
            return current
        if not _may_be_settled(current, record, token):
            if record.state is EffectState.UNKNOWN:
                # What the provider was asked about is settled, or has been begun again since.
                return current
            current = self._begun_by(rows, token, record)
        failed = replace(current, state=EffectState.FAILED, reason=reason, updated_at=now)
        rows.update(failed)
        return failed

    @decision
    def lose_effect(
        self, rows: Rows, record: EffectRecord, *, reason: str, now: datetime
    ) -> EffectRecord | None:
        current = self._current(rows, record)
        if current.state is not EffectState.STARTED or _hold_of(current) != _hold_of(record):
            return None
        lost = replace(current, state=EffectState.UNKNOWN, reason=reason, updated_at=now)
        rows.update(lost)
        return lost

    @decision
    def keep_effect(self, rows: Rows, token: Token, record: EffectRecord, *, lease_until: datetime) -> None:
        rows.update(replace(self._begun_by(rows, token, record), lease_until=lease_until))

    @decision
    def give_up_undo(
        self, rows: Rows, token: Token, record: EffectRecord, *, reason: str, now: datetime
    ) -> EffectRecord:
        self._hold(rows, token)
        current = self._current(rows, record)
        if current.kind is EffectKind.UNDO:
            raise LedgerError(f"{current.reference} is an undo; give up what it undoes: {current.undoes}")
        if current.state in (EffectState.UNDONE, EffectState.UNDO_FAILED):
            return current
        if current.state not in _TO_BE_UNDONE:
            wanted = " or ".join(map(str, _TO_BE_UNDONE))
            raise LedgerError(
                f"effect {current.reference} is {current.state}; an undo is given up for one that is {wanted}"
            )
        given_up = replace(current, state=EffectState.UNDO_FAILED, reason=reason, updated_at=now)
        rows.update(given_up)
        return given_up

    @question
    def get_effect(self, rows: Rows, scope: str, key: str) -> EffectRecord | None:
        epochs = rows.find(EffectRecord, scope=scope, key=key)
        return max(epochs, key=lambda effect: effect.epoch, default=None)

    @question
    def list_effects(self, rows: Rows, run: RunKey) -> list[EffectRecord]:
        found = rows.find(EffectRecord, dag_id=run.dag_id, run_id=run.run_id)
        return sorted(found, key=lambda effect: (effect.started_at, effect.commit_sequence or 0))

    @question
    def load_effect(self, rows: Rows, record: EffectRecord) -> tuple[Any, Any]:
        intent = self._intent(rows, record)
        known = rows.peek(EffectRecord, record.scope, record.key, record.epoch)
        # What has a place among the commits has a result; one that is gone is no None.
        committed = known is not None and known.commit_sequence is not None
        return intent, self._result(rows, record) if committed else None

    def _intent(self, rows: Rows, record: EffectRecord) -> Any:
        try:
            return self._load(rows, record.intent_payload, binding=effect_binding(record, "intent"))
        except IntegrityError as error:
            try:
                return self._load(rows, record.intent_payload, binding=earlier_binding(record))
            except IntegrityError:
                raise error from None

    def _result(self, rows: Rows, record: EffectRecord) -> Any:
        return self._load(rows, record.result_payload, binding=effect_binding(record, "result"))


def _same_call(current: EffectRecord, shown: EffectRecord | EffectRequest, token: Token) -> bool:
    held = (current.task, current.session, current.ticket)
    return held == (token.key, token.session, shown.ticket)


def _may_be_settled(current: EffectRecord, shown: EffectRecord, token: Token) -> bool:
    """
    Whether the effect is unknown, and what is told of it is about this very begin of it.

    That is so of who began it and comes late, and of who was shown it as unknown and asked the provider.
    Where another one has begun it since, and lost it too, the provider was asked too early.
    """
    if current.state is not EffectState.UNKNOWN:
        return False
    if shown.state is not EffectState.UNKNOWN:
        return _same_call(current, shown, token)
    return (*_hold_of(current), current.updated_at) == (*_hold_of(shown), shown.updated_at)


def _hold_of(record: EffectRecord) -> tuple[Any, ...]:
    """What tells one begin of an effect, and the lease that it is under, from others."""
    return record.task, record.session, record.ticket, record.lease_until


def _next_ticket(current: EffectRecord, token: Token) -> str:
    """Of an effect that is performed again: made from the one before, so every store makes the same."""
    key = token.key
    who = [key.dag_id, key.run_id, key.task_id, key.map_index, token.incarnation, token.session]
    return fingerprint([current.ticket, who])[:32]


def _epoch(known: EffectRecord | None, step: BeginStep) -> int:
    if known is None:
        return 1
    return known.epoch + 1 if step is BeginStep.NEXT_EPOCH else known.epoch


def _place(token: Token) -> dict[str, Any]:
    return {
        "dag_id": token.key.dag_id,
        "run_id": token.key.run_id,
        "task_id": token.key.task_id,
        "map_index": token.key.map_index,
        "incarnation": token.incarnation,
        "generation": token.generation,
    }


def started(token: Token, request: EffectRequest, *, epoch: int, now: datetime) -> EffectRecord:
    """The row of an effect that begins."""
    return EffectRecord(
        scope=request.scope,
        key=request.key,
        epoch=epoch,
        name=request.name,
        kind=request.kind,
        state=EffectState.STARTED,
        intent_hash=request.intent_hash,
        session=token.session,
        process=token.process,
        ticket=request.ticket,
        undo=request.undo,
        undoes=request.undoes,
        verify=request.verify,
        on_unknown=request.on_unknown,
        provider_idempotent=request.provider_idempotent,
        approval_id=None,
        lease_until=request.lease_until,
        quiesce_seconds=request.quiesce_seconds,
        started_at=now,
        updated_at=now,
        **_place(token),
    )


def effect_binding(record: EffectRecord, part: str) -> Mapping[str, Any]:
    """
    What the envelope of an effect's ``intent`` or ``result`` is bound to.

    That of the intent is bound to all that decides later what is done about the effect, and by whom: so a
    compensation that was exchanged in the effect's row is none that was registered, and nobody calls it.
    """
    bound: dict[str, Any] = {"kind": f"effect-{part}", "scope": record.scope, "effect": record.reference}
    if part == "intent":
        bound |= {
            "act": record.kind.value,
            "dag_id": record.dag_id,
            "run_id": record.run_id,
            "task_id": record.task_id,
            "map_index": record.map_index,
            "name": record.name,
            "on_unknown": record.on_unknown.value,
            "provider_idempotent": record.provider_idempotent,
        }
        # Written for every effect that begins, so what is not there is left out.
        bound |= {name: getattr(record, name) for name in _OPTIONAL if getattr(record, name) is not None}
    return bound


def earlier_binding(record: EffectRecord) -> Mapping[str, Any]:
    """
    What the envelope of an intent was bound to up to schema 0002.

    Nobody without the keys can make one, and an effect that began since has none.
    """
    return {"kind": "effect-intent", "scope": record.scope, "effect": record.reference}
