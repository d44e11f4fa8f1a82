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


def test_an_event_by_hand_is_deduplicated_by_the_first_step(orders, runs) -> None:
    for run_id in (runs.duplicate, runs.conflict):
        assert orders.ended(run_id) == "failed"
        assert orders.effects(run_id) == {}

    assert orders.status(runs.duplicate)["state"] == "cancelled"
    last = orders.history(runs.duplicate, "validate")[-1]
    assert (last["to"], last["reason"]) == ("cancelled", f"duplicate_of {runs.waiting}")
    assert orders.status(runs.conflict)["state"] == "failed"
    assert orders.history(runs.conflict, "validate")[-1]["to"] == "failed"


def test_a_form_is_an_event_too(orders, runs) -> None:
    assert "order-form" in orders.parked(runs.form)["body"].replace("\\", "")

    orders.answered(runs.form, "Stop")

    assert orders.ended(runs.form) == "failed"
    assert orders.status(runs.form)["state"] == "failed_compensated"
    assert orders.steps(runs.form)["approve_charge"]["state"] == "stopped"
