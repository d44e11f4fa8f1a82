"""
What Airflow is asked to do: end a task, wake one, start a run. Each is one short transaction.

Every act begins with a write to the row that it is about, under the condition that the row still shows what
was seen. Then nobody else can change it until the act is done; a database without row locks gives its one
lock for that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.callbacks.callback_requests import TaskCallbackRequest
from airflow.callbacks.database_callback_sink import DatabaseCallbackSink
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dagbag import DBDagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import handle_event_submit
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from louver.ledger.names import TaskKey
from louver.repairs import Compensate, EndOnPlatform
from louver.sightings import Shown
from louver.states import Source
from louver_provider.airflow_states import shown_by
from louver_provider.own_acts import Answer, note_answer, note_state
from louver_provider.parks import guard_park, place_of
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_conf, rescue_prefix
from louver_provider.triggering import why_not_started

__all__ = ["NOT_DONE", "end_task", "start_rescue", "wake_expired"]

log = logging.getLogger(__name__)

NOT_DONE = "it has moved on meanwhile"
"""Why a repair did not come about where what was seen is no longer so."""


def end_task(repair: EndOnPlatform, dags: DBDagBag) -> str | None:
    """
    Set the task instance to failed or skipped, or to be tried again; its supervisor then kills the process.

    Its callback is asked for with it, as Airflow does for a task that it finds dead: that way it runs once.

    :param dags: tells which callbacks the task has.
    :returns: why it was not done; None where it was.
    """
    with create_session(scoped=False) as session:
        ti = _hold(session, repair.task, _states(repair.while_shown), try_number=repair.try_number)
        if ti is None:
            return NOT_DONE
        again = repair.retry_in is not None and ti.try_number <= ti.max_tries
        ended = TaskInstanceState.SKIPPED if repair.skipped else TaskInstanceState.FAILED
        state = TaskInstanceState.UP_FOR_RETRY if again else ended
        if state is not TaskInstanceState.SKIPPED:
            _ask_for_callback(session, ti, state, repair.why, dags)
        if again:
            _try_again(session, ti, repair.retry_in or timedelta(0), repair.why)
        else:
            ti.clear_next_method_args()
            ti.set_state(state, session=session)
        note_state(session, ti, state=state, reason=repair.why)
    return None


def _states(shown: Shown) -> list[str]:
    return [state for state in TaskInstanceState if shown_by(state) is shown]


def _hold(
    session: Session, key: TaskKey, states: Sequence[str], *, try_number: int | None = None
) -> TaskInstance | None:
    """The task's row, which nobody else can change until the transaction ends; None where it shows else."""
    wanted = [*place_of(key), TaskInstance.state.in_(states)]
    if try_number is not None:
        wanted.append(TaskInstance.try_number == try_number)
    held: Any = session.execute(
        update(TaskInstance)
        .where(*wanted)
        .values(updated_at=TaskInstance.updated_at)
        .execution_options(synchronize_session=False)
    )
    if held.rowcount != 1:
        return None
    return session.scalars(select(TaskInstance).where(*place_of(key)).with_for_update(of=TaskInstance)).one()


def _try_again(session: Session, ti: TaskInstance, delay: timedelta, why: str) -> None:
    """What Airflow itself does with a failed attempt that is not the last."""
    ti.prepare_db_for_next_try(session)
    ti.clear_next_method_args()
    ti.set_state(TaskInstanceState.UP_FOR_RETRY, session=session)
    ti.retry_delay_override = delay.total_seconds()
    ti.retry_reason = why[:500]


def _ask_for_callback(
    session: Session, ti: TaskInstance, state: TaskInstanceState, why: str, dags: DBDagBag
) -> None:
    again = state is TaskInstanceState.UP_FOR_RETRY
    try:
        dag = dags.get_dag_for_run(dag_run=ti.dag_run, session=session)
        task = dag.get_task(ti.task_id) if dag is not None else None
    except Exception:
        # A Dag that cannot be read any more has no callback that could run; the task ends all the same.
        log.warning("louver: callbacks of %s are not known; none is run", ti.task_id, exc_info=True)
        return
    if task is None or ti.dag_version_id is None:
        return
    if not (task.has_on_retry_callback if again else task.has_on_failure_callback):
        return
    from airflow.api_fastapi.execution_api.datamodels.taskinstance import DagRun, TIRunContext

    pinned = ti.dag_run.bundle_version is not None
    request = TaskCallbackRequest(
        filepath=ti.dag_model.relative_fileloc or "",
        bundle_name=ti.dag_version.bundle_name,
        bundle_version=ti.dag_version.bundle_version if pinned else None,
        ti=ti,
        msg=why,
        task_callback_type=state,
        context_from_server=TIRunContext(
            dag_run=DagRun.model_validate(ti.dag_run, from_attributes=True),
            max_tries=ti.max_tries,
            variables=[],
            connections=[],
            xcom_keys_to_clear=[],
        ),
    )
    DatabaseCallbackSink().send(callback=request, session=session)


def wake_expired(key: TaskKey, *, now: Any) -> str | None:
    """
    Tell a parked task that its time is over, as Airflow's own time-out would.

    :returns: why it was not done; None where it was.
    """
    refusal = guard_park(key, now=now)
    if refusal is not None:
        return refusal.detail
    with create_session(scoped=False) as session:
        ti = _hold(session, key, [TaskInstanceState.AWAITING_INPUT])
        if ti is None:
            return NOT_DONE
        event = {"error": "The request has expired.", "error_type": "timeout"}
        note_answer(session, key, Answer.EXPIRED, verb=None, actor=None, source=Source.RECONCILER)
        handle_event_submit(TriggerEvent(event), task_instance=ti, session=session)
    return None


def start_rescue(repair: Compensate) -> str | None:
    """
    Start the Dag that compensates the run; nothing happens where that was done already.

    :returns: why it was not done; None where it was.
    """
    run = repair.run.key
    run_id = f"{rescue_prefix(run)}{repair.number}"
    try:
        trigger_dag(
            dag_id=RESCUE_DAG,
            run_id=run_id,
            conf=rescue_conf(run, number=repair.number, outstanding=repair.outstanding),
            triggered_by=DagRunTriggeredByType.CLI,
            note=f"Compensates run {run.run_id} of {run.dag_id}.",
        )
    except (DagRunAlreadyExists, IntegrityError):
        return None
    except DagNotFound:
        return (
            f"there is no Dag {RESCUE_DAG}: a file in the Dags folder has to call "
            "louver_provider.dags.compensation_dag()"
        )
    except ValueError as refused:
        return f"Airflow does not start {RESCUE_DAG}: {why_not_started(RESCUE_DAG, run_id, refused)}"
    return None
