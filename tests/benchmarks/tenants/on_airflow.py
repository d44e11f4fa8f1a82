"""A real Airflow with buckets, the phases on it one after the other, and what it recorded of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg2
from airflow_home import AirflowHome
from support.airflow_bucketed import set_slots

from benchmarks.tenants.load import BUCKETS, NOISY, Extent, planned
from benchmarks.tenants.results import Phase, TaskTimes
from louver.buckets.policy import BucketPolicy, pool_name

__all__ = ["measure", "tenants_airflow"]

Say = Callable[[str], None]

_DAG, _ONE_POOL = "crowd", "crowd_in_one_pool"
_DAG_FILE = Path(__file__).resolve().parents[2] / "integration" / "bucketed" / "crowds.py"
_DEFAULT_POOL = "default_pool"
_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_PACE = "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"
_SETTINGS = {
    "AIRFLOW__CORE__PARALLELISM": str(BUCKETS),
    "AIRFLOW__LOUVER__BUCKETS": str(BUCKETS),
    "AIRFLOW__LOUVER__BUCKET_SLOTS": "1",
    "AIRFLOW__LOUVER__BUCKET_KEY_BY_DAG": f'{{"{_ONE_POOL}": null}}',
}

# Submitting takes a while; until a phase begins, its runs wait for their date.
_SUBMIT_SECONDS = 0.15
_RUN_SECONDS = 2.0
_PATIENCE = 300.0

_OPEN = "SELECT count(*) FROM dag_run WHERE run_id LIKE %s AND state NOT IN ('success', 'failed')"
_TASKS = """
    SELECT run.run_id, run.conf, task.task_id, task.state, task.pool, greatest(run.run_after, run.created_at),
           task.scheduled_dttm, task.queued_dttm, task.start_date, task.end_date
    FROM task_instance AS task JOIN dag_run AS run USING (dag_id, run_id)
    WHERE run.run_id LIKE %s
"""


@contextmanager
def tenants_airflow(
    folder: Path, database: Mapping[str, str], say: Say, *, eager: bool
) -> Iterator[AirflowHome]:
    """
    The Airflow, running: as many slots in its default pool as there are tenants, and a bucket for each.

    :param folder: its home.
    :param database: environment variables that say where its databases are; on Postgres.
    :param eager: its scheduler looks for work ten times as often as Airflow's does by default.
    """
    pace = {_PACE: "0.1" if eager else "1"}
    home = AirflowHome(folder, settings={**database, **_SETTINGS, **pace}, say=say)
    home.prepare()
    shutil.copy(_DAG_FILE, home.own_dags)
    with home.kept_running(dags=[_DAG, _ONE_POOL]):
        set_slots(home, _DEFAULT_POOL, BUCKETS)
        # The first tasks of an Airflow are slower than all that follow.
        run_phase(home, Extent(noisy_tasks=2, runs=1, period=1.0), "warm", noisy=True, say=say)
        yield home


def measure(home: AirflowHome, extent: Extent, say: Say) -> tuple[Phase, Phase, Phase]:
    """The quiet tenants alone, beside the noisy one, and the same without buckets."""
    say("the quiet tenants alone, in buckets")
    alone = run_phase(home, extent, "alone", noisy=False, say=say)
    say(f"beside {NOISY} with {extent.noisy_tasks} tasks, in buckets")
    bucketed = run_phase(home, extent, "buckets", noisy=True, say=say)
    say("the same in one pool")
    one_pool = run_phase(home, extent, "one pool", noisy=True, say=say, dag_id=_ONE_POOL)
    return alone, bucketed, one_pool


def run_phase(
    home: AirflowHome, extent: Extent, name: str, *, noisy: bool, say: Say, dag_id: str = _DAG
) -> Phase:
    """
    Submit all runs, wait for their end, and read what Airflow recorded.

    :raises RuntimeError: where a task did not succeed, or was in another pool than its tenant's.
    """
    runs, mark = list(planned(extent, noisy=noisy)), name.replace(" ", "-")
    begins = datetime.now(timezone.utc) + timedelta(seconds=_RUN_SECONDS + _SUBMIT_SECONDS * len(runs))
    for number, run in enumerate(runs):
        moment = (begins + timedelta(seconds=run.after)).isoformat()
        body = {
            "dag_run_id": f"{mark}-{number}",
            # Both: it begins at this moment, and slots are given in the order of these dates.
            "run_after": moment,
            "logical_date": moment,
            "conf": {"tenant": run.tenant, "parts": run.tasks - 1, "seconds": extent.seconds},
        }
        home.rest.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", body).expect(200)
    late = (datetime.now(timezone.utc) - begins).total_seconds()
    if late > 0:
        say(f"  the last run was submitted {late:.0f} s after the first was to begin")
    patience = _PATIENCE + max(run.after for run in runs) + _RUN_SECONDS * extent.noisy_tasks
    ended = f"{mark}-%"
    # Seldom: each look is work for the machine that is measured.
    home.wait_for(
        f"the end of phase {name}",
        lambda: _ask(home, _OPEN, ended) == [(0,)],
        timeout=patience,
        every=2.0,
    )
    phase = Phase(name=name, tasks=tuple(_tasks(home, ended, bucketed=dag_id == _DAG)))
    if len(phase.tasks) != sum(run.tasks for run in runs):
        raise RuntimeError(f"phase {name} had {len(phase.tasks)} tasks")
    return phase


def _tasks(home: AirflowHome, runs: str, *, bucketed: bool) -> Iterator[TaskTimes]:
    policy, rows = BucketPolicy.of(BUCKETS), _ask(home, _TASKS, runs)
    # The first task of a run is ready with it, all others at the end of the first.
    listed = {run_id: row[-1] for run_id, _, task_id, *row in rows if task_id == "parts"}
    for run_id, conf, task_id, state, pool, created, scheduled, queued, started, ended in rows:
        tenant = conf["tenant"]
        expected = pool_name(policy.bucket(tenant) or 0) if bucketed else _DEFAULT_POOL
        if (state, pool) != ("success", expected):
            raise RuntimeError(f"{task_id} of {run_id} is {state} in {pool}, and should be in {expected}")
        yield TaskTimes(
            tenant=tenant,
            pool=pool,
            ready=created if task_id == "parts" else listed[run_id],
            scheduled=scheduled,
            queued=queued,
            started=started,
            ended=ended,
        )


def _ask(home: AirflowHome, question: str, *values: Any) -> list[tuple[Any, ...]]:
    """Of Airflow's own tables."""
    url = home.env()[_DATABASE].replace("postgresql+psycopg2", "postgresql", 1)
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(question, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
