"""
Workflows that fail fast, and mapped steps one index of which fails, on a real Airflow (rows T15, W8, W13).

The runs begin together; each test looks at what it needs of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow_home import AirflowHome
from support.airflow_control import Control, controlled

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, RunKey, TaskKey

pytestmark = pytest.mark.integration

FAST, MAPPED = "failing_fast", "mapped_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    fast: str
    mapped: str


@pytest.fixture(scope="module")
def control(airflow: AirflowHome) -> Iterator[Control]:
    with controlled(airflow, dags=[FAST, MAPPED]) as found:
        yield found


@pytest.fixture(scope="module")
def runs(control: Control) -> Runs:
    """Both begun; in the one everybody is where it is to be hit by the failure, which comes then."""
    found = Runs(fast=control.start(FAST), mapped=control.start(MAPPED))
    control.await_state(FAST, found.fast, "awaiting_input", "ask")
    for name in ("busy", "deaf"):
        control.await_state(FAST, found.fast, "running", name)
    control.home.wait_for(
        "the effect", lambda: effects(control, found.fast) == [("reserve", "committed")], timeout=60
    )
    touch(control.home.path / "broken", found.fast)
    return found


def touch(folder: Path, run_id: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / run_id).touch()


@contextmanager
def ledger_of(control: Control) -> Iterator[Ledger]:
    key = (control.home.path / "louver_signing_key").read_text().strip()
    with open_ledger(control.home.ledger_url, key) as ledger:
        yield ledger


def effects(control: Control, run_id: str) -> list[tuple[str, str]]:
    with ledger_of(control) as ledger:
        found = ledger.list_effects(RunKey(FAST, run_id))
    return [(one.name, str(one.state)) for one in found if one.kind is EffectKind.FORWARD]


def states(control: Control, run_id: str) -> dict[str, str]:
    _, (run,) = control.louver("workflow", "status", run_id)
    return {node["node"]: node["state"] for node in run["nodes"] if node["node"] != "compensate"}


def result(control: Control, dag_id: str, run_id: str, name: str, index: int = -1) -> Any:
    with ledger_of(control) as ledger:
        return ledger.load_result(TaskKey(dag_id, run_id, name, index))


def commands(control: Control, run: RunKey) -> set[tuple[str, str, str]]:
    with ledger_of(control) as ledger:
        return {(one.task_id, str(one.verb), str(one.state)) for one in ledger.list_commands(run)}


def test_a_failing_index_is_told_by_its_place(control: Control, runs: Runs) -> None:
    run_id = runs.mapped
    assert control.ended(MAPPED, run_id) == "failed"
    assert states(control, run_id) == {
        "rows": "succeeded",
        "each": "failed",
        "total": "skipped",
        "tags": "succeeded",
    }
    assert result(control, MAPPED, run_id, "tags") == ["ok", "ok", "ok", "failed", "ok"]
    code, dead = control.louver("dead", "list", run_id)
    assert (code, [(row["step"], row["map_index"]) for row in dead]) == (0, [("each", "3")])


def test_that_index_alone_is_run_again(control: Control, runs: Runs) -> None:
    run_id = runs.mapped
    assert control.ended(MAPPED, run_id) == "failed"
    touch(control.home.path / "mended", run_id)

    code, rows = control.louver("dead", "retry", run_id, "each", "--reason", "mended", "--yes")

    assert (code, {row["became"] for row in rows}) == (0, {"cleared"})
    assert [row["map_index"] for row in rows if row["step"] == "each"] == ["3"]
    assert control.ended(MAPPED, run_id) == "success"
    assert set(states(control, run_id).values()) == {"succeeded"}
    assert result(control, MAPPED, run_id, "total") == 20
    assert result(control, MAPPED, run_id, "tags") == ["ok"] * 5
    began = [row["map_index"] for row in control.trail(run_id, "each") if row["to"] == "running"]
    assert sorted(began) == ["0", "1", "2", "3", "3", "4"]
    assert control.louver("verify", run_id)[0] == 0


def test_a_failure_ends_all_others_before_anything_is_undone(control: Control, runs: Runs) -> None:
    run_id = runs.fast
    assert control.ended(FAST, run_id) == "failed"
    assert states(control, run_id) == {
        "ask": "cancelled",
        "pay": "cancelled",
        "busy": "cancelled",
        "deaf": "cancelled",
        "bad": "failed",
        "last": "cancelled",
    }
    colours = control.rest.task_states(FAST, run_id)
    assert {name: colours[name] for name in ("ask", "busy", "deaf", "bad")} == {
        "ask": "skipped",
        "busy": "skipped",
        "deaf": "skipped",
        "bad": "failed",
    }
    assert {colours[name] for name in ("pay", "last")} <= {"skipped", "upstream_failed"}
    assert effects(control, run_id) == [("reserve", "undone")]
    code, (run,) = control.louver("workflow", "status", run_id)
    assert (code, run["state"]) == (3, "failed_compensated")
    told = commands(control, RunKey(FAST, run_id))
    assert told == {(name, "cancel", "done") for name in ("ask", "busy", "deaf")}
    began = [row["at"] for row in control.trail(run_id, "compensate") if row["to"] == "running"]
    over = [control.trail(run_id, name)[-1]["at"] for name in ("ask", "busy", "deaf")]
    assert max(over) <= min(began)


def test_what_was_cancelled_can_be_run_again(control: Control, runs: Runs) -> None:
    run_id = runs.fast
    assert control.ended(FAST, run_id) == "failed"
    touch(control.home.path / "mended", run_id)

    path = f"/api/v2/dags/{FAST}/dagRuns/{run_id}/clear"
    control.rest.request("POST", path, {"dry_run": False, "only_failed": False}).expect(200)

    control.await_state(FAST, run_id, "awaiting_input", "ask")
    control.rest.answer(FAST, run_id, "ask", "Approve").expect(200)
    assert control.ended(FAST, run_id) == "success"
    assert set(states(control, run_id).values()) == {"succeeded"}
    assert result(control, FAST, run_id, "last") == "all of it"
    assert sorted(effects(control, run_id)) == [("reserve", "committed"), ("reserve", "undone")]
    assert control.louver("verify", run_id)[0] == 0
