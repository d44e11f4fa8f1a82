"""Effects, and the approvals that allow them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import Decision, EffectKind, EffectState, OnUnknown, TaskKey
from louver.ledger.records.base import Record

__all__ = ["OF_NO_GENERATION", "ApprovalRecord", "EffectRecord"]

OF_NO_GENERATION = 0
"""Of an effect that has outlived its run: what a later run of that id does is not built on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord(Record):
    """
    One epoch of one effect.

    :param scope: what the key is unique in: ``dag:<dag_id>``, ``run:<dag_id>:<run_id>`` or ``global``.
    :param key: the business key, or the default one; ``undo:<key>#<epoch>`` for an undo.
    :param undo: import path of the compensation, registered before the effect can happen.
    :param undoes: scope-local ``key#epoch`` that an undo undoes.
    :param commit_sequence: order of commit within the run, from 1.
    :param lease_until: until when its process may be inside ``perform`` without a sign of life.
    :param ticket: names the one call that began it, which finds itself when it is repeated.
    :param quiesce_seconds: how long after that the provider may still act.
    """

    TABLE: ClassVar[str] = "effect"
    PRIMARY: ClassVar[tuple[str, ...]] = ("scope", "key", "epoch")

    scope: str
    key: str
    epoch: int
    name: str
    kind: EffectKind
    state: EffectState
    intent_hash: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    incarnation: int
    generation: int
    session: int
    process: str
    ticket: str
    undo: str | None
    undoes: str | None
    verify: str | None
    on_unknown: OnUnknown
    provider_idempotent: bool
    approval_id: str | None
    lease_until: datetime
    quiesce_seconds: float
    started_at: datetime
    updated_at: datetime
    commit_sequence: int | None = None
    reason: str | None = None

    @property
    def reference(self) -> str:
        """``key#epoch``: names this epoch of the effect within its scope."""
        return f"{self.key}#{self.epoch}"

    @property
    def provider_key(self) -> str:
        """The provider's own idempotency key: ``key#epoch``, ``undo:key#epoch`` for its undo (section 3)."""
        return self.key if self.kind is EffectKind.UNDO else self.reference

    @property
    def outlived(self) -> bool:
        """
        Whether its run is over and was removed, or made again under its id.

        It guards its key, and is no other run's: nobody undoes it, unless its own step asks for it once more.
        """
        return self.generation == OF_NO_GENERATION

    @property
    def task(self) -> TaskKey:
        """The task that began this epoch."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)

    @property
    def intent_payload(self) -> str:
        """Payload id of the intent."""
        return f"effect:{self.scope}:{self.reference}:intent"

    @property
    def result_payload(self) -> str:
        """Payload id of the recorded result."""
        return f"effect:{self.scope}:{self.reference}:result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord(Record):
    """
    One request for a decision, with everything the decision is bound to (semantics section 6).

    :param task_id: the task that asks: the approval node, or the acting step when it asks anew.
    :param of: the acting step.
    :param ancestors: the approval's ancestors, whose results it was shown.
    :param state_version: how many of them had a committed result.
    :param upstream_fingerprint: hash of those results.
    :param payload_fingerprint: intent hash of the one effect that it allows.
    :param sequence: order of asking within the run, from 1; the newest request for a step counts.
    :param consumed_by: ``key#epoch`` and intent hash of the effect that used it.
    :param mac: over all of the row, under the key called ``key_id``; written with each change.
    """

    TABLE: ClassVar[str] = "approval"
    PRIMARY: ClassVar[tuple[str, ...]] = ("request_id",)

    request_id: str
    sequence: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    generation: int
    of: str
    definition_name: str
    definition_version: str
    definition_fingerprint: str
    payload_fingerprint: str
    ancestors: tuple[str, ...]
    state_version: int
    upstream_fingerprint: str
    approvers: tuple[str, ...]
    four_eyes: bool
    requester: str | None
    requested_at: datetime
    expires_at: datetime | None
    decision: Decision = Decision.PENDING
    decided_by: str | None = None
    decided_at: datetime | None = None
    consumed_by: str | None = None
    consumed_at: datetime | None = None
    key_id: str = ""
    mac: str = ""

    @property
    def task(self) -> TaskKey:
        """The task that asks."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)

    @property
    def payload(self) -> str:
        """Payload id of what was shown."""
        return f"approval:{self.request_id}"
