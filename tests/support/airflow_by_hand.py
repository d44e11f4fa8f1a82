"""
An Airflow whose parts act one after the other in this process, each when a test says so.

They are Airflow's own: the scheduler's loop, the Execution API, the public API with Louver's middlewares and
listeners, the task runner with Louver's operators. What is played is the executor, which hands each task to
the test, and time, which passes when the test lets it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

import httpx
import psutil
import pytest
import structlog
from airflow.callbacks.database_callback_sink import DatabaseCallbackSink
from airflow.cli import cli_parser
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG
from airflow.sdk.api.client import ServerResponseError
from airflow.sdk.execution_time.supervisor import (
    InProcessSupervisorComms,
    InProcessTestSupervisor,
    set_supervisor_comms,
)
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select, update

from louver.ledger.names import RunKey, TaskKey
from louver_provider.api.hitl_guard import HitlGuard
from support.airflow_rows import AirflowRows

with warnings.catch_warnings():
    # Starlette's test client wants another HTTP library than Airflow brings.
    warnings.simplefilter("ignore")
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.execution_api.app import InProcessExecutionAPI
    from fastapi.testclient import TestClient

__all__ = ["AirflowByHand", "Killed"]


class Killed(BaseException):
    """Raised in a step's code: its process is gone, without a word to anybody."""


class _Hand(BaseExecutor):
    """An executor that keeps what it is given until the test takes it."""

    def __init__(self) -> None:
        super().__init__(parallelism=1000)
        self.given: dict[TaskKey, Any] = {}

    def start(self) -> None:
        pass

    def sync(self) -> None:
        pass

    def end(self) -> None:
        pass

    def terminate(self) -> None:
        pass

    def _process_workloads(self, workloads: Any) -> None:
        for workload in workloads:
            ti = workload.ti
            del self.queued_tasks[ti.key]
            self.running.add(ti.key)
            self.given[TaskKey(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)] = ti


def _guarded(app: Any) -> Any:
    """The API for tasks behind Louver's middleware, as an API server has it below its own root."""
    root = "/execution"

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "path": scope["path"].removeprefix(root)}, receive, send)

    guard = HitlGuard(inner)

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await guard({**scope, "path": root + scope["path"]}, receive, send)
        else:
            await app(scope, receive, send)

    return outer


@cache
def _task_api() -> InProcessExecutionAPI:
    """One for all, as Airflow has: where it is thrown away it leaves its event loop open."""
    api = InProcessExecutionAPI()
    api.app.add_middleware(_guarded)
    return api


