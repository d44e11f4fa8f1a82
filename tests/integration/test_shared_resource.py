"""
Two Dags share a resource of which there is one, on a real Airflow.

An Airflow of its own: at first it has no triggerer, and one of its processes is killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from support.airflow_sharing import DAGS, sharing_home, triggerer, uses

from louver.ledger import open_ledger
from louver.ledger.names import RunKey

if TYPE_CHECKING:
    from airflow_home import AirflowHome

pytestmark = pytest.mark.integration

SECONDS = 180.0


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    with sharing_home(tmp_path_factory.mktemp("sharing")) as home:
        yield home


def state(airflow: AirflowHome, dag_id: str, run_id: str) -> str | None:
    return airflow.rest.task_states(dag_id, run_id).get("use")


def stay(airflow: AirflowHome, dag_id: str, run_id: str) -> int:
    """Begin a run whose step stays inside until it is told to go; its process."""
    (airflow.path / f"stay-{run_id}").touch()
    airflow.rest.trigger(dag_id, {}, run_id=run_id)

    def inside() -> int | None:
        return next((process for run, process, _, went in uses(airflow) if run == run_id and not went), None)

    return int(airflow.wait_for(f"{run_id} to be inside", inside, timeout=SECONDS))


def go(airflow: AirflowHome, run_id: str) -> None:
    (airflow.path / f"stay-{run_id}").unlink()


def ended(airflow: AirflowHome, runs: dict[str, str]) -> None:
    for run_id, dag_id in runs.items():
        airflow.wait_for(
            f"the end of {run_id}",
            lambda dag_id=dag_id, run_id=run_id: airflow.rest.run_state(dag_id, run_id) == "success",
            timeout=SECONDS,
        )


def blocked(airflow: AirflowHome, dag_id: str, run_id: str) -> list[str]:
    with open_ledger(airflow.ledger_url) as ledger:
        return [str(row.to_state) for row in ledger.list_transitions(RunKey(dag_id, run_id), task_id="use")]


def test_without_a_triggerer_the_reconciler_wakes_who_has_its_turn(airflow: AirflowHome) -> None:
    stay(airflow, DAGS[0], "first")
    airflow.rest.trigger(DAGS[1], {}, run_id="second")
    airflow.wait_for("it to wait", lambda: state(airflow, DAGS[1], "second") == "deferred", timeout=SECONDS)

    go(airflow, "first")

    ended(airflow, {"first": DAGS[0], "second": DAGS[1]})
    assert blocked(airflow, DAGS[1], "second") == [
        *("queued", "starting", "blocked"),
        *("queued", "starting", "running", "succeeded"),
    ]


def test_never_two_at_once_though_one_is_killed_and_who_waits_holds_no_slot(airflow: AirflowHome) -> None:
    runs = {f"crowd-{number}": DAGS[number % 2] for number in range(6)}
    with triggerer(airflow):
        process = stay(airflow, runs["crowd-0"], "crowd-0")
        others = {run_id: dag_id for run_id, dag_id in runs.items() if run_id != "crowd-0"}
        for run_id, dag_id in others.items():
            airflow.rest.trigger(dag_id, {}, run_id=run_id)
        airflow.wait_for(
            "all others to wait",
            lambda: all(state(airflow, dag_id, run_id) == "deferred" for run_id, dag_id in others.items()),
            timeout=SECONDS,
        )
        pool = airflow.rest.get("/api/v2/pools/default_pool")
        assert (pool["deferred_slots"], pool["occupied_slots"]) == (5, 1)

        os.kill(process, signal.SIGKILL)
        killed_at = time.monotonic()
        go(airflow, "crowd-0")
        ended(airflow, runs)

    crowd = [use for use in uses(airflow) if use[0] in runs]
    assert len(crowd) == 7
    assert [use[1] for use in crowd if use[3] is None] == [process]
    times = [(came, went or killed_at) for _, _, came, went in crowd]
    assert all(went <= came for (_, went), (came, _) in pairwise(times))
    with open_ledger(airflow.ledger_url) as ledger:
        assert ledger.list_permits() == []
