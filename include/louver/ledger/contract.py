"""
The store contract: value objects in and out, atomic operations named by what they decide.

Each operation is one transaction: it happens whole or not at all. Those that take a :class:`Token` are
conditional on it and raise :class:`~louver.errors.Superseded` where another process has taken the task over.
Every operation may raise :class:`~louver.errors.LedgerUnavailable` or :class:`~louver.errors.LedgerClosed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from louver.approvals import Answer, Evidence
from louver.ledger.names import EffectKind, OnUnknown, RunKey, TaskKey, Token
from louver.ledger.records import (
    ApprovalRecord,
    EffectRecord,
    EventRecord,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.sessions import Change, Claim, Entry
from louver.states import RunState, Source

__all__ = [
    "ApprovalRequest",
    "BeginOutcome",
    "Begun",
    "EffectRequest",
    "EventOutcome",
    "Ledger",
    "OpenedTask",
    "RunStart",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """
    What a run begins with; see :class:`RunRecord`.

    :param definition: the definition's plain form, kept once for each fingerprint.
    """

    key: RunKey
    definition_name: str
    definition_version: str
    definition_fingerprint: str
    definition: Mapping[str, Any] = field(repr=False)
    marker: str | None = None
    requester: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTask:
    """A task in the hands of one process."""

    token: Token
    entry: Entry
    record: TaskRecord
    transitions: tuple[TransitionRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """
    An effect that wants to begin; see :class:`EffectRecord` for the fields they share.

    :param intent: typed value; hashed and kept as payload.
    :param guarded_by: the acting step's name, where an approval must allow the effect.
    """

    scope: str
    key: str
    name: str
    kind: EffectKind = EffectKind.FORWARD
    intent: Any = field(repr=False)
    intent_hash: str
    undo: str | None
    undoes: str | None = None
    verify: str | None = None
    on_unknown: OnUnknown
    provider_idempotent: bool
    guarded_by: str | None = None
    lease_until: datetime
    quiesce_seconds: float


class BeginOutcome(str, Enum):
    """What beginning an effect found."""

    BEGUN = "begun"
    RECORDED = "recorded"
    IN_PROGRESS = "in_progress"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """
    The answer to ``begin_effect``.

    :param result: the recorded result, where the outcome is ``recorded``.
    """

    outcome: BeginOutcome
    record: EffectRecord
    result: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request that a task makes when it parks; see :class:`ApprovalRecord`."""

    request_id: str
    of: str
    payload: Any = field(repr=False)
    payload_fingerprint: str
    ancestors: tuple[str, ...]
    approvers: tuple[str, ...]
    four_eyes: bool
    expires_at: datetime | None


