"""What is broken fails alone, and says where it is broken and what to do."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.integration


def test_a_broken_definition_is_an_import_error_of_its_own_dag(orders, runs) -> None:
    def shown() -> str | None:
        found = orders.rest.import_errors()
        return next((text for place, text in found.items() if "broken_definition" in place), None)

    trace = orders.home.wait_for("the import error", shown)

    for part in ("broken_definition.json", "alone", "retires"):
        assert part in trace
    assert "broken_definition" not in orders.rest.dag_ids()
    # Others of the same folder and of the checkout are not touched.
    assert {"order_workflow", "unreachable_ledger"} <= orders.rest.dag_ids()


def test_an_order_that_the_shop_refuses_fails_at_the_first_step(orders, runs) -> None:
    assert orders.ended(runs.refused) == "failed"
    assert orders.status(runs.refused)["state"] == "failed"
    assert orders.effects(runs.refused) == {}


def test_without_a_ledger_nothing_runs_and_the_task_says_why(airflow, orders, runs) -> None:
    assert orders.ended(runs.unreachable, "unreachable_ledger") == "failed"

    states = orders.rest.task_states("unreachable_ledger", runs.unreachable)
    assert set(states.values()) == {"failed"}
    tries = orders.rest.task("unreachable_ledger", runs.unreachable, "alone")["try_number"]
    log = orders.rest.log("unreachable_ledger", runs.unreachable, "alone", tries)
    assert "LedgerUnavailable" in log
    assert "/nowhere/at/all" in log
    assert airflow.running()
