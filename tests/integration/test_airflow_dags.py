"""``@workflow`` and ``@task.step`` on a real Airflow, and Airflow's own operators beside steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectState, RunKey, TaskKey

pytestmark = pytest.mark.integration

DAGS = {"decorated", "gated", "softly_gated", "guarded", "plain_steps", "unclosed_steps"}
SECONDS = 300.0


@pytest.fixture(scope="module")
def begun(airflow: Any) -> dict[str, str]:
    """Runs by name, all begun at once."""
    airflow.wait_for("the Dags", lambda: airflow.rest.dag_ids() >= DAGS)
    wanted = {
        "priced": ("decorated", {"source": "shop", "rows": 4}),
        "partly": ("decorated", {"source": "broken", "rows": 3}),
        "left": ("gated", {}),
        "closed": ("gated", {"gate": "closed"}),
        "broken": ("gated", {"gate": "broken"}),
        "softly": ("softly_gated", {"gate": "closed"}),
        "sound_door": ("guarded", {}),
        "broken_door": ("guarded", {"door": "broken"}),
        "shipped": ("plain_steps", {}),
        "unshipped": ("plain_steps", {"fail": "yes"}),
        "unclosed": ("unclosed_steps", {}),
    }
    for run_id, (dag_id, conf) in wanted.items():
        airflow.rest.trigger(dag_id, conf, run_id=run_id)
    (airflow.path / "enough-unshipped").touch()
    return {run_id: dag_id for run_id, (dag_id, _) in wanted.items()}


@pytest.fixture(scope="module")
def ended(
    airflow: Any, orders: Any, begun: dict[str, str]
) -> Callable[[str], tuple[str, dict[str, str], dict[str, Any]]]:
    """Wait for the end of a run: Airflow's word for it, its tasks' colours, and what the ledger holds."""

    def wait(run_id: str) -> tuple[str, dict[str, str], dict[str, Any]]:
        dag_id = begun[run_id]

        def over() -> str | None:
            state = orders.rest.run_state(dag_id, run_id)
            return state if state in ("success", "failed") else None

        # All of them go on at once.
        state = str(airflow.wait_for(f"the end of {run_id}", over, timeout=SECONDS))
        status = orders.status(run_id)
        steps = {step["step"]: step["state"] for step in status["steps"]}
        return state, orders.rest.task_states(dag_id, run_id), {"run": status["state"], **steps}

    return wait


@pytest.fixture
def ledger(airflow: Any) -> Iterator[Ledger]:
    key = (airflow.path / "louver_signing_key").read_text().strip()
    with open_ledger(f"sqlite:///{airflow.ledger_db}", key) as opened:
        yield opened


def acts(airflow: Any, run_id: str) -> list[dict[str, Any]]:
    lines = (airflow.path / "noted_acts.jsonl").read_text().splitlines()
    return [act for act in map(json.loads, lines) if act["order"] == run_id]


def test_a_workflow_with_its_functions_in_the_dag_file(ended: Any, ledger: Ledger) -> None:
    state, colours, held = ended("priced")
    assert (state, held["run"]) == ("success", "succeeded")
    assert set(colours.values()) == {"success"}
    run = RunKey("decorated", "priced")
    result = ledger.load_result(TaskKey(run.dag_id, run.run_id, "report"))
    assert result == {"total": Decimal("1.2"), "rows": 4}


def test_a_step_that_asks_to_be_skipped_skips_what_needs_it(ended: Any) -> None:
    state, colours, held = ended("partly")
    assert (state, held["run"]) == ("success", "succeeded")
    assert (held["price"], held["total"], held["count"], held["report"]) == (
        "skipped",
        "skipped",
        "succeeded",
        "skipped",
    )
    assert (colours["total"], colours["report"], colours["outcome"]) == ("skipped", "skipped", "success")


def test_an_open_gate_and_the_way_that_a_branch_chose(ended: Any) -> None:
    state, colours, held = ended("left")
    assert (state, held["run"]) == ("success", "succeeded")
    assert (held["first"], held["left"], held["right"]) == ("succeeded", "succeeded", "skipped")
    assert (held["either"], held["alone"]) == ("succeeded", "succeeded")
    assert (colours["left"], colours["right"], colours["done"]) == ("success", "skipped", "success")


def test_a_closed_gate_skips_the_steps_behind_it_and_the_run_succeeded(ended: Any) -> None:
    state, colours, held = ended("closed")
    assert (state, held["run"], held["alone"]) == ("success", "succeeded", "succeeded")
    assert {held[name] for name in ("first", "left", "right", "either")} == {"skipped"}
    assert {colours[name] for name in ("first", "left", "right", "either", "done")} == {"skipped"}
    assert (colours["compensate"], colours["outcome"]) == ("success", "success")


def test_a_closed_gate_that_asks_for_trigger_rules_leaves_the_joins_to_theirs(
    ended: Any, ledger: Ledger
) -> None:
    """Case J06, and what docs/failure-rules.md advises."""
    state, colours, held = ended("softly")
    assert (state, held["run"]) == ("success", "succeeded")
    assert (held["first"], held["second"], held["other"]) == ("skipped", "skipped", "succeeded")
    assert (colours["report"], held["report"]) == ("success", "succeeded")
    result = ledger.load_result(TaskKey("softly_gated", "softly", "report"))
    assert result == ["skipped", "ok"]


def test_a_gate_that_fails_fails_the_run(ended: Any) -> None:
    state, colours, held = ended("broken")
    assert (state, colours["outcome"], held["alone"]) == ("failed", "failed", "succeeded")
    assert colours["first"] == "upstream_failed"
    assert held["first"] == "cancelled"


def test_what_was_done_before_a_plain_task_failed_is_undone(airflow: Any, ended: Any) -> None:
    assert ended("sound_door")[0] == "success"
    state, colours, held = ended("broken_door")
    assert (state, held["run"]) == ("failed", "failed_compensated")
    assert (colours["compensate"], colours["outcome"]) == ("success", "failed")
    assert [act["act"] for act in acts(airflow, "broken_door")] == ["pay", "refund"]
    assert [act["act"] for act in acts(airflow, "sound_door")] == ["pay"]


def test_a_task_of_a_plain_dag_is_retried_paused_and_resumed(airflow: Any, orders: Any, ended: Any) -> None:
    def state() -> str | None:
        return orders.rest.task_states("plain_steps", "shipped").get("patient")

    airflow.wait_for("the step to run", lambda: state() == "running", timeout=SECONDS)
    paused = airflow.cli("louver", "pause", "shipped", "patient", "--reason", "month end")
    assert paused.code == 0, paused
    airflow.wait_for("the park", lambda: state() == "awaiting_input", timeout=SECONDS)
    (airflow.path / "enough-shipped").touch()
    assert airflow.cli("louver", "resume", "shipped", "patient").code == 0

    airflow_state, colours, held = ended("shipped")
    assert (airflow_state, held["run"]) == ("success", "succeeded")
    assert set(colours.values()) == {"success"}
    tries = [(act["attempt"], act["done"]) for act in acts(airflow, "shipped") if act["act"] == "flaky"]
    assert tries == [(1, 0), (2, 1)]
    result = orders.rest.xcom("plain_steps", "shipped", "ship")
    assert result == {"receipt": "shipped", "packed": "shipped", "total": 60}
    triggers = [row["trigger"] for row in orders.history("shipped", "patient")]
    assert "user:pause" in triggers
    assert "user:resume" in triggers


def test_a_plain_dag_that_fails_undoes_its_steps_in_reverse(airflow: Any, ended: Any) -> None:
    state, colours, held = ended("unshipped")
    assert (state, held["run"], held["ship"]) == ("failed", "failed_compensated", "failed")
    assert (colours["compensate"], colours["outcome"]) == ("success", "failed")
    done = [act["act"] for act in acts(airflow, "unshipped") if act["act"] != "flaky"]
    assert sorted(done) == ["pay", "refund", "unpack"]


def test_without_closing_tasks_the_reconciler_has_it_undone(
    airflow: Any, orders: Any, ended: Any, ledger: Ledger
) -> None:
    assert ended("unclosed")[0] == "failed"
    airflow.wait_for(
        "the undo",
        lambda: orders.status("unclosed")["state"] == "failed_compensated",
        timeout=SECONDS,
    )
    effects = ledger.list_effects(RunKey("unclosed_steps", "unclosed"))
    assert {effect.name: effect.state for effect in effects} == {
        "reserve": EffectState.UNDONE,
        "undo:reserve": EffectState.COMMITTED,
    }