class EventOutcome(str, Enum):
    """What became of an event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"

    def __str__(self) -> str:
        return self.value


class Ledger(ABC):
    """Where Louver keeps what is true."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give everything back; twice is fine, use afterwards raises ``LedgerClosed``."""

    # Runs

    @abstractmethod
    def open_run(self, start: RunStart, *, now: datetime) -> RunRecord:
        """
        The run, made if it is new.

        Another ``marker`` than the stored one means that the run was deleted and made again: its incarnation
        rises and it starts afresh. The stored definition is otherwise left alone; the caller compares.
        """

    @abstractmethod
    def get_run(self, key: RunKey) -> RunRecord | None:
        """The run, or None."""

    @abstractmethod
    def load_definition(self, definition_fingerprint: str) -> Mapping[str, Any]:
        """
        The plain form of a definition that a run was opened with.

        :raises IntegrityError: where it is missing or not what was signed.
        """

    @abstractmethod
    def find_runs(self, *, dag_id: str | None = None, run_id: str | None = None) -> list[RunRecord]:
        """Runs of that Dag or id, the newest first."""

    @abstractmethod
    def set_run_state(self, key: RunKey, state: RunState, *, reason: str | None, now: datetime) -> None:
        """Store the state that was computed; a cache (semantics section 2)."""

    # Tasks

    @abstractmethod
    def open_task(self, key: TaskKey, claim: Claim, *, now: datetime) -> OpenedTask:
        """
        Take hold of a task of a run that is open.

        :raises Superseded: see :func:`louver.sessions.plan_opening`.
        """

    @abstractmethod
    def advance(self, token: Token, *changes: Change, now: datetime) -> tuple[TransitionRecord, ...]:
        """
        Append transitions to the task's main chain.

        :raises IllegalTransition: where the table does not allow one; then none is appended.
        """

    @abstractmethod
    def complete(self, token: Token, change: Change, result: Any, *, now: datetime) -> TransitionRecord:
        """
        Keep the result as signed checkpoint and append the closing transition, together.

        :raises ValueRefused: where the result is outside the typed value rules; nothing was written.
        """

    @abstractmethod
    def park(
        self, token: Token, change: Change, *, nonce: str, request: ApprovalRequest, now: datetime
    ) -> tuple[ApprovalRecord, TransitionRecord]:
        """
        Append the transition to ``paused``, with the nonce that a resume must present and the request asked.

        A pending request of the same task, generation and facts is kept instead of a second one; any other
        pending request of the task becomes void.
        """

    @abstractmethod
    def mark(
        self, key: TaskKey, change: Change, *, session: int, source: Source, now: datetime
    ) -> TransitionRecord | None:
        """
        Append to the side chain of a task held by nobody who could still write, and fence it.

        :param session: the session that was seen; where another has opened it since, nothing is done and the
            answer is None.
        """

    @abstractmethod
    def get_task(self, key: TaskKey) -> TaskRecord | None:
        """The task's record, or None."""

    @abstractmethod
    def list_tasks(self, run: RunKey) -> list[TaskRecord]:
        """The tasks of the run that have a record."""

    @abstractmethod
    def list_transitions(self, run: RunKey, *, task_id: str | None = None) -> list[TransitionRecord]:
        """Transitions of both chains, by time."""

    # Checkpoints and results

    @abstractmethod
    def save_checkpoint(self, token: Token, name: str, value: Any, *, now: datetime) -> None:
        """
        Keep a value under a name, replacing the one of this generation.

        :raises ValueRefused: where it is outside the typed value rules; nothing was written.
        """

    @abstractmethod
    def load_checkpoint(self, token: Token, name: str, default: Any) -> Any:
        """
        The newest value of this generation, or ``default``.

        :raises IntegrityError: where it is not what was signed.
        """

    @abstractmethod
    def load_result(self, key: TaskKey) -> Any:
        """
        The committed result of a task that succeeded.

        :raises IntegrityError: where it is missing or not what was signed.
        """

    @abstractmethod
    def evidence(self, run: RunKey, task_ids: Iterable[str]) -> Evidence:
        """What the committed results of these tasks amount to now."""

    # Effects

    @abstractmethod
    def begin_effect(self, token: Token, request: EffectRequest, *, now: datetime) -> Begun:
        """
        Begin, or say why not: one decision (semantics section 3, point 2).

        Registers the undo with it, and checks and consumes the approval where one guards the effect.

        :raises EffectConflict: the same key with another intent; checked first.
        :raises EffectUnknown: its undo failed, and a person has not resolved that yet.
        :raises ApprovalStale: see :func:`louver.approvals.check_use`.
        """

    @abstractmethod
    def retry_effect(
        self, token: Token, record: EffectRecord, *, lease_until: datetime, now: datetime
    ) -> EffectRecord | None:
        """Unknown to started, in the same epoch; None where somebody else was quicker."""

    @abstractmethod
    def commit_effect(
        self, token: Token, record: EffectRecord, result: Any, *, now: datetime
    ) -> EffectRecord:
        """
        Record the result. The commit of an undo also turns what it undoes into ``undone``.

        :raises ValueRefused: where the result is outside the typed value rules; the effect stays as it was.
        """

    @abstractmethod
    def fail_effect(self, token: Token, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord:
        """It is proven that nothing happened."""

    @abstractmethod
    def lose_effect(self, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord | None:
        """
        Started to unknown, after proof of death or once lease and quiesce are over.

        Conditional on the session and lease that ``record`` shows; None where they have changed.
        """

    @abstractmethod
    def keep_effect(self, token: Token, record: EffectRecord, *, lease_until: datetime) -> None:
        """Renew the lease of a started effect."""

    @abstractmethod
    def give_up_undo(self, token: Token, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord:
        """
        An undo used up its attempts: what it should undo is ``undo_failed`` and waits for a person.

        What is undone already stays so.
        """

    @abstractmethod
    def get_effect(self, scope: str, key: str) -> EffectRecord | None:
        """The newest epoch of the effect, or None."""

    @abstractmethod
    def list_effects(self, run: RunKey) -> list[EffectRecord]:
        """Effects whose epoch this run began, undos included, in order of their start."""

    @abstractmethod
    def load_effect(self, record: EffectRecord) -> tuple[Any, Any]:
        """Its intent and recorded result (None where there is none yet)."""

    # Approvals

    @abstractmethod
    def decide_approval(self, request_id: str, answer: Answer, *, now: datetime) -> ApprovalRecord:
        """
        Record a person's decision.

        :raises ApprovalClosed: unknown, decided already, or not this person's to decide.
        :raises ApprovalExpired: too late.
        """

    @abstractmethod
    def expire_approval(self, request_id: str, *, now: datetime) -> ApprovalRecord:
        """The request with its time over; a decided one is left alone."""

    @abstractmethod
    def get_approval(self, request_id: str) -> ApprovalRecord | None:
        """The request, or None."""

    @abstractmethod
    def list_approvals(self, run: RunKey) -> list[ApprovalRecord]:
        """The run's requests, in order of asking."""

    @abstractmethod
    def load_approval(self, record: ApprovalRecord) -> Any:
        """The payload that was shown."""

    # Events

    @abstractmethod
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
        """
        Take an event in, once (semantics section 10).

        :raises EventConflict: the same identity with another payload.
        """

    @abstractmethod
    def confirm_event(self, record: EventRecord, *, now: datetime) -> None:
        """Its run exists."""

    @abstractmethod
    def load_event(self, dag_id: str, identity: str) -> tuple[EventRecord, Mapping[str, Any]] | None:
        """The event as it was accepted, or None."""
