"""
Which row a payload belongs to, and what it has to be.

An envelope names the row that it was made for in its binding. The payload's id says the same as text, but
names may hold the text that separates them, so the id alone does not always tell one row from another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from louver.canonical import load_bytes
from louver.errors import IntegrityError
from louver.ledger.approval_operations import approval_binding
from louver.ledger.effect_operations import earlier_binding, effect_binding
from louver.ledger.event_operations import event_binding
from louver.ledger.names import EffectState
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    Record,
    RunRecord,
)
from louver.ledger.task_operations import checkpoint_binding, definition_binding, definition_payload

__all__ = [
    "Expected",
    "Owner",
    "binding_in",
    "expected_of",
    "own_id",
    "owner_of",
    "payloads_of",
]

_BEFORE_BINDING = '{"binding":'

Owner = tuple[type[Record], tuple[Any, ...]]
"""A kind of row, and its primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """
    A payload that a row says it has.

    :param owner: that row.
    :param binding: of the envelope.
    :param earlier: of an envelope that an earlier release made, where that bound it to less, or that was made
        under a definition that the run was under before.
    :param digest: of the envelope, where the row keeps it.
    :param fingerprint: of the value, where the row keeps it.
    :param saved_at: when it was saved, where the row tells.
    """

    owner: Record
    payload_id: str
    binding: Mapping[str, Any]
    digest: str | None = None
    fingerprint: str | None = None
    saved_at: datetime | None = None
    earlier: tuple[Mapping[str, Any], ...] = ()


def expected_of(
    record: Record, *, definition_fingerprint: str | None = None, earlier: Sequence[str] = ()
) -> list[Expected]:
    """
    The payloads that the row has to have.

    :param definition_fingerprint: of the run that a checkpoint belongs to; None where the run has begun anew
        since, under a definition that the envelope alone still tells.
    :param earlier: of the definitions that the run was under before it accepted another.
    """
    if isinstance(record, RunRecord | AcceptanceRecord):
        if isinstance(record, AcceptanceRecord):
            fingerprint = record.from_fingerprint
        else:
            fingerprint = record.definition_fingerprint
        return [
            Expected(
                owner=record,
                payload_id=definition_payload(fingerprint),
                binding=definition_binding(fingerprint),
            )
        ]
    if isinstance(record, CheckpointRecord):
        return [
            Expected(
                owner=record,
                payload_id=record.payload,
                binding=checkpoint_binding(record, definition_fingerprint or ""),
                earlier=tuple(checkpoint_binding(record, fingerprint) for fingerprint in earlier),
                digest=record.digest,
                saved_at=record.saved_at,
            )
        ]
    if isinstance(record, ApprovalRecord):
        return [
            Expected(
                owner=record,
                payload_id=record.payload,
                binding=approval_binding(record),
                fingerprint=record.payload_fingerprint,
                saved_at=record.requested_at,
            )
        ]
    if isinstance(record, EventRecord):
        return [
            Expected(
                owner=record,
                payload_id=record.payload,
                binding=event_binding(record),
                saved_at=record.accepted_at,
            )
        ]
    return _of_effect(record) if isinstance(record, EffectRecord) else []


def _of_effect(effect: EffectRecord) -> list[Expected]:
    intent = Expected(
        owner=effect,
        payload_id=effect.intent_payload,
        binding=effect_binding(effect, "intent"),
        fingerprint=effect.intent_hash,
        saved_at=effect.started_at,
        earlier=(earlier_binding(effect),),
    )
    if effect.commit_sequence is None:
        return [intent]
    # One with a reason was changed since, by a person.
    untouched = effect.state is EffectState.COMMITTED and effect.reason is None
    result = Expected(
        owner=effect,
        payload_id=effect.result_payload,
        binding=effect_binding(effect, "result"),
        saved_at=effect.updated_at if untouched else None,
    )
    return [intent, result]


def payloads_of(record: Record) -> tuple[str, ...]:
    """Ids of the payloads that may belong to the row."""
    if isinstance(record, RunRecord):
        return (definition_payload(record.definition_fingerprint),)
    if isinstance(record, EffectRecord):
        return record.intent_payload, record.result_payload
    if isinstance(record, CheckpointRecord | ApprovalRecord | EventRecord):
        return (record.payload,)
    return ()


def binding_in(opening: bytes) -> Mapping[str, Any] | None:
    """
    What an envelope says that it is bound to. Nothing vouches for it before the envelope is verified.

    :param opening: the envelope, or as much of it as holds the binding.
    :returns: None where the bytes do not open as an envelope does.
    """
    text = opening.decode("utf-8", "replace")
    if not text.startswith(_BEFORE_BINDING):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_BEFORE_BINDING))
        binding = load_bytes(text[len(_BEFORE_BINDING) : end].encode("utf-8"))
    except (ValueError, RecursionError, IntegrityError):
        return None
    return binding if isinstance(binding, dict) else None


def owner_of(binding: Mapping[str, Any]) -> Owner | None:
    """
    The row that an envelope with this binding belongs to; None where no release binds so.

    For a definition that is any run with its fingerprint, which stands here for the primary key.
    """
    found = _named_by(binding)
    if found is None or not all(isinstance(part, str | int) for part in found[1]):
        return None
    return found


def _named_by(binding: Mapping[str, Any]) -> Owner | None:
    kind = binding.get("kind")
    try:
        if kind == "checkpoint":
            return CheckpointRecord, tuple(binding[name] for name in CheckpointRecord.PRIMARY)
        if kind in ("effect-intent", "effect-result"):
            key, _, epoch = binding["effect"].rpartition("#")
            return EffectRecord, (binding["scope"], key, int(epoch))
        if kind == "approval":
            return ApprovalRecord, (binding["request_id"],)
        if kind == "event":
            return EventRecord, (binding["dag_id"], binding["identity"])
        if kind == "definition":
            return RunRecord, (binding["fingerprint"],)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    return None


def own_id(binding: Mapping[str, Any]) -> str | None:
    """The payload id that an envelope with this binding is kept under; None where no release binds so."""
    kind = binding.get("kind")
    try:
        if kind == "checkpoint":
            names = ("dag_id", "run_id", "task_id", "map_index", "incarnation", "generation", "name")
            return ":".join(("checkpoint", *(str(binding[name]) for name in names)))
        if kind in ("effect-intent", "effect-result"):
            return f"effect:{binding['scope']}:{binding['effect']}:{kind.removeprefix('effect-')}"
        if kind == "approval":
            return f"approval:{binding['request_id']}"
        if kind == "event":
            return f"event:{binding['dag_id']}:{binding['identity']}"
        if kind == "definition":
            return definition_payload(binding["fingerprint"])
    except KeyError:
        pass
    return None
