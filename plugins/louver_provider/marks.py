"""
What people do to Louver's tasks in Airflow, noted inside the API server and recorded once Airflow has it.

Airflow's audit log says who asked; it is read in the same session. What is noted is recorded after that
session has committed, so that nothing is recorded which did not come about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import and_, event, or_, select
from sqlalchemy.orm import Session, object_session

from louver.clock import SystemClock
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import TaskRecord
from louver.sessions import Change
from louver.sightings import occupies
from louver.states import FailureKind, Source, TaskState
from louver_provider.airflow_history import ANY_DAG, made_at, read_requests
from louver_provider.airflow_requests import Request, Verb, asked_by, cleared_by, requests_in
from louver_provider.hooks.ledger import get_ledger
from louver_provider.operators.names import WITH_STATES
from louver_provider.recorder import record_soon

__all__ = ["Deed", "carry_in", "is_same_run", "note_mark", "note_skipped_with_run", "record_clears"]

_WAITING = ("scheduled", "queued")
_RESTARTING = "restarting"
_LOOK_BACK = timedelta(seconds=60)
_TRIES = 3
_NOTED = "louver_noted"
_REQUESTS = "louver_requests"

_TO = {"success": TaskState.SUCCEEDED, "failed": TaskState.FAILED, "skipped": TaskState.SKIPPED}

_SAME = {
    TaskState.SUCCEEDED: frozenset({TaskState.SUCCEEDED}),
    TaskState.FAILED: frozenset({TaskState.FAILED, TaskState.STOPPED, TaskState.LOST}),
    TaskState.SKIPPED: frozenset({TaskState.SKIPPED, TaskState.CANCELLED}),
    TaskState.CANCELLED: frozenset(state for state in TaskState if state.terminal),
}
"""Where a task is in one of these already, Airflow's state tells nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """
    What somebody did to a task.

    :param change: the transition that it is.
    :param run_after: of the Dag run, by which it is told from another one of the same id.
    :param max_tries: Airflow's after a clear; of a running task the most that it may come to, for Airflow
        raises it some time later, when the process is gone. None otherwise.
    :param restarts: it was running, so that it goes on in its generation.
    """

    task: TaskKey
    change: Change
    run_after: datetime | None
    max_tries: int | None = None
    restarts: bool = False


def note_mark(task_instance: Any, airflow_state: str) -> None:
    """
    Somebody has set the task to that state, in the session that the row belongs to.

    :param task_instance: Airflow's row.
    :param airflow_state: ``success``, ``failed`` or ``skipped``.
    """
    ti, session = task_instance, object_session(task_instance)
    key = TaskKey(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
    _note(session, [_mark(key, airflow_state, session, run_after=ti.dag_run.run_after)])


def note_skipped_with_run(dag_run: Any) -> None:
    """
    Somebody has marked the whole run: Airflow skips what had not begun, and tells no listener of it.

    :param dag_run: Airflow's row.
    """
    session = object_session(dag_run)
    if session is None:
        return
    run = RunKey(dag_run.dag_id, dag_run.run_id)
    asked = [request for request in _requests(session, run) if request.verb is Verb.MARK_RUN]
    if not asked:
        return
    skipped = session.execute(
        select(TaskInstance.task_id, TaskInstance.map_index).where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.operator.in_(WITH_STATES),
            TaskInstance.state == "skipped",
            # Others were skipped before, and not by this.
            TaskInstance.updated_at >= asked[-1].at,
        )
    )
    keys = [TaskKey(run.dag_id, run.run_id, row.task_id, row.map_index) for row in skipped]
    ended = asked[-1].state == "failed"
    run_after = dag_run.run_after
    _note(session, [_mark(key, "skipped", session, run_after=run_after, ended=ended) for key in keys])


def record_clears(dag_id: str, *, since: datetime) -> None:
    """
    Record what was cleared in this Dag from then on.

    :param dag_id: as it stands in the request's path: ``~`` for any.
    :param since: when the request arrived that may have cleared something.
    """
    of_dag = [] if dag_id == ANY_DAG else [TaskInstance.dag_id == dag_id]
    with create_session(scoped=False) as session:
        rows = session.execute(
            select(
                TaskInstance.id,
                TaskInstance.dag_id,
                TaskInstance.run_id,
                TaskInstance.task_id,
                TaskInstance.map_index,
                TaskInstance.try_number,
                TaskInstance.max_tries,
                TaskInstance.state,
                DagRun.run_after,
            )
            .join(DagRun, and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id))
            .where(
                *of_dag,
                TaskInstance.operator.in_(WITH_STATES),
                or_(TaskInstance.state.is_(None), TaskInstance.state.in_((*_WAITING, _RESTARTING))),
                TaskInstance.updated_at >= since,
            )
        ).all()
        now = SystemClock().now()
        deeds = []
        for row in rows:
            key = TaskKey(row.dag_id, row.run_id, row.task_id, row.map_index)
            asked = cleared_by(_requests(session, key.run), key.task_id, at=now, since=since)
            if asked:
                restarts = row.state == _RESTARTING
                change = Change(
                    to=TaskState.QUEUED if restarts else TaskState.PENDING,
                    trigger="executor:restarting" if restarts else "user:cleared",
                    at=min(max(filter(None, [made_at(row.id), since])), now),
                    **_whose(asked, [request.words_of_clear for request in asked]),
                )
                deeds.append(
                    Deed(
                        task=key,
                        change=change,
                        run_after=row.run_after,
                        max_tries=row.max_tries + (row.try_number if restarts else 0),
                        restarts=restarts,
                    )
                )
    if deeds:
        record_soon(lambda: carry_in(get_ledger(), deeds))


def carry_in(ledger: Ledger, deeds: Iterable[Deed], *, source: Source = Source.API) -> None:
    """
    Append to the tasks' side chains what was done to them.

    A run that the ledger does not know is left alone: its first task finds what became of it. So is one that
    was deleted and made again, until that task has opened it.
    """
    for deed in deeds:
        for _ in range(_TRIES):
            run = ledger.get_run(deed.task.run)
            record = ledger.get_task(deed.task)
            changes = _changes(record, deed)
            if not changes or run is None or not is_same_run(run.marker, deed.run_after):
                break
            session = 0 if record is None else record.session
            rows = [
                ledger.mark(
                    deed.task,
                    change,
                    session=session + number,
                    source=source,
                    # A task that no process has opened yet has no tries to compare later.
                    max_tries=deed.max_tries if record is not None and record.try_number else None,
                    now=SystemClock().now(),
                )
                for number, change in enumerate(changes)
            ]
            # None: a process has opened it in between; what was done still holds.
            if None not in rows:
                break


def _changes(record: TaskRecord | None, deed: Deed) -> tuple[Change, ...]:
    """What is to be recorded, by what the ledger holds now; nothing where that is no news."""
    state = record.state if record is not None else TaskState.PENDING
    if deed.restarts:
        # In these somebody is inside, and is fenced by it: Airflow ends the process, and starts another one.
        # One that is only starting, or is stopping, leaves it to that other one.
        first = {
            TaskState.PAUSING: Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back"),
            TaskState.PAUSED: Change(to=TaskState.RUNNING, trigger="user:resume", actor=deed.change.actor),
        }.get(state)
        if record is None or not occupies(record) or (first is None and state is not TaskState.RUNNING):
            return ()
        rolled_back = () if first is None else (replace(first, reason="it was cleared", at=deed.change.at),)
        return (*rolled_back, deed.change)
    if deed.change.to is not TaskState.PENDING:
        return () if state in _SAME[deed.change.to] else (deed.change,)
    if record is None or state is TaskState.PENDING or occupies(record):
        return ()
    # What has ended since then ended in a later process, which found out about the clear itself.
    ended_before = state.terminal and record.updated_at <= (deed.change.at or record.updated_at)
    raised = deed.max_tries is not None and record.try_number > 0 and deed.max_tries > record.max_tries
    # One that was restarted and has not begun again may be cleared without its tries being raised further.
    return (deed.change,) if ended_before or raised or state is TaskState.QUEUED else ()


def _mark(
    key: TaskKey,
    airflow_state: str,
    session: Session | None,
    *,
    run_after: datetime | None,
    ended: bool = False,
) -> Deed:
    """
    What was done to the task.

    :param ended: it was skipped since somebody wants the run to have failed: then it must not look like a
        step that was rightly left out, or what the run has done would not be undone.
    """
    now = SystemClock().now()
    verbs = (Verb.MARK, Verb.MARK_RUN)
    asked: Sequence[Request] = ()
    if session is not None:
        asked = asked_by(_requests(session, key.run), verbs, key.task_id, at=now, state=airflow_state)
    to = TaskState.CANCELLED if ended else _TO[airflow_state]
    change = Change(
        to=to,
        trigger="orchestrator:cascade" if ended else "user:marked",
        failure_kind=FailureKind.EXCEPTION if to is TaskState.FAILED else None,
        at=now,
        **_whose(asked, [request.words for request in asked]),
    )
    return Deed(task=key, change=change, run_after=run_after)


def is_same_run(marker: str | None, run_after: datetime | None) -> bool:
    """Whether the ledger's run is the one that Airflow has now."""
    try:
        return marker is not None and run_after is not None and datetime.fromisoformat(marker) == run_after
    except ValueError:
        return False


