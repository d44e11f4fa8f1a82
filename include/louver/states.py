"""
The 15 task states, the run states, and the one table of legal transitions.

The table is semantics section 1, written as data: an edge and the triggers that may take it. Everybody who
changes a state asks :func:`transition`; nothing else in Louver writes a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from louver.errors import IllegalTransition

__all__ = [
    "TRANSITIONS",
    "FailureKind",
    "Precision",
    "RunState",
    "Source",
    "TaskState",
    "transition",
    "triggers_between",
]


class TaskState(str, Enum):
    """What is true of one step of one run."""

    PENDING = "pending"
    BLOCKED = "blocked"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RETRY_WAIT = "retry_wait"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Whether nothing but a person or a clear leads out of it."""
        return self in _TERMINAL

    def __str__(self) -> str:
        return self.value


_TERMINAL = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.FAILED,
        TaskState.STOPPED,
        TaskState.CANCELLED,
        TaskState.SKIPPED,
        TaskState.LOST,
    }
)


class RunState(str, Enum):
    """What is true of a whole run (semantics section 2)."""

    RUNNING = "running"
    PAUSED = "paused"
    WAITING_APPROVAL = "waiting_approval"
    SUCCEEDED = "succeeded"
    SUCCEEDED_WITH_FAILURES = "succeeded_with_failures"
    FAILED = "failed"
    COMPENSATING = "compensating"
    FAILED_COMPENSATED = "failed_compensated"
    COMPENSATION_FAILED = "compensation_failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"

    @property
    def terminal(self) -> bool:
        """Whether the run is over."""
        return self not in _LIVE_RUNS

    @property
    def success(self) -> bool:
        """Whether Airflow shows the Dag run as success."""
        return self in (RunState.SUCCEEDED, RunState.SUCCEEDED_WITH_FAILURES)

    def __str__(self) -> str:
        return self.value


_LIVE_RUNS = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.WAITING_APPROVAL, RunState.COMPENSATING})


class FailureKind(str, Enum):
    """Why a step failed."""

    EXCEPTION = "exception"
    TIMEOUT_START = "timeout_start"
    TIMEOUT_ATTEMPT = "timeout_attempt"
    TIMEOUT_IDLE = "timeout_idle"
    RESULT_INVALID = "result_invalid"
    EFFECT_CONFLICT = "effect_conflict"
    EFFECT_UNKNOWN = "effect_unknown"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_STALE = "approval_stale"
    DEFINITION_CHANGED = "definition_changed"
    INTEGRITY = "integrity"
    LOST = "lost"

    def __str__(self) -> str:
        return self.value


class Source(str, Enum):
    """Who wrote a transition."""

    WORKER = "worker"
    LISTENER = "listener"
    RECONCILER = "reconciler"
    CLI = "cli"
    API = "api"
    ENGINE = "engine"

    def __str__(self) -> str:
        return self.value


class Precision(str, Enum):
    """How exactly the time of a transition is known."""

    EXACT = "exact"
    BOUNDED = "bounded"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


_S = TaskState

# A person, in Airflow, may set these whatever Louver thinks; everything else obeys the table.
_MARKS = (_S.SUCCEEDED, _S.FAILED, _S.SKIPPED)
_MARKED = "user:marked"
_CLEARED = "user:cleared"

_UPSTREAM = "orchestrator:upstream"
_CASCADE = "orchestrator:cascade"
_STOP = "user:stop"

_ENDS_EARLY: dict[TaskState, tuple[str, ...]] = {
    _S.SKIPPED: (_UPSTREAM,),
    _S.CANCELLED: (_CASCADE,),
    _S.STOPPED: (_STOP,),
}

