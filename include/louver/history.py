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
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from louver.control import ENDING
from louver.history_pairs import BY_PEOPLE, PROMPT, following_pairs, pair
from louver.ledger.names import Verb
from louver.ledger.records import AcceptanceRecord, CommandRecord, TransitionRecord
from louver.platform_events import PlatformEvent
from louver.states import Precision, TaskState

__all__ = ["HistoryRow", "history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """
    One row of the timeline.

    :param at: when it happened, as exactly as anybody knows; where only bounds are known, the later one.
    :param since: the earlier bound, where the time is not exact and there is one.
    :param from_state: None for what is no transition of Louver's.
    :param said: the platform's word for it; None where the platform knows nothing of it.
    :param said_at: when it happened by the platform's tables.
    :param source: by what way it came: ``cli`` or ``api`` where somebody asked for it there, else who knows
        of it first: ``worker``, ``listener``, ``reconciler``, ``engine`` or ``airflow``.
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

_VERBS = {
    "user:pause": Verb.PAUSE,
    "runtime:pause_reached": Verb.PAUSE,
    "runtime:pause_rolled_back": Verb.RESUME,
    "user:resume": Verb.RESUME,
    **{trigger: verb for verb, end in ENDING.items() for trigger in (end.asked, end.confirmed)},
}
"""Which command somebody's name in such a transition comes from."""


def history(
    transitions: Iterable[TransitionRecord],
    events: Iterable[PlatformEvent] = (),
    commands: Iterable[CommandRecord] = (),
    acceptances: Iterable[AcceptanceRecord] = (),
) -> list[HistoryRow]:
    """
    The timeline of a run, or of some of its tasks.

    :param transitions: the ledger's, each task's in their order.
    :param events: the platform's, in any order.
    :param commands: the ledger's: they tell by what way somebody asked for what a process carried out.
    :param acceptances: definitions that the run went on under.
    """
    asked = list(commands)
    stored: dict[_Place, list[TransitionRecord]] = defaultdict(list)
    told: dict[_Place, list[PlatformEvent]] = defaultdict(list)
    rows = list(transitions)
    for row in rows:
        stored[row.task_id, row.map_index].append(row)
    for event in events:
        if not _is_recorded(event, rows):
            told[event.task_id, event.map_index].append(event)
    placed: list[tuple[datetime, HistoryRow]] = [(one.accepted_at, _accepted(one)) for one in acceptances]
    for place in sorted(stored.keys() | told.keys(), key=_order):
        placed += _of_task(stored[place], sorted(told[place], key=_when))
    # Stable: what happened at one moment stays in the order of its task.
    return [_with_way(row, asked) for _, row in sorted(placed, key=lambda entry: entry[0])]


def _accepted(one: AcceptanceRecord) -> HistoryRow:
    """That the run goes on under another definition: it concerns all of it, whichever step found out."""
    return HistoryRow(
        at=one.accepted_at,
        since=None,
        precision=Precision.EXACT,
        task_id=None,
        map_index=-1,
        from_state=None,
        to_state=None,
        said=None,
        said_at=None,
        trigger="definition:accepted",
        actor=None,
        reason=f"{one.to_version} instead of {one.from_version}, by {one.task_id}: {one.reason}",
        generation=None,
        attempt=None,
        try_number=None,
        source=str(one.source),
        recorded_by=str(one.source),
        recorded_at=one.accepted_at,
    )


def _with_way(row: HistoryRow, commands: Iterable[CommandRecord]) -> HistoryRow:
    """The row, with the way by which a command to the task came, where it carries one out."""
    verb = _VERBS.get(row.trigger)
    if verb is None or row.actor is None or row.recorded_at is None:
        return row
    for command in commands:
        if (
            (command.task_id, command.map_index) == (row.task_id, row.map_index)
            and (command.verb, command.actor) == (verb, row.actor)
            and command.generation == row.generation
            and command.sent_at <= row.recorded_at <= (command.closed_at or row.recorded_at)
        ):
            return replace(row, source=str(command.source))
    return row


def _is_recorded(event: PlatformEvent, rows: Iterable[TransitionRecord]) -> bool:
    """
    Whether it is a request about several tasks, and the ledger holds what became of it, task by task.

    The platform's own rows of these tasks may be gone by now.
    """
    return (
        event.task_id is None
        and event.unless_recorded is not None
        and event.reason is not None
        and any(
            row.actor == event.actor
            and event.reason in (row.reason or "")
            and timedelta(0) <= row.at - event.at <= PROMPT
            for row in rows
        )
    )


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
    pairs = pair(rows, events)
    following = following_pairs(pairs, len(rows), len(events))
    found: list[tuple[datetime, HistoryRow]] = []
    told = 0
    place: datetime | None = None
    for index, row in enumerate(_between_neighbours(rows, events, pairs)):
        paired = pairs.get(index)
        stop = paired if paired is not None else _until(events, told, following[index], row)
        found += ((other.at, _alone(other)) for other in events[told:stop])
        told = stop if paired is None else stop + 1
        # The ledger's own order stands, whatever the clocks of two machines say.
        place = row.at if place is None else max(place, row.at)
        found.append((place, row))
    found += ((other.at, _alone(other)) for other in events[told:])
    return found


def _between_neighbours(
    rows: Sequence[TransitionRecord], events: Sequence[PlatformEvent], pairs: Mapping[int, int]
) -> list[HistoryRow]:
    """The ledger's rows with what the platform knows better; those not exact lie between their neighbours."""
    merged = [_merge(row, events[pairs[index]] if index in pairs else None) for index, row in enumerate(rows)]
    latest: datetime | None = None
    for index in range(len(merged) - 1, -1, -1):
        if merged[index].precision is not Precision.EXACT and latest is not None:
            merged[index] = replace(merged[index], at=min(merged[index].at, latest))
        latest = merged[index].at
    earliest: datetime | None = None
    for index, row in enumerate(merged):
        if row.precision is not Precision.EXACT:
            since = _later(row.since, earliest)
            merged[index] = replace(row, since=since if since is None else min(since, row.at))
        earliest = _later(earliest, row.at if row.precision is Precision.EXACT else merged[index].since)
    return merged


def _until(events: Sequence[PlatformEvent], first: int, limit: int, row: HistoryRow) -> int:
    """Up to which event they come before a row that none of them is the same as."""
    end = first
    while end < limit and events[end].at <= row.at:
        end += 1
    return end


def _merge(row: TransitionRecord, event: PlatformEvent | None) -> HistoryRow:
    """The ledger's row, with what the platform knows better."""
    at, since, precision = row.at, None, row.precision
    if precision is not Precision.EXACT and event is not None:
        if event.precision is Precision.EXACT:
            at, precision = event.at, Precision.EXACT
        else:
            at, since = min(at, event.at), event.since
    # What the workflow did itself is not put down to a person who did something at the same time.
    person = (
        event is not None
        and event.actor is not None
        and row.actor in (None, event.actor)
        and row.trigger.startswith(BY_PEOPLE)
    )
    return HistoryRow(
        at=at,
        since=since,
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
