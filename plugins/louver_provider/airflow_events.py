"""
Pure: Airflow's rows of a run in; what they say happened, when, and by whom, out.

Airflow keeps one row for each task and overwrites it. What was overwritten is told as a gap where it must
have been there, and not at all where nobody can know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from louver.closing import COMPENSATE
from louver.platform_events import PLATFORM, PlatformEvent
from louver_provider.airflow_requests import Request, requests_in
from louver_provider.airflow_rows import AirflowRun, LogRow, TryRow
from louver_provider.airflow_runs import run_events
from louver_provider.airflow_tries import TaskTold, task_events
from louver_provider.own_acts import ANSWERED, answer_told_by, bucket_told_by

__all__ = ["events_of", "rescue_events"]


def events_of(seen: AirflowRun) -> list[PlatformEvent]:
    """
    What Airflow knows of the run, in no particular order.

    Of a run that was deleted, the audit log alone is left; so it is of one that was made again, for the time
    before that.
    """
    born = seen.run.created_at if seen.run is not None else None
    earlier = [row for row in seen.log if seen.run is None or (born is not None and row.at < born)]
    present = seen.log[len(earlier) :]
    requests = requests_in(seen.log, seen.key)
    told = _tasks(seen, earlier, requests, gone=True) + _tasks(seen, present, requests, gone=False)
    explained = {id(request) for task in told for request in task.explained}
    events = [event for task in told for event in task.events]
    events += [answer_told_by(row) for row in seen.log if row.event == ANSWERED]
    events += [event for event in map(bucket_told_by, seen.log) if event is not None]
    events += run_events(seen, [request for request in requests if id(request) not in explained])
    return events


def rescue_events(seen: AirflowRun, *, number: int) -> list[PlatformEvent]:
    """
    What happened in a run of ``louver_compensate``, as the run that it compensated has to tell it.

    There it is the task ``compensate`` with the number as its map index. Of the other run's own life only
    what somebody did is of interest.

    :param seen: that other run.
    """
    return [
        replace(event, task_id=COMPENSATE, map_index=number)
        # At one moment the run is there before its task.
        for event in sorted(events_of(seen), key=lambda event: event.task_id is not None)
        if event.task_id is not None or event.source != PLATFORM
    ]


def _tasks(
    seen: AirflowRun, log: Sequence[LogRow], requests: Sequence[Request], *, gone: bool
) -> list[TaskTold]:
    """
    What is told of each task.

    :param gone: of an earlier run of this id, whose own rows were deleted with it.
    """
    logged: dict[tuple[str, int], list[LogRow]] = defaultdict(list)
    for entry in log:
        if entry.task_id is not None and entry.try_number is not None:
            logged[entry.task_id, -1 if entry.map_index is None else entry.map_index].append(entry)
    tries: dict[tuple[str, int], list[TryRow]] = defaultdict(list)
    for row in () if gone else seen.tries:
        tries[row.task_id, row.map_index].append(row)
    return [
        task_events(place, tries[place], logged[place], requests, seen.run)
        for place in sorted(logged.keys() | tries.keys())
    ]
