"""A step that failed for good, on a real Airflow: found, and run again once what it needs is mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.airflow_control import Control, controlled

pytestmark = pytest.mark.integration

MENDING = "mending"


@pytest.fixture(scope="module")
def control(airflow: Any) -> Iterator[Control]:
    with controlled(airflow, dags=[MENDING]) as found:
        yield found


@pytest.fixture(scope="module")
def failed(control: Control) -> dict[bool, str]:
    """Two runs that failed for good; one of them did something, which is undone."""
    runs = {pays: control.start(MENDING, pays=pays) for pays in (False, True)}
    for run_id in runs.values():
        assert control.ended(MENDING, run_id) == "failed"
    return runs


def mend(control: Control, run_id: str) -> None:
    folder = control.home.path / "mended"
    folder.mkdir(exist_ok=True)
    (folder / run_id).touch()


def dead(control: Control, *arguments: str) -> list[tuple[str, str, str, str]]:
    code, rows = control.louver("dead", "list", *arguments)
    assert code == 0, rows
    return [(row["run_id"], row["step"], row["kind"], row["attempts"]) for row in rows]


def test_a_dead_step_is_listed_retried_and_succeeds(control: Control, failed: dict[bool, str]) -> None:
    run_id = failed[False]
    assert dead(control, run_id) == [(run_id, "work", "exception", "2")]
    assert (run_id, "work", "exception", "2") in dead(control, "--dag-id", MENDING, "--since", "1h")
    code, (run,) = control.louver("workflow", "status", run_id)
    assert (code, run["state"]) == (3, "failed")
    assert [(node["node"], node["state"], node["attempt"]) for node in run["nodes"][:3]] == [
        ("prepare", "succeeded", 1),
        ("work", "failed", 2),
        ("finish", "skipped", 0),
    ]

    mend(control, run_id)
    code, rows = control.louver("dead", "retry", run_id, "work", "--reason", "a new disk", "--yes")

    assert (code, {row["became"] for row in rows}) == (0, {"cleared"})
    assert sorted(row["step"] for row in rows) == ["compensate", "finish", "outcome", "work"]
    assert dead(control, run_id) == []
    assert control.ended(MENDING, run_id) == "success"
    trail = control.trail(run_id)
    (clear,) = [row for row in trail if row["trigger"] == "user:cleared"]
    assert (clear["source"], clear["reason"]) == ("cli", "dead retry: a new disk")
    assert (trail[-1]["to"], trail[-1]["generation"]) == ("succeeded", "2")
    assert [row["to"] for row in control.trail(run_id, "prepare")].count("running") == 1
    code, (run,) = control.louver("workflow", "status", run_id)
    assert (code, run["state"]) == (0, "succeeded")
    assert control.louver("workflow", "resume", run_id) == (0, [])
    code, rows = control.louver("dead", "retry", run_id, "work", "--reason", "once more", "--yes")
    assert (code, "retried already" in rows[0]["said"]) == (1, True)
    assert control.louver("verify", run_id)[0] == 0


def test_what_was_undone_has_to_be_done_again_first(control: Control, failed: dict[bool, str]) -> None:
    run_id = failed[True]
    mend(control, run_id)
    code, (said,) = control.louver("dead", "retry", run_id, "--reason", "a new disk", "--yes")
    assert (code, "what prepare did is undone" in said["said"]) == (1, True)
    assert control.rest.run_state(MENDING, run_id) == "failed"

    code, rows = control.louver("dead", "retry", run_id, "--upstream", "--reason", "a new disk", "--yes")

    assert (code, rows[0]["step"], rows[1]["step"]) == (0, "work", "prepare")
    assert control.ended(MENDING, run_id) == "success"
    code, effects = control.louver("effects", "list", run_id, "--state", "committed,undone")
    assert sorted((row["kind"], row["state"]) for row in effects) == [
        ("forward", "committed"),
        ("forward", "undone"),
        ("undo", "committed"),
    ]
    assert control.louver("status", run_id)[1][0]["state"] == "succeeded"


def test_the_workflows_that_airflow_knows_are_listed(control: Control, failed: dict[bool, str]) -> None:
    code, rows = control.louver("workflow", "list")
    (mending,) = [row for row in rows if row["workflow"] == MENDING]
    assert (code, mending["version"], mending["nodes"], mending["paused"]) == (0, "1.0.0", "3", "no")
    assert mending["last_run"] in failed.values()
