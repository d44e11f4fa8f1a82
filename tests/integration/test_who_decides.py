"""Who may answer an approval on a real Airflow: who is named, and not who started the run (case G06)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.integration

ALICES, ANOTHERS = "asks_alice", "asks_another"


@pytest.fixture(scope="module")
def asked(airflow: Any) -> dict[str, str]:
    """A run of each Dag, begun at once by admin; by the Dag's name."""
    airflow.wait_for("the Dags", lambda: {ALICES, ANOTHERS} <= airflow.rest.dag_ids())
    return {name: airflow.rest.trigger(name, {}, run_id=f"run-of-{name}") for name in (ALICES, ANOTHERS)}


def question(airflow: Any, dag_id: str, run_id: str) -> dict[str, Any]:
    """What stands under Required Actions, once it is not answered."""

    def waits() -> dict[str, Any] | None:
        if airflow.rest.task_states(dag_id, run_id).get("ask") != "awaiting_input":
            return None
        shown: dict[str, Any] | None = airflow.rest.question(dag_id, run_id, "ask")
        return shown if shown and not shown["response_received"] else None

    return dict(airflow.wait_for(f"{run_id} to ask", waits))


def decisions(orders: Any, run_id: str) -> list[tuple[str, str | None]]:
    return [(one["decision"], one["decided_by"]) for one in orders.status(run_id)["approvals"]]


def test_who_is_not_named_is_refused_and_the_request_stays_open(
    airflow: Any, orders: Any, asked: dict[str, str]
) -> None:
    run_id = asked[ALICES]
    shown = question(airflow, ALICES, run_id)
    assert [user["id"] for user in shown["assigned_users"]] == ["alice"]

    # Neither somebody of the same role, nor the administrator.
    for user in ("bob", "second"):
        assert airflow.rest_as(user).answer(ALICES, run_id, "ask", "Approve").status == 403

    assert not question(airflow, ALICES, run_id)["response_received"]
    assert decisions(orders, run_id) == [("pending", None)]


def test_who_is_named_decides_and_the_run_goes_on(airflow: Any, orders: Any, asked: dict[str, str]) -> None:
    run_id = asked[ALICES]
    question(airflow, ALICES, run_id)

    airflow.rest_as("alice").answer(ALICES, run_id, "ask", "Approve").expect(200)

    assert orders.ended(run_id, ALICES) == "success"
    assert decisions(orders, run_id) == [("approved", "alice")]


def test_who_started_the_run_does_not_approve_it(airflow: Any, orders: Any, asked: dict[str, str]) -> None:
    run_id = asked[ANOTHERS]
    question(airflow, ANOTHERS, run_id)

    # Airflow knows of no four eyes and takes the answer; the task asks again.
    airflow.rest_as("admin").answer(ANOTHERS, run_id, "ask", "Approve").expect(200)
    question(airflow, ANOTHERS, run_id)

    assert decisions(orders, run_id)[-1] == ("pending", None)
    airflow.rest_as("bob").answer(ANOTHERS, run_id, "ask", "Approve").expect(200)
    assert orders.ended(run_id, ANOTHERS) == "success"
    assert decisions(orders, run_id)[-1] == ("approved", "bob")
