"""Having Airflow compensate a run once more, by its own tasks, where the run is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State
from sqlalchemy import select
from sqlalchemy.orm import Session

from louver.closing import COMPENSATE, OUTCOME
from louver.errors import LedgerError
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import RunKey, TaskKey
from louver_provider.own_acts import note_clear
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix

__all__ = ["compensate_again"]


def compensate_again(run: RunKey, prepare: Callable[[], None], *, word: Word) -> list[TaskKey]:
    """
    Clear the tasks that close the run, as a person would in the UI: Airflow runs them again.

    They are the run's own, or those of the run of ``louver_compensate`` that did it in their place.

    :param word: who wants it and why; it stands in Airflow's audit log with what is done.
    :param prepare: done once they are held and before they are free to run; if it raises, nothing is cleared.
    :returns: the tasks that were cleared.
    :raises LedgerError: where Airflow has no such tasks, or they have not ended.
    """
    with create_session(scoped=False) as session:
        found = _own(session, run) or _rescue(session, run)
        if not found:
            raise LedgerError(
                f"Airflow has no closing tasks of run {run.run_id} of {run.dag_id}; the reconciler starts "
                f"{RESCUE_DAG} for runs that it has lost"
            )
        busy = [ti for ti in found if ti.state not in State.finished]
        if busy:
            raise LedgerError(
                f"{busy[0].task_id} of run {busy[0].run_id} is {busy[0].state or 'still to come'}: "
                "what can be undone is being undone"
            )
        cleared = [TaskKey(ti.dag_id, ti.run_id, ti.task_id, ti.map_index) for ti in found]
        for key in cleared:
            note_clear(
                session,
                key,
                asked="compensations retry",
                actor=word.actor,
                source=word.source,
                reason=word.reason,
            )
        clear_task_instances(list(found), session, DagRunState.QUEUED)
        session.flush()
        prepare()
    return cleared


def _own(session: Session, run: RunKey) -> Sequence[TaskInstance]:
    return session.scalars(
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.task_id.in_([COMPENSATE, OUTCOME]),
        )
        .with_for_update(of=TaskInstance)
    ).all()


def _rescue(session: Session, run: RunKey) -> Sequence[TaskInstance]:
    newest = session.scalar(
        select(DagRun.run_id)
        .where(DagRun.dag_id == RESCUE_DAG, DagRun.run_id.startswith(rescue_prefix(run), autoescape=True))
        .order_by(DagRun.id.desc())
        .limit(1)
    )
    return session.scalars(
        select(TaskInstance)
        .where(TaskInstance.dag_id == RESCUE_DAG, TaskInstance.run_id == newest)
        .with_for_update(of=TaskInstance)
    ).all()
