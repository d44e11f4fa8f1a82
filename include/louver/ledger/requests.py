"""What the ledger's operations take and give, where it is no row."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from louver.errors import ConfigurationError, require_aware
from louver.ledger.names import EffectKind, OnUnknown, RunKey, TaskKey, Token, Verb
from louver.ledger.records import EffectRecord, RunRecord, TaskRecord, TransitionRecord
from louver.sessions import Entry
from louver.states import RunState, Source

__all__ = [
    "ApprovalRequest",
    "BeginOutcome",
    "Begun",
    "Capability",
    "CommandRequest",
    "EffectRequest",
    "EventOutcome",
    "OpenedTask",
    "Progress",
    "RunFilter",
    "RunStart",
]


def _new_ticket() -> str:
    return uuid.uuid4().hex


class Capability(str, Enum):
    """
    What a store may offer beyond the contract's core; a feature that needs one says so at start (row W15).

    ``listing``: runs can be listed by state and time. ``shared``: other processes see the same ledger.
    ``durable``: it outlives its process. ``skip_locked``: claims pass over rows that somebody else is
    claiming. ``notify``: a waiting process is told of a change, and need not ask again and again.
    """

    LISTING = "listing"
    SHARED = "shared"
    DURABLE = "durable"
    SKIP_LOCKED = "skip_locked"
    NOTIFY = "notify"

    def __str__(self) -> str:
        return self.value


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
    :param ticket: names this call; the same call repeated finds the effect begun by itself.
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
    ticket: str = field(default_factory=_new_ticket)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A command that somebody sends; see :class:`~louver.ledger.records.CommandRecord`."""

    command_id: str
    task: TaskKey
    verb: Verb
    actor: str | None
    reason: str | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    How far a task is.

    :param done: in ``unit``, as ``total``.
    """

    done: float
    total: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """
    Which runs to list, the newest first.

    :param states: any of these; empty means all.
    :param since: begun at that time or later.
    :param until: begun before that time.
    :param after: go on behind this run, the last one of the page before.
    :param limit: how many at most, 1 to 10,000.
    :raises ConfigurationError: for another limit, or a naive time.
    """

    dag_id: str | None = None
    run_id: str | None = None
    states: tuple[RunState, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    after: RunRecord | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 10_000:
            raise ConfigurationError(f"a page holds 1 to 10,000 runs, not {self.limit}")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None:
                require_aware(name, moment)
