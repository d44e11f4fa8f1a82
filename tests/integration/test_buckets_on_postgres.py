"""Buckets where Airflow's database is on Postgres: the stories whose way leads through what differs there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

# A story is told by its test, wherever it happens; pytest gives it the fixtures of this file.
from integration.test_buckets import (
    DAG,
    TENANT_A,
    TENANT_B,
    ended,
    pools,
    test_a_bad_key_that_nobody_could_refuse_is_audited_and_the_run_ends_well,
    test_a_drained_bucket_holds_its_tasks_and_is_shown_as_drained,
    test_a_run_stays_in_its_bucket_through_retry_mapping_and_clear,
    test_the_doctor_proves_that_every_component_routes,
    test_the_scheduler_has_made_the_pools,
)
from support.airflow_bucketed import EPOCHS, bucketed_home, restarted, set_slots, task_instances
from support.airflow_on_postgres import postgres_settings

from louver.buckets.policy import BucketPolicy, pool_name

if TYPE_CHECKING:
    from airflow_home import AirflowHome
    from support.postgres import PostgresServer

pytestmark = pytest.mark.integration

__all__ = [
    "test_a_bad_key_that_nobody_could_refuse_is_audited_and_the_run_ends_well",
    "test_a_drained_bucket_holds_its_tasks_and_is_shown_as_drained",
    "test_a_run_stays_in_its_bucket_through_retry_mapping_and_clear",
    "test_the_doctor_proves_that_every_component_routes",
    "test_the_scheduler_has_made_the_pools",
]

CROWD = "crowd"


@pytest.fixture(scope="module")
def airflow(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    settings = postgres_settings(postgres)
    with bucketed_home(tmp_path_factory.mktemp("buckets-on-postgres"), settings) as home:
        yield home


def test_the_clocks_are_compared_with_the_servers(airflow: AirflowHome) -> None:
    shown = airflow.cli("louver", "doctor", "--all", "--output", "plain")
    assert "4 clocks are within 2 s of the database's" in shown.stdout


def times(airflow: AirflowHome, run_id: str) -> list[tuple[datetime, datetime]]:
    """Start and end of all tasks of a run of the crowd, in the order of their starts."""
    found = task_instances(airflow, CROWD, run_id)
    assert {task["state"] for task in found} == {"success"}
    return sorted(
        (datetime.fromisoformat(task["start_date"]), datetime.fromisoformat(task["end_date"]))
        for task in found
    )


def test_a_noisy_tenant_has_one_task_at_a_time_while_the_others_go_on(airflow: AirflowHome) -> None:
    set_slots(airflow, TENANT_A, 1)
    noisy = airflow.rest.trigger(CROWD, {"tenant": "tenant-A", "parts": 8, "seconds": 0.4})
    # All of it wants to run now.
    airflow.wait_for(
        "a crowd",
        lambda: [task["state"] for task in task_instances(airflow, CROWD, noisy)].count("scheduled") > 5,
    )
    quiet = [
        airflow.rest.trigger(CROWD, {"tenant": "tenant-B", "parts": 1, "seconds": 0.1}) for _ in range(2)
    ]
    for run_id in (noisy, *quiet):
        airflow.wait_for(
            f"the end of {run_id}",
            lambda run_id=run_id: airflow.rest.run_state(CROWD, run_id) == "success",
            timeout=180,
        )
    crowd = times(airflow, noisy)
    assert len(crowd) == 9
    assert all(end <= start for (_, end), (start, _) in pairwise(crowd))
    # Not after the crowd: none of their tasks had to wait for its last.
    last, _ = crowd[-1]
    for run_id in quiet:
        assert all(start < last for start, _ in times(airflow, run_id))
    set_slots(airflow, TENANT_A, 2)


# The last one of this file: afterwards the Airflow is stopped.
def test_a_new_number_of_buckets_moves_no_run_that_has_begun(airflow: AirflowHome) -> None:
    set_slots(airflow, TENANT_B, 0)
    begun = airflow.rest.trigger(DAG, {"tenant": "tenant-B"})

    def states(home: AirflowHome) -> dict[str, str | None]:
        return {task["task_id"]: task["state"] for task in task_instances(home, DAG, begun)}

    held = {"retried": "scheduled", "numbers": "scheduled", "mapped": None, "own": None}
    airflow.wait_for("tasks that are held", lambda: states(airflow) == held)

    since = (datetime.now(timezone.utc) + timedelta(seconds=1)).isoformat(timespec="seconds")
    epochs = f"{EPOCHS}, {since}:40"
    moved = pool_name(BucketPolicy.parse(epochs).bucket("tenant-B") or 0)
    assert moved != TENANT_B
    with restarted(airflow, epochs) as changed:
        shown = changed.cli("louver", "buckets", "--busy", "--output", "json")
        (row,) = json.loads(shown.stdout)
        assert (row["pool"], row["state"], row["waiting"]) == (TENANT_B, "drained", "2")
        assert states(changed) == held

        new = changed.rest.trigger(DAG, {"tenant": "tenant-B"})
        set_slots(changed, TENANT_B, 2)
        for run_id in (begun, new):
            ended(changed, run_id)
        # With a retry, and with mapped tasks that were made only now.
        assert pools(changed, begun) == {TENANT_B}
        assert pools(changed, new) == {moved}