def _whose(asked: Sequence[Request], words: Sequence[str]) -> dict[str, Any]:
    """Actor and reason; two people at the same moment leave the actor open."""
    if not asked:
        return {"reason": "set in Airflow"}
    if len({request.actor for request in asked}) == 1:
        return {"actor": asked[-1].actor, "reason": words[-1]}
    names = " or ".join(request.actor or "somebody" for request in asked)
    return {"reason": f"{words[-1]}, by {names}"}


def _requests(session: Session, run: RunKey) -> list[Request]:
    """What was asked for just now; one request may change many tasks, so it is read once a session."""
    known: dict[RunKey, list[Request]] = session.info.setdefault(_REQUESTS, {})
    if run not in known:
        since = SystemClock().now() - _LOOK_BACK
        known[run] = requests_in(read_requests(session, run, since=since), run)
    return known[run]


def _note(session: Session | None, deeds: Sequence[Deed]) -> None:
    if session is None or not session.in_transaction():
        record_soon(lambda: carry_in(get_ledger(), deeds))
        return
    noted: list[Deed] | None = session.info.get(_NOTED)
    if noted is None:
        noted = session.info[_NOTED] = []
        event.listen(session, "after_commit", _committed)
        event.listen(session, "after_rollback", _rolled_back)
    noted.extend(deeds)


def _committed(session: Session) -> None:
    deeds = list(session.info.get(_NOTED) or ())
    _rolled_back(session)
    if deeds:
        record_soon(lambda: carry_in(get_ledger(), deeds))


def _rolled_back(session: Session) -> None:
    session.info.pop(_REQUESTS, None)
    noted = session.info.get(_NOTED)
    if noted:
        noted.clear()
