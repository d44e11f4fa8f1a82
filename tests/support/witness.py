"""
Somebody who looks at Airflow's tables and at the ledger before and after everything that happens.

What he has seen is compared with what the audit trail tells afterwards. He knows nothing of how the trail is
made: he reads the rows themselves, and remembers between which two looks they changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.utils.session import create_session
from sqlalchemy import select

from louver.history import HistoryRow
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.states import Precision

__all__ = ["Deed", "Witness", "short"]

STATES = frozenset(
    {
        *("scheduled", "queued", "running", "awaiting_input", "deferred", "up_for_retry", "restarting"),
        *("success", "failed", "skipped", "upstream_failed", "removed"),
    }
)
"""Airflow's states of a task."""

Place = tuple[str | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that a person did: who, what, when, and to which tasks (None: to whichever it hit)."""

    actor: str
    verb: str
    run: RunKey
    began: datetime
    ended: datetime
    tasks: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """That a task came to a state, or got a time in its row, between two looks."""

    place: Place
    word: str
    began: datetime
    ended: datetime


@dataclass(slots=True)
class Witness:
    """
    Watches some runs.

    :param deeds: what people did, in order.
    :param deleting: runs may be deleted at present.
    """

    ledger: Ledger
    runs: list[RunKey] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    deleting: bool = False
    changes: dict[RunKey, list[Change]] = field(default_factory=dict)
    recorded: dict[RunKey, dict[tuple[object, ...], tuple[datetime, datetime]]] = field(default_factory=dict)
    _rows: dict[RunKey, dict[tuple[object, ...], tuple[object, ...]]] = field(default_factory=dict)
    _looked: datetime | None = None

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Look, let something happen, and look again; also from inside of such a block."""
        self.look()
        try:
            yield
        finally:
            self.look()

    def look(self) -> None:
        """Look at everything now."""
        now = datetime.now(timezone.utc)
        began = self._looked or now
        with create_session(scoped=False) as session:
            for run in self.runs:
                seen = dict(_rows(session, run))
                before = self._rows.get(run, {})
                if ("run",) in before and ("run",) not in seen:
                    assert self.deleting, f"{run} has vanished"
                told = self.changes.setdefault(run, [])
                for key, row in seen.items():
                    told += _changes(key, before.get(key), row, began, now)
                self._rows[run] = seen
                known = self.recorded.setdefault(run, {})
                for transition in self.ledger.list_transitions(run):
                    name = (transition.task_id, transition.map_index, transition.chain, transition.version)
                    known.setdefault(name, (began, now))
        self._looked = now

    # What the audit trail has to hold against it

    def faults(self, run: RunKey, rows: Iterable[HistoryRow]) -> Iterator[str]:
        """What is wrong with the trail, in words."""
        rows = list(rows)
        yield from self._invented(run, rows)
        yield from self._hidden(run, rows)
        yield from self._doubled(run, rows)
        yield from self._misattributed(run, rows)

    def _invented(self, run: RunKey, rows: list[HistoryRow]) -> Iterator[str]:
        """An exact time is one at which it was seen to happen."""
        changes = self.changes.get(run, [])
        for row in rows:
            if row.precision is not Precision.EXACT or row.task_id is None:
                continue
            place = (row.task_id, row.map_index)
            by_airflow = row.recorded_at is None or row.at != row.recorded_at
            if by_airflow and row.said in STATES:
                seen = [change for change in changes if change.place == place and _is(change, row.said)]
                if not any(change.began <= row.at <= change.ended for change in seen):
                    yield f"exact, but not seen then: {short(row)}"
        stored = self.recorded.get(run, {})
        for transition in self.ledger.list_transitions(run):
            name = (transition.task_id, transition.map_index, transition.chain, transition.version)
            began, ended = stored[name]
            if transition.precision is Precision.EXACT and not began <= transition.at <= ended:
                yield f"recorded as exact, but not seen then: {name} {transition.to_state} {transition.at}"

    def _hidden(self, run: RunKey, rows: list[HistoryRow]) -> Iterator[str]:
        """What Airflow still has is told, in its order."""
        told = {(row.task_id, row.map_index, row.said, row.said_at) for row in rows}
        last: dict[Place, HistoryRow] = {}
        for row in rows:
            if row.said in STATES:
                last[row.task_id, row.map_index] = row
        with create_session(scoped=False) as session:
            for entry in session.scalars(select(Log).filter_by(dag_id=run.dag_id, run_id=run.run_id)):
                if entry.event not in STATES or entry.try_number is None:
                    continue
                words = ("failed", "up_for_retry") if entry.event == "failed" else (entry.event,)
                if not any((entry.task_id, entry.map_index, word, entry.dttm) in told for word in words):
                    yield f"hidden: {entry.task_id} {entry.event} at {entry.dttm}"
            for kind in (TaskInstance, TaskInstanceHistory):
                for row in session.scalars(select(kind).filter_by(dag_id=run.dag_id, run_id=run.run_id)):
                    for word, at in (("scheduled", row.scheduled_dttm), ("queued", row.queued_dttm)):
                        if at is not None and (row.task_id, row.map_index, word, at) not in told:
                            yield f"hidden: {row.task_id} {word} at {at}"
            for row in session.scalars(select(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id)):
                end = last.get((row.task_id, row.map_index))
                if row.state is not None and (end is None or end.said != row.state):
                    yield f"hidden: {row.task_id} is {row.state}, told last is {end and short(end)}"
        order: dict[Place, datetime] = {}
        for row in rows:
            place = (row.task_id, row.map_index)
            exact = row.precision is Precision.EXACT
            if exact and place in order and row.at < order[place]:
                yield f"out of order: {short(row)}"
            if exact:
                order[place] = row.at

    def _doubled(self, run: RunKey, rows: list[HistoryRow]) -> Iterator[str]:
        """Everything stands there once."""
        seen: set[tuple[object, ...]] = set()
        for row in rows:
            name = (row.task_id, row.map_index, row.said, row.said_at)
            if row.said_at is not None and row.said in STATES:
                if name in seen:
                    yield f"told twice: {short(row)}"
                seen.add(name)
        stored = self.ledger.list_transitions(run)
        if len(stored) != sum(row.recorded_by is not None for row in rows):
            yield "not each transition is one row"

    def _misattributed(self, run: RunKey, rows: list[HistoryRow]) -> Iterator[str]:
        """Who is said to have done something did it then, and who did something to a task is said so."""
        mine = [deed for deed in self.deeds if deed.run == run]
        for row in rows:
            if row.actor is None or row.trigger not in _VERBS:
                continue
            fitting = [
                deed
                for deed in mine
                if deed.actor == row.actor
                and deed.verb in _VERBS[row.trigger]
                and (deed.tasks is None or row.task_id is None or row.task_id in deed.tasks)
                and deed.began <= row.at
                and (row.since or row.at) <= deed.ended
            ]
            if not fitting:
                yield f"nobody did that: {short(row)}"
        for deed in mine:
            for change in self.changes.get(run, ()):
                hit = deed.began <= change.began and change.ended <= deed.ended
                if not hit or change.word not in _EFFECTS.get(deed.verb, ()) or change.place[0] is None:
                    continue
                found = [
                    row
                    for row in rows
                    if (row.task_id, row.map_index) == change.place
                    and row.actor in (deed.actor, None)
                    and (row.actor is not None or deed.actor in (row.reason or ""))
                    and (row.since or row.at) <= deed.ended
                    and deed.began <= row.at
                ]
                if not found and self._is_overwritten(deed, change, rows):
                    continue
                # A mark may clear the same task in the same breath, where it is downstream of another one.
                if not found or len(found) != len({row.trigger for row in found}):
                    told = [short(row) for row in found]
                    yield f"{deed.actor} did {deed.verb} to {change.place[0]} at {deed.began}: {told}"

    def _is_overwritten(self, deed: Deed, change: Change, rows: list[HistoryRow]) -> bool:
        """
        Whether of this task it cannot be known any more, but from the request or from other tasks.

        The ledger did not know the run or the task yet, or it made no difference to the task; and Airflow's
        row was cleared again or deleted since.
        """
        asked = any(
            (row.actor == deed.actor or deed.actor in (row.reason or ""))
            and deed.began <= row.at
            and (row.since or row.at) <= deed.ended
            for row in rows
        )
        later = [
            other
            for other in self.deeds
            if other.run == deed.run and other.began >= deed.ended and other.verb in _REMAKING
        ]
        return asked and bool(later)


_REMAKING = ("clear", "delete", "mark")
"""What makes Airflow write over what it has of a task."""

_VERBS = {
    "user:marked": ("mark", "mark run"),
    # What had failed downstream of a task is cleared when that one is marked.
    "user:cleared": ("clear", "mark"),
    "user:answered": ("answer",),
    "user:deleted": ("delete",),
    "executor:restarting": ("clear",),
}
_EFFECTS = {
    "mark": ("success", "failed", "skipped", "cleared"),
    "mark run": ("success", "failed", "skipped"),
    "clear": ("cleared",),
}


def short(row: HistoryRow) -> str:
    """The row, in a line."""
    states = f"{row.from_state} -> {row.to_state}"
    return (
        f"{row.since} .. {row.at} {row.precision} {row.task_id} {states} airflow={row.said}@{row.said_at} "
        f"{row.trigger} by {row.actor} ({row.reason}) {row.source}/{row.recorded_by}"
    )


def _is(change: Change, word: str | None) -> bool:
    # The scheduler calls a process that it finds lost failed, and has it tried again in the same breath.
    return change.word == word or (word == "up_for_retry" and change.word == "failed")


def _rows(session: object, run: RunKey) -> Iterator[tuple[tuple[object, ...], tuple[object, ...]]]:
    query = select(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id)
    for row in session.scalars(query):  # type: ignore[attr-defined]
        told = (row.id, row.state, row.scheduled_dttm, row.queued_dttm, row.start_date, row.end_date)
        yield (row.task_id, row.map_index), told
    entries = select(Log).filter_by(dag_id=run.dag_id, run_id=run.run_id)
    for entry in session.scalars(entries):  # type: ignore[attr-defined]
        if entry.try_number is not None:
            yield ("log", entry.id), (entry.task_id, entry.map_index, entry.event)
    found = session.scalars(  # type: ignore[attr-defined]
        select(DagRun).filter_by(dag_id=run.dag_id, run_id=run.run_id)
    ).one_or_none()
    if found is not None:
        yield ("run",), (found.id, found.state)


def _changes(
    key: tuple[object, ...],
    before: tuple[object, ...] | None,
    row: tuple[object, ...],
    began: datetime,
    ended: datetime,
) -> Iterator[Change]:
    if row == before:
        return
    if key[0] == "run":
        yield Change(place=(None, -1), word=str(row[1]), began=began, ended=ended)
        return
    if key[0] == "log":
        task_id, map_index, event = row
        yield Change(place=(str(task_id), int(str(map_index))), word=str(event), began=began, ended=ended)
        return
    task_id, map_index = key
    place = (str(task_id), int(str(map_index)))
    if before is None:
        return
    words = []
    if row[0] != before[0] and row[1] in (None, "restarting"):
        words.append("cleared")
    if row[1] != before[1]:
        words.append(str(row[1]))
    if row[2] != before[2]:
        words.append("scheduled")
    if row[3] != before[3]:
        words.append("queued")
    for word in words:
        yield Change(place=place, word=word, began=began, ended=ended)
