"""
Pure: what Airflow's rows tell of a run as a whole, and of requests that left no trace in its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from louver.ledger.names import RunKey
from louver.platform_events import PLATFORM, PlatformEvent
from louver.states import Precision, Source, TaskState
from louver_provider.airflow_requests import Request, Verb
from louver_provider.airflow_rows import AirflowRun, RunRow
from louver_provider.reconciler.rescue import RESCUE_DAG

__all__ = ["run_events"]

_AT_ONCE = timedelta(seconds=5)
_OVER = ("success", "failed")
_TRIGGER = "trigger_dag_run"
_BY_API = ("rest_api", "ui")
_BY_CLI = "cli"

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
        events += _life(seen.run, ending, making=_made(seen.key, seen.run))
        known = [request for request in (making, ending) if request is not None]
    told = [request for request in requests if request.named and request not in known]
    deleting = _deleting(requests)
    return events + [_asked(request, seen.run, refused=request not in deleting) for request in told]


def _deleting(requests: Sequence[Request]) -> list[Request]:
    """The requests to delete the run that may have done so: it was still there before another such one."""
    found: list[Request] = []
    last: Request | None = None
    for request in requests:
        if request.verb is Verb.DELETE and request.tasks is None:
            last = request
        elif request.event == _TRIGGER and last is not None:
            found.append(last)
            last = None
    return found if last is None else [*found, last]


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


def _made(key: RunKey, run: RunRow) -> PlatformEvent | None:
    """That the run was created, and by whom."""
    if run.created_at is None:
        return None
    # The row is written some time after it was made ready to be queued; a clear queues it anew.
    queued = run.queued_at if run.queued_at is not None and run.clear_number == 0 else run.created_at
    made = PlatformEvent(
        said="created",
        at=min(run.created_at, queued),
        trigger="user:triggered" if run.user else "airflow:created",
        actor=run.user,
        reason=f"by {run.triggered_by}" if run.triggered_by else None,
        source="api" if run.triggered_by in _BY_API else "cli" if run.triggered_by == _BY_CLI else PLATFORM,
    )
    if key.dag_id == RESCUE_DAG and run.user is None and run.triggered_by == _BY_CLI:
        # Airflow has no word for who starts it; people leave their name.
        source, reason = str(Source.RECONCILER), f"run {key.run_id} of {key.dag_id}"
        return replace(made, trigger="louver:compensating", source=source, reason=reason)
    return made


def _life(run: RunRow, ending: Request | None, *, making: PlatformEvent | None) -> list[PlatformEvent]:
    events = [] if making is None else [making]
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
                source=PLATFORM if ending is None else str(ending.source),
                reason=ending.words if ending is not None else None,
            )
        )
    return events


def _asked(request: Request, run: RunRow | None, *, refused: bool) -> PlatformEvent:
    """
    A request of which nothing else is known: it was refused, had no effect, or that was overwritten.

    :param refused: where it was to delete the run, it did not.
    """
    kept = refused and request.verb is Verb.DELETE and request.tasks is None
    alone = request.tasks is not None and len(request.tasks) == 1 and not request.wide
    means: frozenset[TaskState] = frozenset()
    if alone and request.verb is Verb.MARK:
        means = _MARKED.get(request.state or "", means)
    elif alone and request.verb is Verb.CLEAR:
        means = frozenset({TaskState.PENDING})
    return PlatformEvent(
        said=_SAID.get(request.verb) or request.event,
        at=request.at,
        trigger=_ASKED if kept else _TRIGGERS.get(request.verb, _ASKED),
        means=means,
        actor=request.actor,
        reason=request.words if request.verb in _CHANGES else None,
        unless_recorded=_NO_EFFECT if kept else _result(request, run),
        source=str(request.source),
        task_id=next(iter(request.tasks)) if request.tasks is not None and alone else None,
        map_index=request.map_index,
    )


_SAID = {Verb.ANSWER: "answered"}
_TRIGGERS = {Verb.ANSWER: "user:answered", Verb.DELETE: "user:deleted"}
_ASKED = "user:asked"
_NO_EFFECT = "Airflow shows no effect of it (any more)"
_CHANGES = (Verb.MARK, Verb.MARK_RUN, Verb.CLEAR, Verb.DELETE)


def _result(request: Request, run: RunRow | None) -> str | None:
    if request.verb not in _CHANGES:
        return None
    gone = run is None or (run.created_at is not None and run.created_at > request.at)
    if request.verb is Verb.DELETE and gone:
        return "all that Airflow had of the run is gone" if request.tasks is None else None
    return _NO_EFFECT
