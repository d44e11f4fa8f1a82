"""
Pure: what Airflow's rows tell of one task, try by try.

The log has exact rows for what a task's process reported. When it was scheduled and queued, and what became
of it without a process, stands in the columns of its row alone, which hold the last of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from louver.history import PlatformEvent
from louver.states import Precision, TaskState
from louver_provider.airflow_history import LogRow, RunRow, TryRow
from louver_provider.airflow_requests import Request, Verb, asked_by, cleared_by

__all__ = ["MEANS", "TaskTold", "attribution", "task_events"]

_S = TaskState

_ENDED_OTHERWISE = frozenset({_S.SKIPPED, _S.CANCELLED, _S.LOST})

MEANS: Mapping[str, frozenset[TaskState]] = {
    "scheduled": frozenset({_S.QUEUED}),
    "running": frozenset({_S.STARTING}),
    "awaiting_input": frozenset({_S.PAUSED}),
    "deferred": frozenset({_S.BLOCKED}),
    "up_for_retry": frozenset({_S.RETRY_WAIT}),
    "restarting": frozenset({_S.QUEUED, _S.RETRY_WAIT}),
    "success": frozenset({_S.SUCCEEDED}),
    "failed": frozenset({_S.FAILED, _S.STOPPED, _S.LOST}),
    "skipped": _ENDED_OTHERWISE,
    "upstream_failed": _ENDED_OTHERWISE,
    "removed": _ENDED_OTHERWISE,
}
"""What Louver may have recorded the same event as, by Airflow's word for it (semantics section 1)."""

_TERMINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_BEFORE_START = ("scheduled", "queued")
_AGAIN = frozenset({"up_for_retry", "failed", "louver_reconciler"})

_WORDS = {
    "heartbeat timeout": "its supervisor gave no sign of life for too long",
    "state mismatch": "the executor reported an end that Airflow did not know of",
    "stuck in queued reschedule": "it was queued for too long, and is queued again",
    "stuck in queued tries exceeded": "it was queued for too long, too often",
}

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
        row = whole if before is None else _without_remains(whole, before)
        if before is not None:
            story.tell_clear(before, row, logged[before.try_number])
        if before is None or before.try_number != row.try_number:
            following = tries[index + 1] if index + 1 < len(tries) else None
            story.tell_try(row, following, logged[row.try_number])
        else:
            story.tell_unscheduled(row)
    story.tell_never_ran(tries[-1] if tries else None)
    return story.told


def _without_remains(row: TryRow, before: TryRow) -> TryRow:
    """The row without what is left in it of the try before, which Airflow overwrites one by one."""
    kept = {
        name: None if getattr(row, name) == getattr(before, name) else getattr(row, name)
        for name in ("scheduled_at", "queued_at", "start", "end")
    }
    return replace(row, **kept)


def attribution(requests: Sequence[Request]) -> tuple[str | None, str, str | None]:
    """Actor, source and reason of what one of these requests did; more than one leaves the actor open."""
    last = requests[-1]
    if len(requests) == 1:
        return last.actor, str(last.source), last.words
    names = ", ".join(f"{request.actor or 'somebody'} ({request.words})" for request in requests)
    return None, str(last.source), f"one of: {names}"


