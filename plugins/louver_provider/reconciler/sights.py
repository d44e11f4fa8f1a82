"""
What Airflow's tables show of runs and their tasks: one query for each table, however many tasks there are.

Task instances are read before runs: a run that is cleared in between is then held for going on, and its tasks
are left alone, rather than the other way round.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import ColumnElement, and_, func, or_, select

from louver.closing import OUTCOME
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import DefinitionError
from louver.ledger.names import RunKey, TaskKey
from louver.reconcile_runs import Undoing
from louver.sightings import GONE, Shown, Sighting
from louver_provider.airflow_states import shown_by
from louver_provider.operators.names import WITH_STATES
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix

__all__ = [
    "RunSeen",
    "read_answered",
    "read_deployed",
    "read_live",
    "read_runs",
    "read_timed_out",
    "read_undoing",
]

_LIVE = tuple(
    state
    for state in TaskInstanceState
    if shown_by(state) in (Shown.WAITING, Shown.RUNNING, Shown.PARKED, Shown.HELD, Shown.RETRYING)
)
"""A task in one of these goes on by itself, or when somebody answers."""

Place = tuple[str, int]
"""Task id and map index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """
    A run as Airflow has it.

    :param there: whether it has it (any more).
    :param over: whether Airflow does nothing more about it.
    :param run_after: what tells it from another run of the same id.
    """

    there: bool = False
    over: bool = True
    run_after: datetime | None = None
    requester: str | None = None
    tasks: Mapping[Place, Sighting] = field(default_factory=dict)

    def task(self, key: TaskKey) -> Sighting:
        """The task's row."""
        return self.tasks.get((key.task_id, key.map_index), GONE)


def read_runs(keys: Iterable[RunKey], *, answered: frozenset[TaskKey] = frozenset()) -> dict[RunKey, RunSeen]:
    """
    These runs as Airflow has them now.

    :param answered: see :func:`read_answered`.
    """
    found = {key: RunSeen() for key in keys}
    if not found:
        return found
    tasks: dict[RunKey, dict[Place, Sighting]] = defaultdict(dict)
    with create_session(scoped=False) as session:
        for row in session.execute(
            select(
                TaskInstance.dag_id,
                TaskInstance.run_id,
                TaskInstance.task_id,
                TaskInstance.map_index,
                TaskInstance.state,
                TaskInstance.try_number,
                TaskInstance.max_tries,
                # What became ready again after a resume was scheduled again.
                func.coalesce(TaskInstance.scheduled_dttm, TaskInstance.queued_dttm),
                TaskInstance.updated_at,
            ).where(_of_runs(TaskInstance, found), TaskInstance.task_id != OUTCOME)
        ):
            dag_id, run_id, task_id, map_index, state, try_number, max_tries, ready_at, changed_at = row
            tasks[RunKey(dag_id, run_id)][task_id, map_index] = Sighting(
                shown=shown_by(state),
                said=state or "no state",
                try_number=try_number,
                max_tries=max_tries,
                ready_at=ready_at,
                changed_at=changed_at,
                answered=bool(answered) and TaskKey(dag_id, run_id, task_id, map_index) in answered,
            )
        for run in session.execute(
            select(
                DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.run_after, DagRun.triggering_user_name
            ).where(_of_runs(DagRun, found))
        ):
            key = RunKey(run.dag_id, run.run_id)
            found[key] = RunSeen(
                there=True,
                over=run.state in State.finished_dr_states,
                run_after=run.run_after,
                requester=run.triggering_user_name,
                tasks=tasks[key],
            )
    return found


def _of_runs(kind: Any, keys: Iterable[RunKey]) -> ColumnElement[bool]:
    """Rows of these runs; not as a list of pairs, for which SQLite would read the whole table."""
    by_dag: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        by_dag[key.dag_id].append(key.run_id)
    return or_(*(and_(kind.dag_id == dag_id, kind.run_id.in_(ids)) for dag_id, ids in by_dag.items()))


def read_answered() -> frozenset[TaskKey]:
    """Tasks that stand parked although a person's answer to them is recorded."""
    with create_session(scoped=False) as session:
        rows = session.execute(
            select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
            .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
            .where(TaskInstance.state == "awaiting_input", HITLDetail.responded_at.is_not(None))
        )
        return frozenset(TaskKey(*row) for row in rows)


def read_live() -> list[RunKey]:
    """
    Runs with a task of Louver's that is not over.

    The ledger may not know them yet, where nothing of them has begun, or hold them for over, where something
    was cleared.
    """
    with create_session(scoped=False) as session:
        rows = session.execute(
            select(TaskInstance.dag_id, TaskInstance.run_id)
            .where(TaskInstance.state.in_(_LIVE), TaskInstance.operator.in_(WITH_STATES))
            .distinct()
        )
        return sorted(RunKey(*row) for row in rows)


def read_undoing(run: RunKey) -> Undoing:
    """What has been started to compensate the run from outside."""
    with create_session(scoped=False) as session:
        found = session.execute(
            select(DagRun.state, DagRun.conf)
            .where(DagRun.dag_id == RESCUE_DAG, DagRun.run_id.startswith(rescue_prefix(run), autoescape=True))
            .order_by(DagRun.run_after, DagRun.id)
        ).all()
    last = (found[-1].conf or {}) if found else {}
    return Undoing(
        active=any(row.state not in State.finished_dr_states for row in found),
        started=len(found),
        outstanding=last.get("outstanding"),
    )


def read_timed_out(run: RunKey, dags: DBDagBag) -> bool:
    """
    Whether Airflow ended the run by the ``dagrun_timeout`` of its Dag.

    :param dags: keeps what was read.
    """
    with create_session(scoped=False) as session:
        found = session.scalar(select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id))
        dag = dags.get_dag_for_run(found, session) if found is not None else None
        if found is None or dag is None or not dag.dagrun_timeout or not found.start_date:
            return False
        ended = found.end_date is not None and found.state == DagRunState.FAILED
        return ended and found.end_date - found.start_date >= dag.dagrun_timeout


def read_deployed(run: RunKey, dags: DBDagBag) -> Definition | None:
    """
    The definition in the version of the Dag that the run is of, where it is one of Louver's.

    :param dags: keeps what was read.
    """
    with create_session(scoped=False) as session:
        version = session.scalar(
            select(TaskInstance.dag_version_id)
            .where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
            .where(TaskInstance.task_id == OUTCOME)
        )
        dag = dags.get_dag(version, session) if version is not None else None
    form = dag.get_task(OUTCOME).doc_json if dag is not None and dag.has_task(OUTCOME) else None
    try:
        definition = read_definition_form(json.loads(form)) if form else None
    except (ValueError, DefinitionError):
        # A task of somebody else's that has this name.
        return None
    return definition if definition is not None and definition.name == run.dag_id else None