class AirflowByHand:
    """
    One Airflow for a module of tests.

    :param rows: its tables.
    :param pass_time: lets time pass; the test's clock.
    """

    def __init__(self, rows: AirflowRows, *, pass_time: Callable[[timedelta], None]) -> None:
        self.rows = rows
        self._pass_time = pass_time
        self._dags: dict[str, DAG] = {}
        self._executor = _Hand()
        job = Job()
        self._executor.callback_sink = DatabaseCallbackSink()
        self._scheduler = SchedulerJobRunner(job=job, executors=[self._executor], num_runs=1)
        with create_session(scoped=False) as session:
            session.add(job)
            session.flush()
        self._web = TestClient(create_app(apps="core"), raise_server_exceptions=True)

    @classmethod
    @contextmanager
    def up(cls, *, pass_time: Callable[[timedelta], None]) -> Iterator[AirflowByHand]:
        """It, with empty tables; they are empty again afterwards."""
        with pytest.MonkeyPatch.context() as patch:
            # Else one is made that is shorter than what its own library asks for.
            patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "s" * 64)
            # A step that does not react is ended by ending its process, which here is everybody's.
            patch.setattr("louver_provider.runtime.watching", lambda interval: None)
            # Ids of Airflow's rows begin with the time and never go back; the test's time does.
            patch.setattr("uuid6._last_v7_timestamp", None)
            patch.setattr("airflow.sdk.execution_time.supervisor.in_process_api_server", _task_api)
            rows = AirflowRows()
            yield cls(rows, pass_time=pass_time)
            rows.clear()

    def deploy(self, dag: DAG) -> None:
        """Make the Dag known, and let it run."""
        self.rows.deploy(dag)
        self._dags[dag.dag_id] = dag
        with create_session(scoped=False) as session:
            session.execute(update(DagModel).where(DagModel.dag_id == dag.dag_id).values(is_paused=False))

    def empty(self) -> None:
        """All runs are gone, and what the executor had of them."""
        self.rows.clear()
        self._executor.given.clear()
        self._executor.queued_tasks.clear()
        self._executor.running.clear()
        self._executor.event_buffer.clear()

    # People

    @property
    def web(self) -> TestClient:
        """The whole API server, as a browser or a program sees it."""
        return self._web

    def token(self, user: str, *, role: str = "admin", seconds: int | None = None) -> str:
        """A login; it lasts so long."""
        given = {} if seconds is None else {"expiration_time_in_seconds": seconds}
        return get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role=role), **given)

    def ask(self, user: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """A request of a person to the public API."""
        # A new token each time: they expire, and here days pass.
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role="admin"))
        headers = {"Authorization": f"Bearer {token}"}
        return self._web.request(method, f"/api/v2{path}", json=body, headers=headers)

    def trigger(
        self,
        user: str,
        key: RunKey,
        *,
        logical_date: datetime | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """A person starts a run; without a logical date the command line cannot clear it."""
        when = None if logical_date is None else logical_date.isoformat()
        body = {"dag_run_id": key.run_id, "logical_date": when, "conf": dict(conf or {})}
        made = self.ask(user, "POST", f"/dags/{key.dag_id}/dagRuns", body)
        assert made.status_code == 200, made.text

    def cli(self, *arguments: str) -> None:
        """A person uses Airflow's command line, on this machine."""
        parsed = cli_parser.get_parser().parse_args(arguments)
        parsed.func(parsed)

    # The scheduler

    def schedule(self) -> None:
        """One round of the scheduler."""
        with create_session(scoped=False) as session:
            self._scheduler._do_scheduling(session)
        self._executor.heartbeat()
        with create_session(scoped=False) as session:
            self._scheduler._process_executor_events(self._executor, session)

    def miss_heartbeats(self) -> None:
        """The scheduler looks for tasks whose supervisors give no sign of life."""
        with create_session(scoped=False) as session:
            self._scheduler._find_and_purge_task_instances_without_heartbeats()
            session.commit()
        self.schedule()

    def waiting(self) -> list[TaskKey]:
        """Tasks that a worker could take up."""
        return sorted(self._executor.given)

    # Workers

    def work(self, key: TaskKey) -> str:
        """
        A worker takes the task up, and lives it to the end of its process.

        :returns: how it ended, in Airflow's word; ``refused`` where Airflow does not want it any more.
        """
        ti = self._executor.given.pop(key)
        try:
            result = InProcessTestSupervisor.start(what=ti, task=self._task(key))
        except ServerResponseError:
            self._executor.success(ti.key)
            return "refused"
        self._executor.success(ti.key)
        return str(getattr(result.state, "value", result.state))

    def work_and_die(self, key: TaskKey) -> None:
        """A worker takes the task up; its code raises :class:`Killed`, and nobody reports anything."""
        ti = self._executor.given.pop(key)
        supervisor = InProcessTestSupervisor(
            id=ti.id,
            pid=os.getpid(),
            process=psutil.Process(),
            process_log=structlog.get_logger(),
            client=InProcessTestSupervisor._api_client(),
        )
        supervisor.comms = InProcessSupervisorComms(supervisor=supervisor)
        with set_supervisor_comms(supervisor.comms):
            began = datetime.now(timezone.utc)
            told = supervisor.client.task_instances.start(ti.id, os.getpid(), began)
            running = RuntimeTaskInstance.model_construct(
                **ti.model_dump(exclude_unset=True),
                task=self._task(key),
                _ti_context_from_server=told,
                max_tries=told.max_tries,
                start_date=began,
            )
            # Where it ends before its code is reached, the report of that is lost.
            with suppress(Killed, Exception):
                self._task(key).execute(running.get_template_context())
        row = self.task(key)
        # A process that Airflow itself has ended is no surprise to the executor.
        report = self._executor.fail if row and row.state == "running" else self._executor.success
        report(ti.key)

    def _task(self, key: TaskKey) -> Any:
        return self._dags[key.dag_id].get_task(key.task_id)

    def start_only(self, key: TaskKey) -> None:
        """A worker takes the task up, and its machine dies before anything of it runs."""
        ti = self._executor.given.pop(key)
        client = InProcessTestSupervisor._api_client()
        client.task_instances.start(ti.id, psutil.Process(os.getpid()).pid, datetime.now(timezone.utc))

    def forget(self, key: TaskKey) -> None:
        """The executor loses a task that no worker has taken up."""
        self._executor.fail(self._executor.given.pop(key).key)

    # What is there

    def task(self, key: TaskKey) -> TaskInstance | None:
        """The task's row."""
        with create_session(scoped=False) as session:
            found = session.scalars(
                select(TaskInstance).filter_by(
                    dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id, map_index=key.map_index
                )
            ).one_or_none()
            session.expunge_all()
        return found

    def run(self, key: RunKey) -> DagRun | None:
        """The run's row."""
        with create_session(scoped=False) as session:
            found = session.scalars(
                select(DagRun).filter_by(dag_id=key.dag_id, run_id=key.run_id)
            ).one_or_none()
            session.expunge_all()
        return found

    def pass_time(self, time: timedelta) -> None:
        """Time passes."""
        self._pass_time(time)