def _in_try(event: PlatformEvent) -> tuple[datetime, int]:
    words = event.said.split(", ")
    return event.at, _BEFORE_START.index(words[0]) if words[0] in _BEFORE_START else len(_BEFORE_START)


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
        self._requests = requests
        self._run = run
        self.told = TaskTold()

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
            said = self._said(entry, row, following)
            reason = "found by the scheduler" if said != entry.event else _WORDS.get(entry.event)
            self._add(said, entry.at, number, reason=reason)
        self._tell_waits(row, starts, number)
        # Of one moment: it is scheduled before it is queued, and queued before it runs.
        self.told.events[first:] = sorted(self.told.events[first:], key=_in_try)
        if row is not None:
            self._tell_column(row, following, log)

    def _is_unlogged(self, row: TryRow) -> bool:
        """Whether it ran, and the log has no start near that time: not even one of a try before."""
        logged = (entry.at for entry in self._log if entry.event == "running")
        near = (row.start is not None and abs(at - row.start) <= _SLOW_START for at in logged)
        return bool(row.hostname) and not any(near)

    def _tell_waits(self, row: TryRow | None, starts: Sequence[datetime], number: int | None) -> None:
        """When it was scheduled and queued: of several starts the columns tell the last alone."""
        known: dict[int, set[str]] = defaultdict(set)
        for said in _BEFORE_START:
            at = None if row is None else row.scheduled_at if said == "scheduled" else row.queued_at
            if at is None:
                continue
            before = next((index for index, start in enumerate(starts) if start >= at), len(starts))
            known[before].add(said)
            self._add(said, at, number)
        for index, start in enumerate(starts):
            lost = [said for said in _BEFORE_START if said not in known[index]]
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
        states = [entry for entry in log if entry.event in MEANS]
        last = states[-1] if states else None
        if row.state is None or row.state in _BEFORE_START or (last is not None and last.event == row.state):
            return
        ended = last is not None and (last.event in _TERMINAL or last.event == "up_for_retry")
        if row.archived and row.state == "failed" and self._is_filed(row, following, last):
            self._tell_earlier_clear(row, following)
        elif not ended and row.state in _TERMINAL and row.end is not None and self._is_fresh(row):
            self._tell_end(row, at=row.end, since=None)
        elif row.updated_at is not None:
            # A finished task that is marked keeps the time of its first end.
            known = [moment for moment in (row.end, last.at if last is not None else None) if moment]
            self._tell_end(row, at=row.updated_at, since=max(known, default=None))

    def _is_fresh(self, row: TryRow) -> bool:
        """Whether it came to its state when it came to its end; a second mark leaves the end as it is."""
        if row.end is None or row.updated_at is None or row.updated_at - row.end > _WRITTEN:
            return False
        asked = self._asked((Verb.MARK, Verb.MARK_RUN), at=row.updated_at, since=row.end, state=row.state)
        return not any(request.at > row.end for request in asked)

    def _tell_earlier_clear(self, row: TryRow, following: TryRow | None) -> None:
        """What was cleared several times before it ran is put away at the first time."""
        made = following.made_at if following is not None else None
        if row.end is None or made is None or made - row.end <= _AT_ONCE:
            return
        asked = cleared_by(self._requests, self._task_id, at=row.end)
        if asked:
            self._tell_cleared(asked, row.end, row.try_number, frozenset({_S.PENDING}))

    def _is_filed(self, row: TryRow, following: TryRow | None, last: LogRow | None) -> bool:
        """
        Whether it is called failed for having been put away unfinished: Airflow files such a try so.

        What did fail stands in the log as well, and what somebody marked so was asked for there.
        """
        if last is not None and last.event == "up_for_retry":
            return True
        made = following.made_at if following is not None else None
        verbs = (Verb.MARK, Verb.MARK_RUN)
        if row.end is not None:
            marks = self._asked(verbs, at=row.end, state="failed")
            clears = cleared_by(self._requests, self._task_id, at=row.end)
            if marks and (not clears or marks[-1].at > clears[-1].at):
                return False
            if clears or (made is not None and abs(made - row.end) <= _AT_ONCE):
                return True
        until = made or row.updated_at or row.end
        since = last.at if last is not None else row.made_at
        return until is None or not self._asked(verbs, at=until, since=since, state="failed")

    def _asked(
        self,
        verbs: Sequence[Verb],
        *,
        at: datetime,
        since: datetime | None = None,
        state: str | None = None,
    ) -> tuple[Request, ...]:
        return asked_by(self._requests, verbs, self._task_id, at=at, since=since, state=state)

    def _tell_end(self, row: TryRow, *, at: datetime, since: datetime | None) -> None:
        """A state that no process reported: a person's doing, or the scheduler's."""
        said = row.state or "no state"
        bounded = since is not None or row.state not in _TERMINAL or at != row.end
        asked = self._asked((Verb.MARK, Verb.MARK_RUN), at=at, since=since, state=row.state)
        precision = Precision.BOUNDED if bounded else Precision.EXACT
        if asked:
            self.told.explained.extend(asked)
            actor, source, reason = attribution(asked)
            earliest = max(filter(None, [since, asked[0].at])) if bounded else None
            self._add(
                said,
                at,
                row.try_number,
                since=earliest,
                precision=precision,
                trigger="user:marked",
                actor=actor,
                source=source,
                reason=reason,
            )
        elif self._timed_out(row, at):
            reason = "the run passed its dagrun_timeout"
            self._add(
                said,
                at,
                row.try_number,
                since=self._run.end if self._run is not None else since,
                precision=Precision.BOUNDED,
                trigger="airflow:dagrun_timeout",
                reason=reason,
            )
        else:
            earliest = (since or self._before(at)) if bounded else None
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
        asked = cleared_by(self._requests, self._task_id, at=at)
        if not asked and not raised and following.state != "restarting":
            self._add(
                "another try", at, following.try_number, since=self._before(at), precision=Precision.BOUNDED
            )
            return
        states = [entry.event for entry in log if entry.event in MEANS and entry.at <= at]
        running = states[-1:] == ["running"]
        means = frozenset({_S.PENDING}) | (MEANS["restarting"] if running else frozenset())
        self._tell_cleared(asked, at, row.try_number, means)

    def _tell_cleared(
        self, asked: Sequence[Request], at: datetime, try_number: int, means: frozenset[TaskState]
    ) -> None:
        actor, source, reason = attribution(asked) if asked else (None, "airflow", "nobody is known")
        self.told.explained.extend(asked)
        self._add(
            "cleared",
            at,
            try_number,
            since=asked[0].at if asked else self._before(at),
            precision=Precision.BOUNDED,
            means=means,
            trigger="user:cleared",
            actor=actor,
            source=source,
            reason=reason,
        )

    def tell_unscheduled(self, row: TryRow) -> None:
        """What became of a task that was cleared, or waits to be tried again, and was not scheduled since."""
        if row.state is None or row.updated_at is None or row.state == "up_for_retry":
            return
        if row.state in _TERMINAL and row.end is not None and self._is_fresh(row):
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
        actor: str | None = None,
        source: str = "airflow",
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
                actor=actor,
                source=source,
                reason=reason,
                task_id=self._task_id,
                map_index=self._map_index,
                try_number=try_number,
            )
        )
