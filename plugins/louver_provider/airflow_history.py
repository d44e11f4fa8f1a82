"""
What Airflow's tables still tell of a run: one query for each table, however many tasks there are.

Read are ``task_instance``, ``task_instance_history`` (earlier tries), ``dag_run`` and ``log`` (Airflow's own
audit log). What the rows mean is worked out by :mod:`louver_provider.airflow_events`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.utils.session import create_session
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from louver.ledger.names import RunKey
from louver_provider.airflow_requests import WITHOUT_RUN
from louver_provider.airflow_rows import AirflowRun, LogRow, RunRow, TryRow
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix

__all__ = ["ANY_DAG", "made_at", "read_requests", "read_rescues", "read_run"]

ANY_DAG = "~"
"""What stands in the log for the Dag where a request was about several."""

_TRY = (
    *("task_id", "map_index", "try_number", "max_tries", "state", "scheduled_dttm", "queued_dttm"),
    *("start_date", "end_date", "updated_at", "hostname"),
)


def read_run(key: RunKey, *, since: datetime | None = None) -> AirflowRun:
    """
    Read the tables.

    :param since: before that nothing happened to the run; requests that name no run are looked for from then
        on.
    """
    with create_session(scoped=False) as session:
        run = _run(session, key)
        begun = [moment for moment in (since, run.created_at if run else None) if moment is not None]
        tries = [*_tries(session, key, TaskInstanceHistory), *_tries(session, key, TaskInstance)]
        return AirflowRun(
            key=key,
            run=run,
            tries=tuple(sorted(tries, key=lambda row: (row.task_id, row.map_index, not row.archived))),
            log=tuple(_log(session, key, since=min(begun, default=None))),
        )


def read_rescues(key: RunKey) -> dict[int, AirflowRun]:
    """The runs of ``louver_compensate`` that compensated this run, by their number."""
    prefix = rescue_prefix(key)
    with create_session(scoped=False) as session:
        found = session.scalars(
            select(DagRun.run_id).where(
                DagRun.dag_id == RESCUE_DAG, DagRun.run_id.startswith(prefix, autoescape=True)
            )
        ).all()
    numbers = {run_id.removeprefix(prefix): run_id for run_id in found}
    return {
        int(number): read_run(RunKey(RESCUE_DAG, run_id))
        for number, run_id in numbers.items()
        if number.isdecimal()
    }


def read_requests(session: Session, key: RunKey, *, since: datetime) -> list[LogRow]:
    """What was logged about the run from then on, in order of time."""
    return _log(session, key, since=since, all_since=since)


def made_at(identity: Any) -> datetime | None:
    """
    When a task instance's id was made, to the millisecond: Airflow takes version 7 of RFC 9562.

    It is a lower bound of when it was written, and exact but where many were made in one millisecond.
    """
    value = identity if isinstance(identity, UUID) else UUID(str(identity))
    if value.version != 7:
        return None
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=value.int >> 80)


def _run(session: Session, key: RunKey) -> RunRow | None:
    row = session.execute(
        select(
            DagRun.state,
            DagRun.created_at,
            DagRun.queued_at,
            DagRun.start_date,
            DagRun.end_date,
            DagRun.clear_number,
            DagRun.triggered_by,
            DagRun.triggering_user_name,
        ).where(DagRun.dag_id == key.dag_id, DagRun.run_id == key.run_id)
    ).one_or_none()
    if row is None:
        return None
    return RunRow(
        state=row.state,
        created_at=row.created_at,
        queued_at=row.queued_at,
        start=row.start_date,
        end=row.end_date,
        clear_number=row.clear_number or 0,
        triggered_by=None if row.triggered_by is None else str(getattr(row.triggered_by, "value", None)),
        user=row.triggering_user_name,
    )


def _tries(session: Session, key: RunKey, model: Any) -> list[TryRow]:
    archived = model is TaskInstanceHistory
    identity = model.task_instance_id if archived else model.id
    rows = session.execute(
        select(identity.label("identity"), *(getattr(model, name) for name in _TRY))
        .where(model.dag_id == key.dag_id, model.run_id == key.run_id)
        .order_by(model.task_id, model.map_index, model.try_number)
    )
    return [
        TryRow(
            task_id=row.task_id,
            map_index=row.map_index,
            try_number=row.try_number or 0,
            max_tries=row.max_tries if row.max_tries is not None else -1,
            state=row.state,
            scheduled_at=row.scheduled_dttm,
            queued_at=row.queued_dttm,
            start=row.start_date,
            end=row.end_date,
            updated_at=row.updated_at,
            hostname=row.hostname or None,
            made_at=made_at(row.identity),
            archived=archived,
        )
        for row in rows
    ]


def _log(
    session: Session, key: RunKey, *, since: datetime | None, all_since: datetime | None = None
) -> list[LogRow]:
    of_run = and_(Log.dag_id == key.dag_id, Log.run_id == key.run_id)
    # The command line logs no run, and a request about several runs none either.
    loose: list[Any] = [
        Log.dag_id.in_((key.dag_id, ANY_DAG)),
        Log.run_id.is_(None),
        Log.event.in_(WITHOUT_RUN),
    ]
    if since is not None:
        loose.append(Log.dttm >= since)
    wanted = or_(of_run, and_(*loose))
    if all_since is not None:
        wanted = and_(wanted, Log.dttm >= all_since)
    rows = session.execute(
        select(
            Log.dttm,
            Log.event,
            Log.task_id,
            Log.map_index,
            Log.run_id,
            Log.try_number,
            Log.owner,
            Log.owner_display_name,
            Log.extra,
        )
        .where(wanted, Log.dttm.is_not(None))
        .order_by(Log.dttm, Log.id)
    )
    return [
        LogRow(
            at=row.dttm,
            event=row.event,
            task_id=row.task_id,
            map_index=row.map_index,
            run_id=row.run_id,
            try_number=row.try_number,
            owner=row.owner_display_name or row.owner,
            extra=_extra(row.extra),
        )
        for row in rows
    ]


def _extra(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        # Airflow writes plain words for some events; they are its own.
        return {}
    return value if isinstance(value, dict) else {}
