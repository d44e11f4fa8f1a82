"""An event makes one run, whichever way it comes in."""

from __future__ import annotations

import copy

import pytest

pytestmark = pytest.mark.integration

DAG = "order_workflow"


def test_a_submitted_run_carries_the_reference_alone(orders, runs) -> None:
    run = orders.rest.run(DAG, runs.happy)

    assert run["logical_date"] is None
    assert list(run["conf"]) == ["louver_event"]
    assert set(run["conf"]["louver_event"]) == {"identity", "fingerprint"}


def test_the_same_event_again_is_the_same_run(orders, events, runs) -> None:
    again = orders.submit(events["waiting"])

    assert again.code == 0
    assert again.json()[0]["run_id"] == runs.waiting
    assert again.json()[0]["outcome"] == "duplicate"
    assert orders.rest.run_ids(DAG).count(runs.waiting) == 1


def test_the_same_identity_with_another_payload_is_refused(orders, events, runs) -> None:
    changed = copy.deepcopy(events["waiting"])
    changed["data"]["amount"] = "29.90"
    before = orders.rest.run_ids(DAG)

    refused = orders.submit(changed)

    assert refused.code == 1
    assert refused.stdout == ""
    assert runs.waiting in refused.stderr
    assert orders.rest.run_ids(DAG) == before


def test_an_event_by_hand_is_deduplicated_by_the_first_step(orders, events, runs) -> None:
    changed = copy.deepcopy(events["waiting"])
    changed["data"]["items"][0]["quantity"] = 2

    duplicate = orders.rest.trigger(DAG, {"event": events["waiting"]}, run_id="by-hand-duplicate")
    conflict = orders.rest.trigger(DAG, {"event": changed}, run_id="by-hand-conflict")

    assert orders.ended(duplicate) == "failed"
    assert orders.ended(conflict) == "failed"
    assert orders.status(duplicate)["state"] == "cancelled"
    assert orders.steps(duplicate)["validate"]["state"] == "cancelled"
    trail = orders.home.cli("louver", "history", duplicate, "validate", "--output", "json").json()
    assert trail[-1]["reason"] == f"duplicate_of {runs.waiting}"
    assert orders.status(conflict)["state"] == "failed"
    assert orders.effects(duplicate) == orders.effects(conflict) == {}


def test_a_form_is_an_event_too(orders) -> None:
    fields = orders.event("form")["data"]
    run_id = orders.rest.trigger(DAG, fields, run_id="by-form")

    assert "order-form" in orders.parked(run_id)["body"].replace("\\", "")
    orders.answered(run_id, "Stop")
    assert orders.ended(run_id) == "failed"
    assert orders.status(run_id)["state"] == "failed_compensated"
    assert orders.steps(run_id)["approve_charge"]["state"] == "stopped"
