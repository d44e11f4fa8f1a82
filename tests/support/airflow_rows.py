"""Airflow's own tables in this test run's database, with Dags and runs in them, and no scheduler at work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.models.callback import Callback, DagProcessorCallback
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import delete, select, update

from louver.ledger.names import RunKey, TaskKey

__all__ = ["AirflowRows"]

_BUNDLE = "tests"


class AirflowRows:
    """Writes what Airflow's processes would have written, and reads what became of it."""

    def __init__(self) -> None:
        initdb()
        with create_session(scoped=False) as session:
            session.merge(DagBundleModel(name=_BUNDLE))

    def deploy(self, dag: DAG, *, version: str | None = None) -> None:
        """
        Make the Dag known, as the Dag processor does.

        :param version: of its bundle, where that has any; runs then stay with it.
        """
        lazy = LazyDeserializedDAG.from_dag(dag)
        with create_session(scoped=False) as session:
            SerializedDAG.bulk_write_to_db(_BUNDLE, version, [lazy], session=session)
        with create_session(scoped=False) as session:
            SerializedDagModel.write_dag(lazy, bundle_name=_BUNDLE, bundle_version=version, session=session)

    def run(self, key: RunKey, *, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run; returns what marks it in the ledger."""
        trigger_dag(
            dag_id=key.dag_id,
            run_id=key.run_id,
            conf=dict(conf or {}),
            triggered_by=DagRunTriggeredByType.TEST,
            triggering_user_name="ann",
        )
        self.show_run(key, "running")
        with create_session(scoped=False) as session:
            found = session.scalars(select(DagRun).filter_by(dag_id=key.dag_id, run_id=key.run_id)).one()
            return found.run_after.isoformat()

    def show_run(self, key: RunKey, state: str, **columns: Any) -> None:
        """Set the run's state, and other columns of its row."""
        query = update(DagRun).filter_by(dag_id=key.dag_id, run_id=key.run_id)
        self._update(query.values(state=state, **columns))

    def pause(self, dag_id: str) -> None:
        """Pause the Dag, as a person does in the UI."""
        self._update(update(DagModel).filter_by(dag_id=dag_id).values(is_paused=True))

    def show(self, key: TaskKey, state: str | None, **columns: Any) -> None:
        """Set the task's state, and other columns of its row."""
        self._update(update(TaskInstance).filter_by(**_place(key)).values(state=state, **columns))

    def ask(self, key: TaskKey, *, options: list[str], answer: str | None = None, now: datetime) -> None:
        """The task asks a person; who has answered, where an answer is given."""
        with create_session(scoped=False) as session:
            ti = session.scalars(select(TaskInstance).filter_by(**_place(key))).one()
            given = {"responded_at": now, "chosen_options": [answer]} if answer else {}
            session.add(HITLDetail(ti_id=ti.id, options=options, subject="?", params={}, **given))

    def map_over(self, key: TaskKey, count: int) -> None:
        """Expand the task into so many, as the scheduler does with a mapped one."""
        with create_session(scoped=False) as session:
            whole = session.scalars(select(TaskInstance).filter_by(**_place(key))).one()
            dag = DBDagBag().get_dag_for_run(dag_run=whole.dag_run, session=session)
            assert dag is not None
            task = dag.get_task(key.task_id)
            for index in range(1, count):
                session.add(
                    TaskInstance(
                        task, dag_version_id=whole.dag_version_id, run_id=key.run_id, map_index=index
                    )
                )
            whole.map_index = 0

    def remove_run(self, key: RunKey) -> None:
        """Delete the run, as a person does in the UI."""
        self._update(delete(DagRun).filter_by(dag_id=key.dag_id, run_id=key.run_id))

    def remove(self, key: TaskKey) -> None:
        """Delete the task's row."""
        self._update(delete(TaskInstance).filter_by(**_place(key)))

    def row(self, key: TaskKey) -> TaskInstance:
        """The task's row as it is now."""
        with create_session(scoped=False) as session:
            found = session.scalars(select(TaskInstance).filter_by(**_place(key))).one()
            session.expunge_all()
        return found

    def states(self, key: RunKey) -> dict[str, str | None]:
        """The states of the run's tasks."""
        with create_session(scoped=False) as session:
            query = select(TaskInstance.task_id, TaskInstance.state)
            return dict(
                tuple(row) for row in session.execute(query.filter_by(dag_id=key.dag_id, run_id=key.run_id))
            )

    def runs(self, dag_id: str) -> list[DagRun]:
        """The runs of the Dag."""
        with create_session(scoped=False) as session:
            found = list(session.scalars(select(DagRun).filter_by(dag_id=dag_id).order_by(DagRun.id)))
            session.expunge_all()
        return found

    def callbacks(self) -> list[Any]:
        """Callbacks that were asked for and not run yet."""
        with create_session(scoped=False) as session:
            return [row.get_callback_request() for row in session.scalars(select(DagProcessorCallback))]

    def events(self, key: TaskKey) -> list[tuple[str, str | None]]:
        """What Airflow's audit log tells of the task."""
        with create_session(scoped=False) as session:
            query = select(Log.event, Log.extra).filter_by(**_place(key)).order_by(Log.id)
            return [tuple(row) for row in session.execute(query)]

    def clear(self) -> None:
        """Remove all runs, callbacks and log rows."""
        with create_session(scoped=False) as session:
            for kind in (DagRun, Callback, Log):
                session.execute(delete(kind))

    def _update(self, statement: Any) -> None:
        with create_session(scoped=False) as session:
            session.execute(statement.execution_options(synchronize_session=False))


def _place(key: TaskKey) -> dict[str, Any]:
    return {"dag_id": key.dag_id, "run_id": key.run_id, "task_id": key.task_id, "map_index": key.map_index}
