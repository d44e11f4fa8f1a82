"""The order workflow from end to end: what Airflow shows, what the ledger says, what the shop really did."""

from __future__ import annotations

import pytest

from shop import report

pytestmark = pytest.mark.integration

DAG = "order_workflow"


def test_a_run_that_is_approved_does_everything_once(orders, happy) -> None:
    status = orders.status(happy)

    assert status["state"] == "succeeded"
    assert set(orders.rest.task_states(DAG, happy).values()) == {"success"}
    assert report.sequence("order-happy") == ["stock.reserve", "payments.charge", "mail.send"]
    assert {effect["state"] for effect in status["effects"]} == {"committed"}
    assert orders.rest.xcom(DAG, happy, "notify").keys() >= {"order_id", "charge", "mail"}


def test_a_retry_after_a_kill_returns_the_recorded_result(orders, happy) -> None:
    trail = orders.history(happy, "reserve_inventory")

    assert orders.steps(happy)["reserve_inventory"]["attempt"] == 2
    assert report.calls("order-happy")["stock.reserve"] == 1
    assert [(row["from"], row["to"]) for row in trail if row["trigger"] == "runtime:attempt_lost"] == [
        ("running", "retry_wait")
    ]


def test_the_task_log_tells_the_life_of_each_step(airflow, orders, happy) -> None:
    # Actions are stable names, and ids are what a reader searches for (row B7).
    logs = {
        "killed": orders.rest.log(DAG, happy, "reserve_inventory", 1),
        "retried": orders.rest.log(DAG, happy, "reserve_inventory", 2),
        "approval": orders.rest.log(DAG, happy, "approve_charge"),
        "charge": orders.rest.log(DAG, happy, "charge"),
    }
    (request,) = (approval["request"] for approval in orders.status(happy)["approvals"])

    for log in logs.values():
        assert f"{airflow.url}/dags/{DAG}/runs/{happy}" in log
        assert "[session.opened]" in log
    assert_in_order(
        logs["killed"],
        "[state] state pending -> queued",
        "[state] state queued -> starting",
        "[state] state starting -> running",
        "[effect.started] effect reserve:order-happy#1",
        "[effect.committed] effect reserve:order-happy#1",
    )
    assert_in_order(
        logs["retried"],
        "[state] state starting -> running",
        "[effect.recorded] effect reserve:order-happy#1",
        "[state] state running -> succeeded",
    )
    # Whoever saw it first has recorded it, the reconciler or the next process; and nobody did so twice.
    losses = [row for row in orders.history(happy) if row["trigger"] == "runtime:attempt_lost"]
    assert [(row["step"], row["to"]) for row in losses] == [("reserve_inventory", "retry_wait")]
    assert_in_order(
        logs["approval"],
        "[state] state running -> paused (approval:requested)",
        f"[approval.requested] approval {request}",
        f"[approval.answered] approval {request}",
        "[state] state paused -> queued (approval:granted)",
        "[state] state running -> succeeded",
    )
    assert_in_order(logs["charge"], "[effect.started] effect charge:", "[effect.committed] effect charge:")


def test_a_rejected_approval_undoes_what_was_done(orders, runs) -> None:
    orders.answered(runs.waiting, "Reject")

    assert orders.ended(runs.waiting) == "failed"
    status = orders.status(runs.waiting)
    steps = {step["step"]: step for step in status["steps"]}
    assert status["state"] == "failed_compensated"
    assert steps["approve_charge"]["failure_kind"] == "approval_rejected"
    assert steps["charge"]["state"] == steps["notify"]["state"] == "skipped"
    assert report.sequence("order-waiting") == ["stock.reserve", "stock.release"]
    assert "[undo.done] effect reserve:order-waiting#1" in orders.rest.log(DAG, runs.waiting, "compensate")
    # The run is red, and what went well in it is green: undoing did (case E01).
    states = orders.rest.task_states(DAG, runs.waiting)
    assert (states["compensate"], states["outcome"]) == ("success", "failed")


def test_an_undo_that_fails_is_never_a_plain_failure(orders, runs) -> None:
    orders.answered(runs.undone, "Stop")

    assert orders.ended(runs.undone) == "failed"
    assert orders.status(runs.undone)["state"] == "compensation_failed"
    assert orders.effects(runs.undone)["reserve:order-undone#1"] == "undo_failed"
    assert report.counts("order-undone")["stock.release"] == 0


def assert_in_order(text: str, *parts: str) -> None:
    place = 0
    for part in parts:
        found = text.find(part, place)
        assert found >= 0, f"{part!r} is not in the log, or not in this place:\n{text}"
        place = found + len(part)
