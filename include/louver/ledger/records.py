"""
The rows of the ledger, as values.

Every record class says under which table and by which fields it is kept; the stores need to know no more
about it. Times are aware UTC. What people or other systems gave us (intents, results, events, checkpoint
states) is kept in :class:`PayloadRecord` alone; every other record holds ids, hashes and states (row O9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import Decision, EffectKind, EffectState, OnUnknown, RunKey, TaskKey
from louver.states import FailureKind, Precision, RunState, Source, TaskState

__all__ = [
    "RECORDS",
    "RESULT",
    "STATE",
    "ApprovalRecord",
    "CheckpointRecord",
    "EffectRecord",
    "EventRecord",
    "PayloadRecord",
    "Record",
    "RunRecord",
    "TaskRecord",
    "TransitionRecord",
]

RESULT = "return_value"
"""Checkpoint name of a step's result; Airflow's name for the same thing."""

STATE = "state"
"""Checkpoint name of what ``ctx.checkpoint(state)`` saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A row; subclasses say where it is kept."""

    TABLE: ClassVar[str]
    PRIMARY: ClassVar[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Record):
    """
    One run.

    :param incarnation: rises when a run is deleted and made again under the same id.
    :param marker: what tells one incarnation from the next (Airflow's ``run_after``, as text).
    :param requester: the user who started it, for four-eyes; ``None`` where nobody did.
    """

    TABLE: ClassVar[str] = "run"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id")

    dag_id: str
    run_id: str
    incarnation: int
    marker: str | None
    definition_name: str
    definition_version: str
    definition_fingerprint: str
    state: RunState
    reason: str | None
    requester: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> RunKey:
        """Names the run."""
        return RunKey(self.dag_id, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord(Record):
    """
    What is true of a task now: the snapshot beside its transitions.

    :param generation: rises at a clear; a retry continues it.
    :param attempt: how often user code was launched in this generation.
    :param failures: failures of this generation that the retry policy counts.
    :param losses: processes lost in this generation, counted apart.
    :param version: number of the newest transition; without gaps.
    :param session: number of the process that holds the task.
    :param nonce: what a resume must present, once; ``None`` where the task is not parked.
    :param process: host, process id and start time of the holder, to prove its death by.
    """

    TABLE: ClassVar[str] = "task"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    incarnation: int = 1
    generation: int = 1
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    version: int = 0
    state: TaskState = TaskState.PENDING
    failure_kind: FailureKind | None = None
    session: int = 0
    try_number: int = 0
    max_tries: int = 0
    nonce: str | None = None
    process: str | None = None
    updated_at: datetime

    @property
    def key(self) -> TaskKey:
        """Names the task."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRecord(Record):
    """
    One change of state; never updated.

    :param chain: ``main`` for the session that holds the task, ``side`` for everybody else (section 1).
    :param version: position in that chain, from 1, without gaps.
    """

    TABLE: ClassVar[str] = "transition"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index", "chain", "version")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    chain: str
    version: int
    generation: int
    attempt: int
    from_state: TaskState
    to_state: TaskState
    at: datetime
    trigger: str
    actor: str | None
    reason: str | None
    source: Source
    precision: Precision


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

    @property
    def task(self) -> TaskKey:
        """The task that asks."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)

    @property
    def payload(self) -> str:
        """Payload id of what was shown."""
        return f"approval:{self.request_id}"


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


RECORDS: tuple[type[Record], ...] = (
    RunRecord,
    TaskRecord,
    TransitionRecord,
    EffectRecord,
    ApprovalRecord,
    CheckpointRecord,
    EventRecord,
    PayloadRecord,
)
"""Every kind of row, for stores that make their tables from it."""
