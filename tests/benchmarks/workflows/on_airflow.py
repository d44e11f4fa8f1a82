"""Runs of workflows and of plain Dags on a real Airflow, in turns, as Airflow records them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow_home import AirflowHome
from airflow_rest import FINISHED

from benchmarks.frame import say
from benchmarks.workflows.results import LOUVER, PLAIN, RunTimes, Shape

__all__ = ["measure_shape", "workflows_airflow"]

_DAGS = ("louver_chain", "plain_chain", "louver_wide", "plain_wide")
_RUN_SECONDS = 600.0


@contextmanager
def workflows_airflow(folder: Path, settings: Mapping[str, str]) -> Iterator[AirflowHome]:
    """
    A running Airflow with the Dags of the benchmark, tuned as it is shipped (``config/airflow.demo.env``).

    :param settings: environment variables for it.
    """
    home = AirflowHome(folder, settings=settings, say=say)
    home.prepare()
    shutil.copytree(Path(__file__).with_name("dags"), home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=_DAGS):
        yield home


def measure_shape(home: AirflowHome, name: str, suffix: str, *, store: str, steps: int, runs: int) -> Shape:
    """
    Runs of both kinds in turns; the first of each warms up.

    :param name: for people.
    :param suffix: of the Dags' names.
    :param steps: business steps one after the other.
    """
    taken: dict[str, list[RunTimes]] = {LOUVER: [], PLAIN: []}
    for number in range(runs + 1):
        for kind in (LOUVER, PLAIN) if number % 2 else (PLAIN, LOUVER):
            times = _run(home, f"{kind}_{suffix}")
            if number:
                taken[kind].append(times)
    return Shape(name=name, store=store, steps=steps, runs=taken)


def _run(home: AirflowHome, dag_id: str) -> RunTimes:
    run_id = home.rest.trigger(dag_id, {}, run_id=f"{dag_id}-{uuid4().hex[:8]}")

    def over() -> bool:
        return home.rest.run_state(dag_id, run_id) in FINISHED

    # Asked seldom: what the API server does for us it does not do for the tasks.
    home.wait_for(f"the end of {run_id}", over, timeout=_RUN_SECONDS, every=1.0)
    state = home.rest.run_state(dag_id, run_id)
    if state != "success":
        raise RuntimeError(f"{run_id} of {dag_id} is {state}: what it took means nothing")
    path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
    return RunTimes(
        tasks={
            (row["task_id"], row["map_index"]): (_moment(row["start_date"]), _moment(row["end_date"]))
            for row in home.rest.get(path)["task_instances"]
        }
    )


def _moment(text: Any) -> float:
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
