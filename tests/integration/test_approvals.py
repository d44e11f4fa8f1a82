"""Answers over Airflow's own REST interface: what is no answer bounces off, and the request stays open."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.integration

DAG, TASK = "order_workflow", "approve_charge"


def request_id(question: dict[str, Any]) -> str:
    return str(question["params"]["request_id"]["value"])


def test_a_request_shows_what_will_be_done_and_what_it_is_bound_to(orders, runs) -> None:
    question = orders.parked(runs.waiting)

    assert question["options"] == ["Approve", "Reject", "Stop"]
    body = question["body"].replace("\\", "")
    for shown in ("order-waiting", "14.95", "EUR", "Definition fingerprint", request_id(question)):
        assert shown in body


@pytest.mark.parametrize(
    "chosen",
    [[], ["Approve", "Reject"], ["approve"], ["Approve "], ["Yes"], "Approve", None],
    ids=["none", "two", "lower-case", "space", "unknown", "text", "null"],
)
def test_only_exactly_one_legal_option_is_an_answer(orders, runs, chosen) -> None:
    question = orders.parked(runs.waiting)
    body = {"chosen_options": chosen, "params_input": {"request_id": request_id(question)}}

    said = orders.rest.reply(DAG, runs.waiting, TASK, body)

    assert 400 <= said.status < 500, said
    assert not orders.parked(runs.waiting)["response_received"]


def test_an_answer_to_another_request_is_refused(orders, runs) -> None:
    orders.parked(runs.waiting)

    said = orders.rest.answer(DAG, runs.waiting, TASK, "Approve", request_id="0" * 32)

    assert said.status == 409
    assert not orders.parked(runs.waiting)["response_received"]


def test_nobody_answers_without_a_login_or_the_right_to(airflow, orders, runs) -> None:
    question = orders.parked(runs.waiting)
    path = f"/api/v2/dags/{DAG}/dagRuns/{runs.waiting}/taskInstances/{TASK}/-1/hitlDetails"
    body = {"chosen_options": ["Approve"], "params_input": {"request_id": request_id(question)}}

    assert airflow.rest_as("onlooker").answer(DAG, runs.waiting, TASK, "Approve").status == 403
    assert orders.rest.request("PATCH", path, body, token="").status == 401
    # Airflow's own answer to a token that is none.
    assert orders.rest.request("PATCH", path, body, token="forged").status == 403
    assert not orders.parked(runs.waiting)["response_received"]


def test_a_charge_that_asks_anew_takes_no_answer_to_the_old_request(orders, runs, stale) -> None:
    first, second = stale["first"], stale["second"]
    assert request_id(first) != request_id(second)
    assert "15.00" in first["body"].replace("\\", "")
    assert "16.00" in second["body"].replace("\\", "")

    old = orders.rest.answer(DAG, runs.stale, "charge", "Approve", request_id=request_id(first))

    assert old.status == 409
    assert not orders.parked(runs.stale, "charge")["response_received"]


def test_what_was_asked_anew_can_be_approved(orders, runs, stale) -> None:
    orders.answered(runs.stale, "Approve", "charge")

    assert orders.ended(runs.stale) == "success"
    decisions = [
        (approval["asked_by"], approval["decision"], approval["used_by"] is not None)
        for approval in orders.status(runs.stale)["approvals"]
    ]
    assert decisions == [("approve_charge", "approved", False), ("charge", "approved", True)]


def test_a_decided_request_takes_no_second_answer(orders, happy) -> None:
    said = orders.rest.answer(DAG, happy, TASK, "Reject")

    assert said.status == 409
    assert said.headers.get("Retry-After") is None
