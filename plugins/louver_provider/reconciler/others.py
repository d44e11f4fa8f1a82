"""What tasks that are not Louver's keep from running, as Airflow's tables show it."""

from __future__ import annotations

from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from louver.definition import Definition
from louver.ledger.names import RunKey
from louver_provider.foreign_tasks import FAILED, SKIPS, behind, decides, others_in

__all__ = ["behind_others_by_rows"]


def behind_others_by_rows(run: RunKey, definition: Definition, dags: DBDagBag) -> frozenset[str]:
    """
    As :func:`louver_provider.foreign_tasks.behind_others`, from Airflow's tables.

    :param dags: keeps what was read.
    """
    with create_session(scoped=False) as session:
        found = session.scalar(select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id))
        dag = dags.get_dag_for_run(found, session) if found is not None else None
        others = others_in(dag.task_dict, definition) if dag is not None else frozenset()
        if dag is None or not others:
            return frozenset()
        of_run = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
        rows = session.execute(
            select(TaskInstance.task_id, TaskInstance.state, TaskInstance.start_date).where(*of_run)
        )
        states = [(name, state, began is not None) for name, state, began in rows]
        deciding = {name for name, state, began in states if decides(state, began)}
        failed = others & {name for name, state, _ in states if state == FAILED}
        deciding.update(
            session.scalars(
                select(XComModel.task_id).where(
                    XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == SKIPS
                )
            )
        )
        return behind(dag.task_dict, definition, deciding & others, failed=failed)
