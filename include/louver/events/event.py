"""
The event that Louver tells the outside, and who takes it.

An event says that something is so: a step, a run, an effect, an approval has come to a state. It holds ids,
hashes, states and times alone (product row O9): no payload, no secret, and none of the words that a person
typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from louver.errors import ConfigurationError, require_aware
from louver.ledger.names import CommandState, EffectState
from louver.states import RunState, TaskState

__all__ = [
    "COMMAND_TYPES",
    "EFFECT_TYPES",
    "EVENT_TYPES",
    "RUN_TYPES",
    "UNDO_TYPES",
    "Event",
    "EventSink",
]

_RUNS = {RunState.FAILED_COMPENSATED: "compensated"}

RUN_TYPES: Mapping[RunState, str] = {state: f"workflow.{_RUNS.get(state, state.value)}" for state in RunState}
"""What is told of a run that has come into a state."""

_EFFECTS = {EffectState.STARTED: "begun"}

EFFECT_TYPES: Mapping[EffectState, str] = {
    state: f"effect.{_EFFECTS.get(state, state.value)}" for state in EffectState
}
"""The same of an effect."""

UNDO_TYPES: Mapping[EffectState, str] = {
    state: f"compensation.{_EFFECTS.get(state, state.value)}"
    for state in (EffectState.STARTED, EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN)
}
"""The same of an undo, which is never undone itself."""

COMMAND_TYPES: Mapping[CommandState, str] = {
    CommandState.PENDING: "command.sent",
    CommandState.DONE: "command.done",
    CommandState.REFUSED: "command.refused",
}
"""The same of a command, but for what is between processes."""

EVENT_TYPES: tuple[str, ...] = (
    "workflow.started",
    "workflow.advanced",
    *RUN_TYPES.values(),
    *(f"task.{state}" for state in TaskState),
    "task.noted",
    *EFFECT_TYPES.values(),
    "effect.renewed",
    *UNDO_TYPES.values(),
    "compensation.settled",
    "compensation.retried",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "approval.void",
    "approval.consumed",
    "approval.stale",
    *COMMAND_TYPES.values(),
)
"""Every type that there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    Something that has come about, and stands in the ledger.

    :param id: 32 hex digits, made of the row that tells of it: told twice, it has the same id.
    :param type: one of :data:`EVENT_TYPES`.
    :param subject: what it is about, within its Dag: ASCII, its parts joined by ``/`` and escaped as in URLs.
    :param time: when it happened, as the ledger has it; aware UTC.
    :param state: what it has come to.
    :param from_state: what it was before; None where it is new, or that is not told.
    :param trigger: what brought a step into its state, as ``runtime:error``; a word of a fixed list.
    :param failure: why a step failed, as ``timeout_idle``; a word of a fixed list.
    :param actor: the id of who asked for it; None where it was no person.
    :param source: which part of Louver wrote it.
    :param seconds: how long what has ended took: a run, an effect, a request until it was decided, a command.
    :param details: further ids, hashes and numbers.
    """

    id: str
    type: str
    subject: str
    time: datetime
    dag_id: str
    run_id: str
    state: str
    from_state: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    generation: int | None = None
    attempt: int | None = None
    trigger: str | None = None
    failure: str | None = None
    actor: str | None = None
    source: str | None = None
    seconds: float | None = None
    details: Mapping[str, str | int | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_aware("time", self.time)
        if self.type not in EVENT_TYPES:
            raise ConfigurationError(f"{self.type!r} is no type of event")

    @property
    def data(self) -> dict[str, Any]:
        """All that it says, by name, without what is not known; of JSON's types."""
        said: dict[str, Any] = {
            name: getattr(self, name)
            for name in _SAID
            if getattr(self, name) is not None and (name != "map_index" or self.map_index != -1)
        }
        return said | dict(self.details)


_SAID = (
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "generation",
    "attempt",
    "state",
    "from_state",
    "trigger",
    "failure",
    "actor",
    "source",
    "seconds",
)


class EventSink(Protocol):
    """
    Takes events. What it raises is counted and goes no further (product row T13).

    It is called by the thread that wrote, which waits for it: put what may take long behind
    :class:`louver.events.Background`.
    """

    def emit(self, event: Event) -> None:
        """Take the event."""
