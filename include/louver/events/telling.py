"""From changed rows to events: what is told of each, under which id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import singledispatch
from typing import Any
from urllib.parse import quote

from louver.events.event import COMMAND_TYPES, EFFECT_TYPES, RUN_TYPES, UNDO_TYPES, Event
from louver.ledger.names import CommandState, Decision, EffectKind, EffectState
from louver.ledger.records import (
    ApprovalRecord,
    CommandRecord,
    EffectRecord,
    Record,
    RunRecord,
    TransitionRecord,
)
from louver.ledger.witness import RowChange
from louver.states import FailureKind, RunState
from louver.timestamps import to_utc

__all__ = ["events_of", "stale_event"]

_SAID_BY_PEOPLE = {
    "user:settled": "compensation.settled",
    "user:retried": "compensation.retried",
    "user:renewed": "effect.renewed",
}

_WITH_KIND = ("runtime:error", "timeout:start", "timeout:attempt", "timeout:idle")
"""The triggers whose reason begins with the kind of the failure; it was written by Louver, not typed."""

_KINDS = frozenset(str(kind) for kind in FailureKind)


def events_of(changes: Collection[RowChange]) -> list[Event]:
    """What there is to tell of these rows, in their order."""
    return [event for change in changes for event in _told(change.after, change.before)]


@singledispatch
def _told(after: Record, before: Record | None) -> Iterator[Event]:
    raise TypeError(f"nothing is told of a {type(after).__name__}")


@_told.register
def _run(after: RunRecord, before: Record | None) -> Iterator[Event]:
    anew = not isinstance(before, RunRecord) or before.incarnation != after.incarnation
    if isinstance(before, RunRecord) and not anew and before.state is after.state:
        return
    at = to_utc(after.updated_at)
    event_type = "workflow.started" if anew and after.state is RunState.RUNNING else RUN_TYPES[after.state]
    yield Event(
        id=_id("run", after.dag_id, after.run_id, after.incarnation, event_type, at),
        type=event_type,
        subject=_path(after.run_id),
        time=at,
        dag_id=after.dag_id,
        run_id=after.run_id,
        state=str(after.state),
        from_state=str(before.state) if isinstance(before, RunRecord) and not anew else None,
        actor=after.requester if anew else None,
        seconds=_between(after.created_at, at) if after.state.terminal else None,
        details={
            "incarnation": after.incarnation,
            "definition": after.definition_name,
            "definition_version": after.definition_version,
            "definition_fingerprint": after.definition_fingerprint,
        },
    )


@_told.register
def _transition(after: TransitionRecord, before: Record | None) -> Iterator[Event]:
    at = to_utc(after.at)
    key = (after.dag_id, after.run_id, after.task_id, after.map_index)
    noted = after.from_state is after.to_state
    event_type = f"task.{after.to_state}"
    if noted:
        event_type = _SAID_BY_PEOPLE.get(after.trigger, "task.noted")
    row = (*key, after.generation, after.chain, after.version, at)
    common: dict[str, Any] = {
        "subject": _path(after.run_id, after.task_id, *_index(after.map_index)),
        "time": at,
        **_task_of(after),
        "attempt": after.attempt,
        "state": str(after.to_state),
        "failure": _kind(after),
        "source": str(after.source),
    }
    yield Event(
        id=_id("task", *row),
        type=event_type,
        from_state=str(after.from_state),
        trigger=after.trigger,
        actor=after.actor,
        details={"chain": after.chain, "version": after.version, "precision": str(after.precision)},
        **common,
    )
    if after.to_state.terminal and not noted:
        yield Event(
            id=_id("advanced", *row),
            type="workflow.advanced",
            **(common | {"subject": _path(after.run_id)}),
        )


def _kind(row: TransitionRecord) -> str | None:
    if row.trigger == "runtime:attempt_lost":
        return str(FailureKind.LOST)
    if row.trigger not in _WITH_KIND:
        return None
    kind = (row.reason or "").partition(":")[0]
    return kind if kind in _KINDS else None


@_told.register
def _effect(after: EffectRecord, before: Record | None) -> Iterator[Event]:
    known = before if isinstance(before, EffectRecord) else None
    # Begun again in the same epoch it is started as before, by another call.
    if known is not None and (known.state, known.ticket) == (after.state, after.ticket):
        return
    if known is None and after.state is EffectState.FAILED:
        # A new epoch that a person has opened; the trail has a row about that, which is told.
        return
    types = UNDO_TYPES if after.kind is EffectKind.UNDO else EFFECT_TYPES
    at = to_utc(after.updated_at)
    details: dict[str, str | int | bool] = {
        "effect": after.name,
        "scope": after.scope,
        "key": after.key,
        "epoch": after.epoch,
        "intent_hash": after.intent_hash,
        "undoable": after.undo is not None,
    }
    optional = {
        "undoes": after.undoes,
        "request_id": after.approval_id,
        "commit_sequence": after.commit_sequence,
    }
    yield Event(
        id=_id("effect", after.scope, after.key, after.epoch, after.state, after.session, after.ticket, at),
        type=types[after.state],
        subject=_path(after.run_id, after.reference),
        time=at,
        **_task_of(after),
        state=str(after.state),
        from_state=None if known is None else str(known.state),
        seconds=_between(after.started_at, at)
        if known is not None and known.state is EffectState.STARTED
        else None,
        details=details | {name: value for name, value in optional.items() if value is not None},
    )


@_told.register
def _approval(after: ApprovalRecord, before: Record | None) -> Iterator[Event]:
    known = before if isinstance(before, ApprovalRecord) else None
    if known is None:
        yield _about(after, "approval.requested", after.requested_at, actor=after.requester)
        return
    if known.decision is not after.decision:
        types = {Decision.EXPIRED: "approval.expired", Decision.VOID: "approval.void"}
        yield _about(
            after,
            types.get(after.decision, "approval.decided"),
            after.decided_at or after.requested_at,
            actor=after.decided_by,
            from_state=str(known.decision),
        )
    if after.consumed_by is not None and known.consumed_by != after.consumed_by:
        yield _about(after, "approval.consumed", after.consumed_at or after.requested_at)


def stale_event(request: ApprovalRecord, *, now: datetime | None) -> Event:
    """What is told of a request whose answer allows nothing any more, when an effect has found out."""
    return _about(
        request, "approval.stale", now or request.decided_at or request.requested_at, always_one=True
    )


def _about(
    record: ApprovalRecord,
    event_type: str,
    moment: datetime,
    *,
    actor: str | None = None,
    from_state: str | None = None,
    always_one: bool = False,
) -> Event:
    at = to_utc(moment)
    decided = event_type in ("approval.decided", "approval.expired", "approval.void")
    return Event(
        # However often it is found stale, it is so once.
        id=_id("approval", record.request_id, event_type, record.decision, *([] if always_one else [at])),
        type=event_type,
        subject=_path(record.run_id, record.request_id),
        time=at,
        **_task_of(record),
        state=str(record.decision),
        from_state=from_state,
        actor=actor,
        seconds=_between(record.requested_at, at) if decided else None,
        details={
            "request_id": record.request_id,
            "of": record.of,
            "payload_fingerprint": record.payload_fingerprint,
            "upstream_fingerprint": record.upstream_fingerprint,
            "definition_fingerprint": record.definition_fingerprint,
            "state_version": record.state_version,
        },
    )


@_told.register
def _command(after: CommandRecord, before: Record | None) -> Iterator[Event]:
    known = before if isinstance(before, CommandRecord) else None
    # That one is claimed, or open again, is between processes.
    if known is None and after.state is not CommandState.PENDING:
        return
    if known is not None and (known.state is after.state or after.closed_at is None):
        return
    at = to_utc(after.closed_at or after.sent_at)
    yield Event(
        id=_id("command", after.command_id, after.state, at),
        type=COMMAND_TYPES[after.state],
        subject=_path(after.run_id, after.command_id),
        time=at,
        **_task_of(after),
        state=str(after.state),
        from_state=None if known is None else str(known.state),
        actor=after.actor,
        source=str(after.source),
        seconds=None if after.closed_at is None else _between(after.sent_at, at),
        details={"command_id": after.command_id, "verb": str(after.verb)},
    )


def _task_of(row: TransitionRecord | EffectRecord | ApprovalRecord | CommandRecord) -> dict[str, Any]:
    """Which task the row is about."""
    names = ("dag_id", "run_id", "task_id", "map_index", "generation")
    return {name: getattr(row, name) for name in names}


def _id(*parts: object) -> str:
    """The same for the same row, whichever process tells of it."""
    text = json.dumps([part.isoformat() if isinstance(part, datetime) else str(part) for part in parts])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe=":+@#=,", errors="backslashreplace") for part in parts)


def _index(map_index: int) -> tuple[str, ...]:
    return () if map_index < 0 else (str(map_index),)


def _between(earlier: datetime, later: datetime) -> float:
    return max((to_utc(later) - to_utc(earlier)).total_seconds(), 0.0)
