"""
Pure: what Airflow's rows tell of a run as a whole, and of requests that left no trace in its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from louver.platform_events import PlatformEvent
from louver.states import Precision, TaskState
from louver_provider.airflow_history import AirflowRun, RunRow
from louver_provider.airflow_requests import Request, Verb

__all__ = ["run_events"]

_AT_ONCE = timedelta(seconds=5)
_OVER = ("success", "failed")
_TRIGGER = "trigger_dag_run"
_BY_API = ("rest_api", "ui")

_MARKED = {
    "success": frozenset({TaskState.SUCCEEDED}),
    "failed": frozenset({TaskState.FAILED}),
    "skipped": frozenset({TaskState.SKIPPED}),
}


def run_events(seen: AirflowRun, requests: Sequence[Request]) -> list[PlatformEvent]:
    """
    The run's own life, and what was asked for.

    :param requests: those that no change of a task is explained by.
    """
    events: list[PlatformEvent] = []
    known: list[Request] = []
    if seen.run is not None:
        making, ending = _making(seen.run, requests), _ending(seen, seen.run, requests)
        events += _life(seen.run, ending)
        known = [request for request in (making, ending) if request is not None]
    told = [request for request in requests if request.named and request not in known]
    return events + [_asked(request, seen.run) for request in told]


def _making(run: RunRow, requests: Sequence[Request]) -> Request | None:
    """The request that made the run, which its own row tells as well."""
    if run.created_at is None:
        return None
    return next(
        (
            request
            for request in reversed(requests)
            if request.event == _TRIGGER
            and request.actor == run.user
            and timedelta(0) <= run.created_at - request.at <= _AT_ONCE
        ),
        None,
    )


def _ending(seen: AirflowRun, run: RunRow, requests: Sequence[Request]) -> Request | None:
    """
    The request that ended the run.

    Where a teardown has still to run, it is not the request that ends it, but the scheduler, later.
    """
    end = run.end
    if end is None or run.state not in _OVER:
        return None
    ends = [row.end for row in seen.tries if row.end is not None and row.end <= end]
    return next(
        (
            request
            for request in reversed(requests)
            if request.verb is Verb.MARK_RUN
            and request.state == run.state
            and timedelta(0) <= end - request.at <= _AT_ONCE
            and not any(request.at < moment < end for moment in ends)
        ),
        None,
    )


def _life(run: RunRow, ending: Request | None) -> list[PlatformEvent]:
    events = []
    if run.created_at is not None:
        person = "api" if run.triggered_by in _BY_API else "cli" if run.triggered_by == "cli" else None
        events.append(
            PlatformEvent(
                said="created",
                at=run.created_at,
                trigger="user:triggered" if run.user else "airflow:created",
                actor=run.user,
                reason=f"by {run.triggered_by}" if run.triggered_by else None,
                source=person or "airflow",
            )
        )
    first = run.clear_number == 0
    if not first and run.created_at is not None and (run.queued_at or run.start) is not None:
        until = run.queued_at or run.start or run.created_at
        cleared = f"it was cleared {run.clear_number} times" if run.clear_number > 1 else "it was cleared"
        events.append(
            PlatformEvent(
                said="queued, running, ended",
                at=until,
                since=run.created_at,
                precision=Precision.UNKNOWN,
                trigger="airflow:run",
                reason=f"not known: overwritten by Airflow when {cleared}",
            )
        )
    if run.queued_at is not None:
        events.append(PlatformEvent(said="queued", at=run.queued_at, trigger="airflow:queued"))
    if run.start is not None:
        events.append(PlatformEvent(said="running", at=run.start, trigger="airflow:running"))
    if run.end is not None and run.state in _OVER:
        events.append(
            PlatformEvent(
                said=run.state or "",
                at=run.end,
                trigger=f"airflow:{run.state}" if ending is None else "user:marked",
                actor=ending.actor if ending is not None else None,
                source="airflow" if ending is None else str(ending.source),
                reason=ending.words if ending is not None else None,
            )
        )
    return events


def _asked(request: Request, run: RunRow | None) -> PlatformEvent:
    """A request of which nothing else is known: it was refused, had no effect, or that was overwritten."""
    alone = request.tasks is not None and len(request.tasks) == 1 and not request.wide
    means: frozenset[TaskState] = frozenset()
    if alone and request.verb is Verb.MARK:
        means = _MARKED.get(request.state or "", means)
    elif alone and request.verb is Verb.CLEAR:
        means = frozenset({TaskState.PENDING})
    return PlatformEvent(
        said=_SAID.get(request.verb) or request.event,
        at=request.at,
        trigger=_TRIGGERS.get(request.verb, "user:asked"),
        means=means,
        actor=request.actor,
        reason=request.words if request.verb in _CHANGES else None,
        unless_recorded=_result(request, run),
        source=str(request.source),
        task_id=next(iter(request.tasks)) if request.tasks is not None and alone else None,
        map_index=request.map_index,
    )


_SAID = {Verb.ANSWER: "answered"}
_TRIGGERS = {Verb.ANSWER: "user:answered", Verb.DELETE: "user:deleted"}
_CHANGES = (Verb.MARK, Verb.MARK_RUN, Verb.CLEAR, Verb.DELETE)


def _result(request: Request, run: RunRow | None) -> str | None:
    if request.verb not in _CHANGES:
        return None
    gone = run is None or (run.created_at is not None and run.created_at > request.at)
    if request.verb is Verb.DELETE and gone:
        return "all that Airflow had of the run is gone" if request.tasks is None else None
    return "Airflow shows no effect of it (any more)"