_TABLE: dict[TaskState, dict[TaskState, tuple[str, ...]]] = {
    _S.PENDING: {
        _S.BLOCKED: ("orchestrator:waiting",),
        _S.QUEUED: ("orchestrator:dependencies_resolved",),
        **_ENDS_EARLY,
    },
    _S.BLOCKED: {_S.QUEUED: ("orchestrator:dependencies_resolved",), **_ENDS_EARLY},
    _S.QUEUED: {_S.STARTING: ("scheduler:dispatch",), _S.FAILED: ("timeout:start",), **_ENDS_EARLY},
    _S.STARTING: {
        _S.RUNNING: ("executor:launched",),
        _S.BLOCKED: ("resource:waiting",),
        _S.PAUSED: ("user:pause",),
        _S.RETRY_WAIT: ("runtime:error", "runtime:attempt_lost", "runtime:outdated"),
        _S.FAILED: ("runtime:error",),
        _S.STOPPING: (_STOP, _CASCADE),
        _S.STOPPED: (_STOP,),
        _S.CANCELLED: (_CASCADE, "orchestrator:duplicate"),
        _S.LOST: ("runtime:attempt_lost",),
    },
    _S.RUNNING: {
        _S.SUCCEEDED: ("runtime:completed",),
        _S.FAILED: ("runtime:error", "timeout:attempt", "timeout:idle"),
        _S.SKIPPED: ("task:skip",),
        _S.RETRY_WAIT: ("runtime:error", "runtime:attempt_lost", "timeout:attempt", "timeout:idle"),
        _S.QUEUED: ("executor:restarting",),
        _S.PAUSING: ("user:pause",),
        _S.PAUSED: ("approval:requested",),
        _S.STOPPING: (_STOP, _CASCADE),
        _S.LOST: ("runtime:attempt_lost",),
    },
    _S.PAUSING: {
        _S.PAUSED: ("runtime:pause_reached",),
        _S.RUNNING: ("runtime:pause_rolled_back",),
        _S.SUCCEEDED: ("runtime:completed",),
        _S.FAILED: ("runtime:error", "timeout:attempt", "timeout:idle"),
        _S.RETRY_WAIT: ("runtime:error", "runtime:attempt_lost", "timeout:attempt", "timeout:idle"),
        _S.STOPPING: (_STOP, _CASCADE),
        _S.LOST: ("runtime:attempt_lost",),
    },
    _S.PAUSED: {
        _S.RUNNING: ("user:resume",),
        _S.QUEUED: ("user:resume", "approval:granted"),
        _S.STOPPING: (_STOP, _CASCADE),
        _S.STOPPED: (_STOP,),
        _S.CANCELLED: (_CASCADE,),
        _S.RETRY_WAIT: ("runtime:attempt_lost",),
        _S.FAILED: ("timeout:attempt", "approval:expired", "approval:rejected", "approval:void"),
        _S.LOST: ("runtime:attempt_lost",),
    },
    _S.RETRY_WAIT: {_S.QUEUED: ("policy:retry_due",), _S.STOPPED: (_STOP,), _S.CANCELLED: (_CASCADE,)},
    _S.STOPPING: {
        _S.STOPPED: ("runtime:stop_confirmed",),
        _S.CANCELLED: ("runtime:cascade_confirmed",),
        _S.SUCCEEDED: ("runtime:completed",),
        _S.FAILED: ("runtime:error",),
        _S.RETRY_WAIT: ("runtime:attempt_lost",),
        _S.LOST: ("runtime:grace_used_up", "runtime:attempt_lost"),
    },
}


def _complete(
    table: dict[TaskState, dict[TaskState, tuple[str, ...]]],
) -> Mapping[tuple[TaskState, TaskState], frozenset[str]]:
    edges: dict[tuple[TaskState, TaskState], set[str]] = {}
    for origin, targets in table.items():
        for target, triggers in targets.items():
            edges.setdefault((origin, target), set()).update(triggers)
    for origin in TaskState:
        for target in _MARKS:
            edges.setdefault((origin, target), set()).add(_MARKED)
        # A clear starts the next generation, whatever the state was.
        edges.setdefault((origin, _S.PENDING), set()).add(_CLEARED)
    return MappingProxyType({edge: frozenset(triggers) for edge, triggers in edges.items()})


TRANSITIONS: Mapping[tuple[TaskState, TaskState], frozenset[str]] = _complete(_TABLE)
"""Every legal edge and the triggers that may take it (semantics section 1)."""


def triggers_between(current: TaskState, to: TaskState) -> frozenset[str]:
    """The triggers that lead from one state to the other; empty where none does."""
    return TRANSITIONS.get((current, to), frozenset())


def transition(current: TaskState, to: TaskState, trigger: str | None = None) -> TaskState:
    """
    The new state, if the table allows it.

    :param current: the state before.
    :param to: the state wanted.
    :param trigger: what asks for it, as ``user:pause``; ``None`` asks only whether the edge exists.
    :raises IllegalTransition: where the table has no such edge, or not by this trigger; the message says
        what is possible instead.
    """
    allowed = triggers_between(current, to)
    # What only a person or a clear may do is no way that exists by itself.
    if not allowed or (trigger is None and allowed <= {_MARKED, _CLEARED}):
        ways = sorted(
            str(target)
            for (origin, target), triggers in TRANSITIONS.items()
            if origin is current and triggers - {_MARKED, _CLEARED}
        )
        only = f"; from there: {', '.join(ways)}" if ways else "; it is terminal"
        raise IllegalTransition(f"no transition from {current} to {to}{only}")
    if trigger is not None and trigger not in allowed:
        raise IllegalTransition(
            f"{trigger!r} does not lead from {current} to {to}; allowed: {', '.join(sorted(allowed))}"
        )
    return to
