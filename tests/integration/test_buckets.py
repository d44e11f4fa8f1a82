"""Buckets on a real Airflow: whoever starts a run, whatever becomes of its tasks, they stay in its bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow_home import AirflowHome
from support.airflow_bucketed import OWNERS, bucketed_home

from louver.buckets.policy import BucketPolicy, pool_name

pytestmark = pytest.mark.integration

DAG = "bucketed"
TENANT_A = "bucket_07"
TENANT_B = "bucket_28"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    with bucketed_home(tmp_path_factory.mktemp("bucketed")) as home:
        yield home


def tasks(airflow: AirflowHome, run_id: str) -> list[dict[str, Any]]:
    path = f"/api/v2/dags/{DAG}/dagRuns/{run_id}/taskInstances?limit=100"
    found: list[dict[str, Any]] = airflow.rest.get(path)["task_instances"]
    return found


def ended(airflow: AirflowHome, run_id: str) -> None:
    state = airflow.wait_for(
        f"the end of {run_id}",
        lambda: (found := airflow.rest.run_state(DAG, run_id)) in ("success", "failed") and found,
        timeout=180,
    )
    assert state == "success"


def pools(airflow: AirflowHome, run_id: str) -> set[str]:
    """Of all its tasks but the one with a pool of its own; of all their tries."""
    found = tasks(airflow, run_id)
    assert {task["pool"] for task in found if task["task_id"] == "own"} == {"own"}
    path = f"/api/v2/dags/{DAG}/dagRuns/{run_id}/taskInstances/retried/tries"
    tries = airflow.rest.get(path)["task_instances"]
    return {task["pool"] for task in [*found, *tries] if task["task_id"] != "own"}


def events(airflow: AirflowHome, event: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.rest.get(f"/api/v2/eventLogs?event={event}")["event_logs"]
    return found


def test_the_doctor_proves_that_every_component_routes(airflow: AirflowHome) -> None:
    done = airflow.cli("louver", "doctor", "--all", "--output", "json")
    rows = json.loads(done.stdout)
    routed = [
        row["what"].split(" on ")[0] for row in rows if (row["level"], row["check"]) == ("ok", "policy")
    ]
    # Two API servers: one for people and one for task processes.
    assert sorted(routed) == ["api-server", "api-server", "scheduler", "this command"]
    # Nobody owns the last three buckets.
    assert done.code == 3, done.stdout
    (wrong,) = [row for row in rows if row["level"] == "error"]
    assert wrong["what"].startswith("nobody owns buckets 61-63")


def test_the_scheduler_has_made_the_pools(airflow: AirflowHome) -> None:
    found = airflow.rest.get("/api/v2/pools?limit=100")["pools"]
    slots = {pool["name"]: (pool["slots"], pool["include_deferred"]) for pool in found}
    assert [slots[pool_name(bucket)] for bucket in range(64)] == [(2, False)] * 64
    assert slots["default_pool"] == (128, False)


def test_a_run_stays_in_its_bucket_through_retry_mapping_and_clear(airflow: AirflowHome) -> None:
    run_id = airflow.rest.trigger(DAG, {"tenant": "tenant-A"})
    ended(airflow, run_id)
    assert pools(airflow, run_id) == {TENANT_A}
    assert {task["queue"] for task in tasks(airflow, run_id)} == {"node-a"}
    assert sorted(task["map_index"] for task in tasks(airflow, run_id) if task["task_id"] == "mapped") == [
        0,
        1,
        2,
    ]

    path = f"/api/v2/dags/{DAG}/dagRuns/{run_id}/clear"
    airflow.rest.request("POST", path, {"dry_run": False, "only_failed": False}).expect(200)
    ended(airflow, run_id)
    assert pools(airflow, run_id) == {TENANT_A}
    assert {task["try_number"] for task in tasks(airflow, run_id)} >= {2}


def test_a_run_of_the_command_line_is_in_its_bucket_and_stays_there_when_cleared(
    airflow: AirflowHome,
) -> None:
    started = airflow.cli("dags", "trigger", DAG, "--run-id", "by-cli", "--conf", '{"tenant": "tenant-B"}')
    assert started.code == 0, started.stderr
    ended(airflow, "by-cli")
    assert pools(airflow, "by-cli") == {TENANT_B}

    cleared = airflow.cli("tasks", "clear", DAG, "--task-regex", "numbers", "--downstream", "--yes")
    assert cleared.code == 0, cleared.stderr
    ended(airflow, "by-cli")
    assert pools(airflow, "by-cli") == {TENANT_B}


@pytest.mark.parametrize("key", ["", None, ["tenant-A"], "x" * 2**20])
def test_a_bad_key_is_refused_by_the_api(airflow: AirflowHome, key: Any) -> None:
    body = {"logical_date": None, "conf": {"tenant": key}}
    answer = airflow.rest.request("POST", f"/api/v2/dags/{DAG}/dagRuns", body)
    assert answer.status == 422
    assert "conf.tenant: the bucket key" in json.dumps(answer.body)


def test_a_bucket_that_nobody_owns_is_refused_by_the_api(airflow: AirflowHome) -> None:
    policy = BucketPolicy.of(64)
    orphan = next(key for key in map(str, range(10_000)) if (policy.bucket(key) or 0) > 60)
    body = {"logical_date": None, "conf": {"tenant": orphan}}
    answer = airflow.rest.request("POST", f"/api/v2/dags/{DAG}/dagRuns", body)
    assert answer.status == 422
    assert OWNERS in json.dumps(answer.body)


def test_a_bad_key_that_nobody_could_refuse_is_audited_and_the_run_ends_well(airflow: AirflowHome) -> None:
    started = airflow.cli("dags", "trigger", DAG, "--run-id", "bad", "--conf", '{"tenant": null}')
    assert started.code == 0, started.stderr
    ended(airflow, "bad")
    assert pools(airflow, "bad") == {"default_pool"}
    (entry,) = events(airflow, "louver_bucket_key_refused")
    assert (entry["dag_id"], entry["run_id"]) == (DAG, "bad")
    assert "must be a string or an integer, not null" in entry["extra"]
    told = airflow.cli("louver", "history", "bad", "--output", "json").json()
    (row,) = [row for row in told if row["trigger"] == "louver:bucket_key_refused"]
    assert "not null; " in row["reason"]


def test_a_pool_that_is_deleted_comes_back_and_what_waited_for_it_runs(airflow: AirflowHome) -> None:
    """Case A01, by the reconciler that the scheduler brings with it; another bucket waits for nothing."""
    airflow.rest.request("DELETE", f"/api/v2/pools/{TENANT_A}").expect(204)
    waits = airflow.rest.trigger(DAG, {"tenant": "tenant-A"})
    beside = airflow.rest.trigger(DAG, {"tenant": "tenant-B"})
    ended(airflow, beside)
    ended(airflow, waits)
    assert pools(airflow, waits) == {TENANT_A}
    made = [entry for entry in events(airflow, "louver_pool_made") if TENANT_A in entry["extra"]]
    assert [json.loads(entry["extra"])["slots"] for entry in made] == [2]


def test_a_drained_bucket_holds_its_tasks_and_is_shown_as_drained(airflow: AirflowHome) -> None:
    drain = airflow.cli("pools", "set", TENANT_B, "0", "Louver bucket 28")
    assert drain.code == 0, drain.stderr
    held = airflow.rest.trigger(DAG, {"tenant": "tenant-B"})
    free = airflow.rest.trigger(DAG, {"tenant": "tenant-A"})
    ended(airflow, free)

    shown = airflow.cli("louver", "buckets", "--busy", "--output", "json")
    (row,) = [row for row in json.loads(shown.stdout) if row["bucket"] == "28"]
    assert (row["state"], row["owner"], row["slots"], row["taken"]) == ("drained", "node-b", "0", "0")
    assert int(row["waiting"]) > 0
    assert airflow.rest.run_state(DAG, held) == "running"

    assert airflow.cli("louver", "buckets", "apply", "--undrain").code == 0
    ended(airflow, held)
    assert pools(airflow, held) == {TENANT_B}
