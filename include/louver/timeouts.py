"""Three timeouts, independent of each other; the earliest wins (semantics section 1, row T5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from louver.errors import DefinitionError
from louver.ledger.records import TransitionRecord
from louver.states import FailureKind, TaskState

__all__ = ["Overrun", "Timeouts", "duration_in", "first_overrun", "running_time", "start_overrun"]

_AT_WORK = frozenset({TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING})

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=3650)


def duration_in(value: Any) -> timedelta | None:
    """
    A time of 1 ms to 3650 days; None where the value is none.

    :param value: a time, or a number of seconds; bool is no number.
    """
    if type(value) in (int, float):
        try:
            value = timedelta(seconds=value)
        except (OverflowError, ValueError):
            return None
    return value if isinstance(value, timedelta) and _SHORTEST <= value <= _LONGEST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """
    How long a step may take; ``None`` is no limit.

    :param start: from the moment that nothing but a slot is missing to running code.
    :param attempt: running time of one try, over all its parks, which do not count.
    :param idle: since the last ``ctx.checkpoint()``; progress does not reset it.
    :raises DefinitionError: for zero, a negative time, or what is no time.
    """

    start: timedelta | None = None
    attempt: timedelta | None = None
    idle: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("start", "attempt", "idle"):
            limit: Any = getattr(self, name)
            if limit is None:
                continue
            if not isinstance(limit, timedelta) or duration_in(limit) is None:
                raise DefinitionError(
                    "must be a time of 1 ms to 3650 days, or nothing", attribute=f"timeouts.{name}"
                )

    @property
    def any_while_running(self) -> bool:
        """Whether a running process has a limit to keep."""
        return self.attempt is not None or self.idle is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """
    A limit that was passed.

    :param took: how long it has been.
    :param limit: how long it may be.
    """

    kind: FailureKind
    took: timedelta
    limit: timedelta

    @property
    def trigger(self) -> str:
        """What the transition says: ``timeout:attempt`` and so on."""
        return str(self.kind).replace("_", ":")

    def __str__(self) -> str:
        what = {
            FailureKind.TIMEOUT_START: "it waited to start",
            FailureKind.TIMEOUT_ATTEMPT: "this attempt ran",
            FailureKind.TIMEOUT_IDLE: "no checkpoint",
        }[self.kind]
        return f"{what} for {_seconds(self.took)} s; the limit is {_seconds(self.limit)} s"


def first_overrun(timeouts: Timeouts, *, ran: timedelta, idle: timedelta) -> Overrun | None:
    """
    The limit of a running process that was passed first, if one was.

    :param ran: running time of this attempt.
    :param idle: time since its last checkpoint, or since it began.
    """
    passed = [
        Overrun(kind=kind, took=took, limit=limit)
        for kind, took, limit in (
            (FailureKind.TIMEOUT_ATTEMPT, ran, timeouts.attempt),
            (FailureKind.TIMEOUT_IDLE, idle, timeouts.idle),
        )
        if limit is not None and took >= limit
    ]
    return max(passed, key=lambda overrun: overrun.took - overrun.limit, default=None)


def start_overrun(timeouts: Timeouts, *, queued_at: datetime, now: datetime) -> Overrun | None:
    """The start limit, if a task that is ready since ``queued_at`` has passed it; elapsed time, in UTC."""
    took = now - queued_at
    if timeouts.start is None or took < timeouts.start:
        return None
    return Overrun(kind=FailureKind.TIMEOUT_START, took=took, limit=timeouts.start)


def running_time(rows: Iterable[TransitionRecord], *, until: datetime | None = None) -> timedelta:
    """
    How long user code ran, as the transitions of one attempt tell; parks and waits do not count.

    :param rows: in order of time.
    :param until: what has not ended yet is counted up to then; None does not count it.
    """
    total = timedelta(0)
    since: datetime | None = None
    for row in rows:
        if since is not None:
            total += row.at - since
        since = row.at if row.to_state in _AT_WORK else None
    return total if since is None or until is None else total + (until - since)


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():.1f}"
