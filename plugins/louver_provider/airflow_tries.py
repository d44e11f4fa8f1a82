"""
Pure: what Airflow's rows tell of one task, try by try.

The log has exact rows for what a task's process reported. When it was scheduled and queued, and what became
of it without a process, stands in the columns of its row alone, which hold the last of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from louver.platform_events import PLATFORM, PlatformEvent
from louver.states import Precision, TaskState
from louver_provider.airflow_askers import Askers, Doing
from louver_provider.airflow_requests import Request
from louver_provider.airflow_rows import LogRow, RunRow, TryRow
from louver_provider.airflow_words import BEFORE_START, EXPLAINED, MEANS, TERMINAL
from louver_provider.own_acts import RECONCILED

__all__ = ["TaskTold", "task_events"]

_AGAIN = frozenset({"up_for_retry", "failed", RECONCILED})

_AT_ONCE = timedelta(seconds=2)
"""What Airflow writes in one transaction lies within that time."""

_WRITTEN = timedelta(milliseconds=50)
"""A row is written within that time of when the end that stands in it was taken from the clock."""

_MILLISECOND = timedelta(milliseconds=1)
_SLOW_START = timedelta(minutes=10)
_OVERWRITTEN = "not known: overwritten by Airflow"


@dataclass(frozen=True, slots=True)
class TaskTold:
    """
    What is told of a task.

    :param explained: the requests of people whose effect is among the events.
    """

    events: list[PlatformEvent] = field(default_factory=list)
    explained: list[Request] = field(default_factory=list)


def task_events(
    place: tuple[str, int],
    tries: Sequence[TryRow],
    log: Sequence[LogRow],
    requests: Sequence[Request],
    run: RunRow | None,
) -> TaskTold:
    """
    What happened to the task.

    :param place: task id and map index.
    :param tries: its rows, the earlier ones first, the present one last.
    :param log: what was logged about its tries, in order of time.
    :param requests: about the run.
    """
    story = _Story(place, log, requests, run)
    logged: dict[int, list[LogRow]] = defaultdict(list)
    for entry in log:
        logged[entry.try_number or 0].append(entry)
    # A try that fails before it runs is not put away, and all of them are deleted with their run.
    for number in sorted(logged.keys() - {row.try_number for row in tries}):
        story.tell_try(None, None, logged[number])
    for index, whole in enumerate(tries):
        before = tries[index - 1] if index else None
        row = whole if before is None else whole.without(before)
        if before is not None:
            story.tell_clear(before, row, logged[before.try_number])
        if before is None or before.try_number != row.try_number:
            following = tries[index + 1] if index + 1 < len(tries) else None
            story.tell_try(row, following, logged[row.try_number])
        else:
            story.tell_unscheduled(row)
    story.tell_never_ran(tries[-1] if tries else None)
    return story.told


def _in_try(event: PlatformEvent) -> tuple[datetime, int]:
    first = event.said.split(", ")[0]
    return event.at, BEFORE_START.index(first) if first in BEFORE_START else len(BEFORE_START)


class _Story:
    """The events of one task, told in order."""

    def __init__(
        self,
        place: tuple[str, int],
        log: Sequence[LogRow],
        requests: Sequence[Request],
        run: RunRow | None,
    ) -> None:
        self._task_id, self._map_index = place
        self._log = log
        self._askers = Askers(place[0], requests)
        self._run = run
        self.told = TaskTold(explained=self._askers.explained)

    # What a try tells

    def tell_try(self, row: TryRow | None, following: TryRow | None, log: Sequence[LogRow]) -> None:
        """
        One try.

        :param row: None where it is gone.
        :param following: the row that was made after it.
        """
        starts = [entry.at for entry in log if entry.event == "running"]
        number = row.try_number if row is not None else log[0].try_number
        if not starts and row is not None and row.start is not None and self._is_unlogged(row):
            starts = [row.start]
            self._add("running", row.start, number, reason="the log has it no more")
        first = len(self.told.events)
        for entry in log:
            self._tell_logged(entry, self._said(entry, row, following), number)
        self._tell_waits(row, starts, number)
        # Of one moment: it is scheduled before it is queued, and queued before it runs.
        self.told.events[first:] = sorted(self.told.events[first:], key=_in_try)
        if row is not None:
            self._tell_column(row, following, log)

    def _tell_logged(self, entry: LogRow, said: str, number: int | None) -> None:
        if entry.event == RECONCILED:
            reason = str(entry.extra.get("reason") or "") or None
            self._add(said, entry.at, number, trigger="louver:reconciled", source="reconciler", reason=reason)
        else:
            reason = "found by the scheduler" if said != entry.event else EXPLAINED.get(entry.event)
            self._add(said, entry.at, number, reason=reason)

    def _is_unlogged(self, row: TryRow) -> bool:
        """Whether it ran, and the log has no start near that time: not even one of a try before."""
        logged = (entry.at for entry in self._log if entry.event == "running")
        near = (row.start is not None and abs(at - row.start) <= _SLOW_START for at in logged)
        return bool(row.hostname) and not any(near)

    def _tell_waits(self, row: TryRow | None, starts: Sequence[datetime], number: int | None) -> None:
        """When it was scheduled and queued: of several starts the columns tell the last alone."""
        known: dict[int, set[str]] = defaultdict(set)
        for said in BEFORE_START:
            at = None if row is None else row.scheduled_at if said == "scheduled" else row.queued_at
            if at is None:
                continue
            before = next((index for index, start in enumerate(starts) if start >= at), len(starts))
            known[before].add(said)
            self._add(said, at, number)
        for index, start in enumerate(starts):
            lost = [said for said in BEFORE_START if said not in known[index]]
            if not lost:
                continue
            self._add(
                ", ".join(lost),
                start,
                number,
                since=self._before(start),
                precision=Precision.UNKNOWN,
                means=MEANS["scheduled"] if "scheduled" in lost else frozenset(),
                reason=_OVERWRITTEN,
            )

    def _said(self, entry: LogRow, row: TryRow | None, following: TryRow | None) -> str:
        """
        What an entry of the log means.

        The scheduler writes ``failed`` where a process is lost, also where it will be tried again (case C05).
        """
        if entry.event == RECONCILED:
            state = str(entry.extra.get("state"))
            return state if state in MEANS else entry.event
        if entry.event != "failed" or "host_name" in entry.extra:
            return entry.event
        if row is None:
            again = any((later.try_number or 0) > (entry.try_number or 0) for later in self._log)
        else:
            again = following is not None and following.max_tries <= row.max_tries
        waits = row is not None and row.state == "up_for_retry"
        return "up_for_retry" if again or waits else "failed"

    def _tell_column(self, row: TryRow, following: TryRow | None, log: Sequence[LogRow]) -> None:
        """What the row's own state tells, where the log does not."""
        logged = [(entry.at, self._said(entry, row, following)) for entry in log]
        states = [(at, said) for at, said in logged if said in MEANS]
        at, said = states[-1] if states else (None, None)
        if row.state is None or row.state in BEFORE_START or said == row.state:
            return
        if row.archived and row.state == "failed" and self._is_filed(row, following, at, said):
            self._tell_earlier_clear(row, following, log)
        elif said not in TERMINAL and said != "up_for_retry" and self._is_fresh(row) and row.end is not None:
            self._tell_end(row, at=row.end, since=None)
        elif row.updated_at is not None:
            # A finished task that is marked keeps the time of its first end.
            known = [moment for moment in (row.end, at) if moment is not None]
            self._tell_end(row, at=row.updated_at, since=max(known, default=None))

    def _is_fresh(self, row: TryRow) -> bool:
        """Whether it came to its state when it came to its end; a second mark leaves the end as it is."""
        if row.state not in TERMINAL or row.end is None or row.updated_at is None:
            return False
        if not timedelta(0) <= row.updated_at - row.end <= _WRITTEN:
            return False
        asked = self._askers.marked(at=row.updated_at, since=row.end, state=row.state)
        return not any(request.at > row.end for request in asked)

    def _tell_earlier_clear(self, row: TryRow, following: TryRow | None, log: Sequence[LogRow]) -> None:
        """What was cleared several times before it ran is put away at the first time."""
        made = following.made_at if following is not None else None
        if row.end is None or made is None or made - row.end <= _AT_ONCE:
            return
        asked = self._askers.cleared(at=row.end)
        if asked:
            doing = self._askers.tell_clear(asked)
            self._tell_cleared(doing, row.end, row.try_number, log)

    def _is_filed(
        self, row: TryRow, following: TryRow | None, last_at: datetime | None, last: str | None
    ) -> bool:
        """
        Whether it is called failed for having been put away unfinished: Airflow files such a try so.

        What did fail stands in the log as well, and what somebody marked so was asked for there.
        """
        if last == "up_for_retry":
            return True
        made = following.made_at if following is not None else None
        if row.end is not None:
            marks = self._askers.marked(at=row.end, state="failed")
            clears = self._askers.cleared(at=row.end)
            if marks and (not clears or marks[-1].at > clears[-1].at):
                return False
            if clears or (made is not None and abs(made - row.end) <= _AT_ONCE):
                return True
        until = made or row.updated_at or row.end
        since = last_at or row.made_at
        return until is None or not self._askers.marked(at=until, since=since, state="failed")

    def _tell_end(self, row: TryRow, *, at: datetime, since: datetime | None) -> None:
        """A state that no process reported: a person's doing, or the scheduler's."""
        said = row.state or "no state"
        exact = since is None and row.state in TERMINAL and at == row.end
        asked = self._askers.marked(at=at, since=since, state=row.state)
        precision = Precision.EXACT if exact else Precision.BOUNDED
        if asked:
            doing = self._askers.tell_mark(asked)
            earliest = None if exact else max(filter(None, [since, doing.asked_at]))
            self._add(
                said,
                at,
                row.try_number,
                since=earliest,
                precision=precision,
                trigger="user:marked",
                doing=doing,
            )
        elif self._run is not None and self._timed_out(row, at):
            self._add(
                said,
                at,
                row.try_number,
                since=self._run.end,
                precision=Precision.BOUNDED,
                trigger="airflow:dagrun_timeout",
                reason="the run passed its dagrun_timeout",
            )
        else:
            earliest = None if exact else since or self._before(at)
            self._add(said, at, row.try_number, since=earliest, precision=precision)

    def _timed_out(self, row: TryRow, at: datetime) -> bool:
        """Whether Airflow's ``dagrun_timeout`` skipped it: alone that leaves no time of an end (case C08)."""
        run = self._run
        if run is None or run.state != "failed" or run.end is None or row.state != "skipped" or row.archived:
            return False
        return at != row.end and timedelta(0) <= at - run.end <= _AT_ONCE

    # What lies between two tries

    def tell_clear(self, row: TryRow, following: TryRow, log: Sequence[LogRow]) -> None:
        """The task was cleared, unless its try has just failed and another one follows by itself."""
        made = following.made_at
        raised = following.max_tries > row.max_tries
        again = made is not None and any(
            entry.event in _AGAIN and abs(entry.at - made) <= _AT_ONCE for entry in log
        )
        if again and not raised:
            return
        at = made + _MILLISECOND if made is not None else following.scheduled_at or following.updated_at
        if at is None:
            return
        # Ids that are made in one millisecond are told apart by going on to the next one.
        at = min(filter(None, [at, following.updated_at]))
        asked = self._askers.cleared(at=at)
        if not asked and not raised and following.state != "restarting":
            self._add(
                "another try", at, following.try_number, since=self._before(at), precision=Precision.BOUNDED
            )
            return
        doing = self._askers.tell_clear(asked) if asked else None
        self._tell_cleared(doing, at, row.try_number, log)

    def _tell_cleared(
        self, doing: Doing | None, at: datetime, try_number: int, log: Sequence[LogRow]
    ) -> None:
        states = [entry.event for entry in log if entry.event in MEANS and entry.at <= at]
        running = states[-1:] == ["running"]
        self._add(
            "cleared",
            at,
            try_number,
            since=doing.asked_at if doing is not None else self._before(at),
            precision=Precision.BOUNDED,
            means=frozenset({TaskState.PENDING}) | (MEANS["restarting"] if running else frozenset()),
            trigger="user:cleared",
            doing=doing,
            reason=None if doing is not None else "nobody is known",
        )

    def tell_unscheduled(self, row: TryRow) -> None:
        """What became of a task that was cleared, or waits to be tried again, and was not scheduled since."""
        if row.state is None or row.updated_at is None or row.state == "up_for_retry":
            return
        since = row.made_at
        if any(
            event.said == row.state and (since is None or event.at >= since) for event in self.told.events
        ):
            # The reconciler logs what it does to a task, under the number of its last try.
            return
        if row.end is not None and self._is_fresh(row):
            self._tell_end(row, at=row.end, since=None)
        else:
            self._tell_end(row, at=row.updated_at, since=row.made_at)

    def tell_never_ran(self, row: TryRow | None) -> None:
        """A run that is over may have tasks that nothing ever happened to."""
        over = self._run.end if self._run is not None else None
        if row is not None and over is not None and not self.told.events:
            why = "Airflow never scheduled it"
            self._add("no state", over, row.try_number, precision=Precision.UNKNOWN, reason=why)

    # How

    def _before(self, moment: datetime) -> datetime | None:
        """The last thing known of the task before that moment, else the beginning of the run."""
        begun = self._run.created_at if self._run is not None else None
        known = [event.at for event in self.told.events]
        known += [begun] if begun is not None else []
        return max((earlier for earlier in known if earlier < moment), default=None)

    def _add(
        self,
        said: str,
        at: datetime,
        try_number: int | None,
        *,
        since: datetime | None = None,
        precision: Precision = Precision.EXACT,
        means: frozenset[TaskState] | None = None,
        trigger: str | None = None,
        doing: Doing | None = None,
        source: str = PLATFORM,
        reason: str | None = None,
    ) -> None:
        name = said.replace(", ", "_").replace(" ", "_")
        self.told.events.append(
            PlatformEvent(
                said=said,
                at=at,
                since=since,
                precision=precision,
                means=MEANS.get(said, frozenset()) if means is None else means,
                trigger=trigger or f"airflow:{name}",
                actor=doing.actor if doing is not None else None,
                source=doing.source if doing is not None else source,
                reason=doing.reason if doing is not None else reason,
                task_id=self._task_id,
                map_index=self._map_index,
                try_number=try_number,
            )
        )
