"""
One timeline of what the ledger holds and what the platform knows (row T1, cases area c).

The ledger's transitions are what happened to a task as Louver sees it, signed. The platform knows more (when
a task was queued, who asked for what) and forgets some of it: its rows are overwritten. Here both are laid
beside each other: what is the same event is one row, what only one side knows is a row of its own, and what
must have happened and was overwritten is a gap. Nothing is made up: each row says how exactly its time is
known, and whether the ledger holds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from louver.ledger.records import TransitionRecord
from louver.states import Precision, Source, TaskState

__all__ = ["PLATFORM", "HistoryRow", "PlatformEvent", "history"]

PLATFORM = "airflow"
"""Source of a row that only the platform's tables tell of."""

_SKEW = timedelta(milliseconds=250)
"""How far the clocks of two machines may be apart, and one event still be known for the same."""


_PROMPT = timedelta(seconds=5)
"""What is recorded at once is recorded within that time."""

_REPORTED = timedelta(minutes=1)
"""How long a process may take to report its end to the platform, after it has recorded it."""

_SLOW = timedelta(minutes=10)
"""How long a process may take from its start to the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEvent:
    """
    Something that happened, as the platform's tables tell it.

    :param said: the platform's own word: a state, or what somebody asked for.
    :param at: when; where only bounds are known, the later one.
    :param since: the earlier bound; None where the time is exact, or where there is none.
    :param precision: ``unknown`` is a gap: it must have happened, and its time was overwritten.
    :param means: the states that Louver may have recorded the same event as.
    :param trigger: as in a transition.
    :param actor: the person, where it was one.
    :param source: ``airflow``, or ``api`` or ``cli`` where a person asked for it there.
    :param unless_recorded: what more there is to say where the ledger knows nothing of it.
    :param task_id: None for what concerns the whole run.
    """

    said: str
    at: datetime
    trigger: str
    task_id: str | None = None
    map_index: int = -1
    since: datetime | None = None
    precision: Precision = Precision.EXACT
    means: frozenset[TaskState] = frozenset()
    try_number: int | None = None
    actor: str | None = None
    reason: str | None = None
    unless_recorded: str | None = None
    source: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """
    One row of the timeline.

    :param at: when it happened, as exactly as anybody knows; where only bounds are known, the later one.
    :param since: the earlier bound, where the time is not exact and there is one.
    :param from_state: None for what is no transition of Louver's.
    :param said: the platform's word for it; None where the platform knows nothing of it.
    :param said_at: when it happened by the platform's tables.
    :param source: who knows of it first: ``worker``, ``listener``, ``reconciler``, ``cli``, ``api``,
        ``engine`` or ``airflow``.
    :param recorded_by: who wrote the ledger's row; None where the ledger has none.
    :param recorded_at: the time in the ledger's row, which is signed and stays as it is.
    """

    at: datetime
    since: datetime | None
    precision: Precision
    task_id: str | None
    map_index: int
    from_state: TaskState | None
    to_state: TaskState | None
    said: str | None
    said_at: datetime | None
    trigger: str
    actor: str | None
    reason: str | None
    generation: int | None
    attempt: int | None
    try_number: int | None
    source: str
    recorded_by: str | None
    recorded_at: datetime | None


_Place = tuple[str | None, int]
"""Task id and map index."""

_BY_PEOPLE = "user:"


def history(
    transitions: Iterable[TransitionRecord], events: Iterable[PlatformEvent] = ()
) -> list[HistoryRow]:
    """
    The timeline of a run, or of some of its tasks.

    :param transitions: the ledger's, each task's in their order.
    :param events: the platform's, in any order.
    """
    stored: dict[_Place, list[TransitionRecord]] = defaultdict(list)
    told: dict[_Place, list[PlatformEvent]] = defaultdict(list)
    for row in transitions:
        stored[row.task_id, row.map_index].append(row)
    for event in events:
        told[event.task_id, event.map_index].append(event)
    placed: list[tuple[datetime, HistoryRow]] = []
    for place in sorted(stored.keys() | told.keys(), key=_order):
        placed += _of_task(stored[place], sorted(told[place], key=_when))
    # Stable: what happened at one moment stays in the order of its task.
    return [row for _, row in sorted(placed, key=lambda entry: entry[0])]


def _order(place: _Place) -> tuple[str, int]:
    # What concerns the run stands before what comes of it.
    return place[0] or "", place[1]


def _when(event: PlatformEvent) -> tuple[datetime, bool, datetime]:
    # A gap lies before the event that bounds it.
    return event.at, event.precision is not Precision.UNKNOWN, event.since or event.at


def _of_task(
    rows: Sequence[TransitionRecord], events: Sequence[PlatformEvent]
) -> list[tuple[datetime, HistoryRow]]:
    """The rows of one task, each with the time that gives it its place."""
    pairs = _pair(rows, events)
    following = _following(pairs, len(rows), len(events))
    found: list[tuple[datetime, HistoryRow]] = []
    told = 0
    before: datetime | None = None
    for index, row in enumerate(rows):
        paired = pairs.get(index)
        event = events[paired] if paired is not None else None
        merged = _merge(row, event, before)
        stop = paired if paired is not None else _until(events, told, following[index], merged)
        found += ((other.at, _alone(other)) for other in events[told:stop])
        told = stop if paired is None else stop + 1
        # The ledger's own order stands, whatever the clocks of two machines say.
        before = merged.at if before is None else max(before, merged.at)
        found.append((before, merged))
    found += ((other.at, _alone(other)) for other in events[told:])
    return found


def _until(events: Sequence[PlatformEvent], first: int, limit: int, row: HistoryRow) -> int:
    """Up to which event they come before a row that none of them is the same as."""
    end = first
    while end < limit and events[end].at <= row.at:
        end += 1
    return end


def _following(pairs: Mapping[int, int], rows: int, events: int) -> list[int]:
    """For each row, the first event that a later row is the same as."""
    found = [events] * rows
    for index in range(rows - 2, -1, -1):
        found[index] = pairs.get(index + 1, found[index + 1])
    return found


def _pair(rows: Sequence[TransitionRecord], events: Sequence[PlatformEvent]) -> Mapping[int, int]:
    """
    Which event is the same as which row: index to index, both rising.

    An exact row is paired with the nearest event that may mean it, between its neighbours. A row that was
    filled in afterwards is paired with the first such event since the row before it, and before whatever the
    next exact row is the same as: that is when it came about.
    """
    pairs = _pair_exact(rows, events)
    following = _following(pairs, len(rows), len(events))
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
    if row.precision is Precision.EXACT and event.trigger.startswith(_BY_PEOPLE):
        # It is written down that somebody asks before it is carried out.
        return timedelta(0) <= row.at - (event.since or event.at) <= _PROMPT
    return row.precision is not Precision.EXACT or _distance(row, event) <= _apart(row)


def _apart(row: TransitionRecord) -> timedelta:
    """
    How far the ledger's exact time and the platform's may lie apart.

    A process takes its time to begin, and to report how it ended. Whatever anybody else records as exact is
    recorded at once.
    """
    if row.source not in (Source.WORKER, Source.ENGINE) or row.to_state is TaskState.QUEUED:
        return _PROMPT
    return _SLOW if row.to_state is TaskState.STARTING else _REPORTED


def _ceiling(rows: Sequence[TransitionRecord], index: int) -> datetime | None:
    """When the next thing happened to the task that is known exactly."""
    return next((row.at for row in rows[index + 1 :] if row.precision is Precision.EXACT), None)


def _distance(row: TransitionRecord, event: PlatformEvent) -> timedelta:
    if event.since is not None and event.since <= row.at <= event.at:
        return timedelta(0)
    return min(abs(event.at - row.at), abs((event.since or event.at) - row.at))


def _merge(row: TransitionRecord, event: PlatformEvent | None, before: datetime | None) -> HistoryRow:
    """The ledger's row, with what the platform knows better."""
    at, since, precision = row.at, None, row.precision
    if precision is not Precision.EXACT:
        since = before
        if event is not None and event.precision is Precision.EXACT:
            at, since, precision = event.at, None, Precision.EXACT
        elif event is not None:
            at, since = min(at, event.at), _later(since, event.since)
    # What the workflow did itself is not put down to a person who did something at the same time.
    person = (
        event is not None
        and event.actor is not None
        and row.actor in (None, event.actor)
        and row.trigger.startswith(_BY_PEOPLE)
    )
    return HistoryRow(
        at=at,
        since=since if since is None or since <= at else at,
        precision=precision,
        task_id=row.task_id,
        map_index=row.map_index,
        from_state=row.from_state,
        to_state=row.to_state,
        said=event.said if event is not None else None,
        said_at=event.at if event is not None and event.precision is not Precision.UNKNOWN else None,
        trigger=row.trigger,
        actor=event.actor if event is not None and person else row.actor,
        reason=_reasons(row.reason, *_reasons_of(event, row.actor, by_people=person)),
        generation=row.generation,
        attempt=row.attempt,
        try_number=event.try_number if event is not None else None,
        source=event.source if event is not None and person else str(row.source),
        recorded_by=str(row.source),
        recorded_at=row.at,
    )


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)


def _reasons_of(event: PlatformEvent | None, actor: str | None, *, by_people: bool) -> list[str | None]:
    """
    What an event adds to the reason of a row.

    :param actor: whose doing it is by the row.
    """
    if event is None:
        return []
    if by_people or event.actor in (None, actor):
        return [event.reason]
    return [event.reason, f"{event.said} by {event.actor} ({event.source})"]


def _reasons(*reasons: str | None) -> str | None:
    told = list(dict.fromkeys(reason for reason in reasons if reason))
    return "; ".join(told) or None


def _alone(event: PlatformEvent) -> HistoryRow:
    """What only the platform knows."""
    return HistoryRow(
        at=event.at,
        since=event.since,
        precision=event.precision,
        task_id=event.task_id,
        map_index=event.map_index,
        from_state=None,
        to_state=None,
        said=event.said,
        said_at=event.at if event.precision is not Precision.UNKNOWN else None,
        trigger=event.trigger,
        actor=event.actor,
        reason=_reasons(event.reason, event.unless_recorded),
        generation=None,
        attempt=None,
        try_number=event.try_number,
        source=event.source,
        recorded_by=None,
        recorded_at=None,
    )
