"""
Pure: which of the platform's events is the same as which of the ledger's transitions.

Both tell of one task, each in its order; so the pairs rise on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from louver.ledger.records import TransitionRecord
from louver.platform_events import PlatformEvent
from louver.states import Precision, Source, TaskState

__all__ = ["BY_PEOPLE", "PROMPT", "following_pairs", "pair"]

_SKEW = timedelta(milliseconds=250)
"""How far the clocks of two machines may be apart, and one event still be known for the same."""

PROMPT = timedelta(seconds=5)
"""What is recorded at once is recorded within that time."""

_REPORTED = timedelta(minutes=1)
"""How long a process may take to report its end to the platform, after it has recorded it."""

_SLOW = timedelta(minutes=10)
"""How long a process may take from its start to the ledger."""

BY_PEOPLE = "user:"
"""What triggers begin with where a person did it."""


def pair(rows: Sequence[TransitionRecord], events: Sequence[PlatformEvent]) -> Mapping[int, int]:
    """
    Which event is the same as which row: index to index, both rising.

    An exact row is paired with the nearest event that may mean it, between its neighbours. A row that was
    filled in afterwards is paired with the first such event since the row before it, and before whatever the
    next exact row is the same as: that is when it came about.
    """
    pairs = _pair_exact(rows, events)
    following = following_pairs(pairs, len(rows), len(events))
    first = 0
    floor: datetime | None = None
    for index, row in enumerate(rows):
        if index in pairs:
            first = pairs[index] + 1
            floor = row.at
            continue
        if row.precision is Precision.EXACT:
            floor = row.at
            continue
        for number in range(first, following[index]):
            event = events[number]
            if event.at > row.at + _SKEW:
                break
            if _may_be(row, event) and (floor is None or event.at >= floor - _SKEW):
                pairs[index], first, floor = number, number + 1, event.at
                break
    return pairs


def _pair_exact(rows: Sequence[TransitionRecord], events: Sequence[PlatformEvent]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    first = 0
    floor: datetime | None = None
    for index, row in enumerate(rows):
        if row.precision is not Precision.EXACT:
            continue
        ceiling = _ceiling(rows, index)
        best: int | None = None
        for number in range(first, len(events)):
            event = events[number]
            if ceiling is not None and (event.since or event.at) > ceiling + _SKEW:
                break
            if not _may_be(row, event) or (floor is not None and event.at < floor - _SKEW):
                continue
            if best is None or _distance(row, event) < _distance(row, events[best]):
                best = number
        if best is not None:
            pairs[index], first = best, best + 1
        floor = row.at
    return pairs


def _may_be(row: TransitionRecord, event: PlatformEvent) -> bool:
    """Whether both may be the same, as far as that can be told without their neighbours."""
    if row.to_state not in event.means:
        return False
    if row.precision is Precision.EXACT and event.trigger.startswith(BY_PEOPLE):
        # It is written down that somebody asks before it is carried out.
        return timedelta(0) <= row.at - (event.since or event.at) <= PROMPT
    if row.precision is not Precision.EXACT:
        return True
    return _distance(row, event) <= (_apart(row) if event.since is None else PROMPT)


def _apart(row: TransitionRecord) -> timedelta:
    """
    How far the ledger's exact time and the platform's may lie apart.

    A process takes its time to begin, and to report how it ended. Whatever anybody else records as exact is
    recorded at once.
    """
    if row.source not in (Source.WORKER, Source.ENGINE) or row.to_state is TaskState.QUEUED:
        return PROMPT
    return _SLOW if row.to_state is TaskState.STARTING else _REPORTED


def _ceiling(rows: Sequence[TransitionRecord], index: int) -> datetime | None:
    """When the next thing happened to the task that is known exactly."""
    return next((row.at for row in rows[index + 1 :] if row.precision is Precision.EXACT), None)


def _distance(row: TransitionRecord, event: PlatformEvent) -> timedelta:
    if event.since is not None and event.since <= row.at <= event.at:
        return timedelta(0)
    return min(abs(event.at - row.at), abs((event.since or event.at) - row.at))


def following_pairs(pairs: Mapping[int, int], rows: int, events: int) -> list[int]:
    """For each row, the first event that a later row is the same as."""
    found = [events] * rows
    for index in range(rows - 2, -1, -1):
        found[index] = pairs.get(index + 1, found[index + 1])
    return found
