"""The reviewed orders of the examples on a real Airflow: each way that an order can take (row O11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from airflow_home import AirflowHome
from support.airflow_control import Control, controlled

from shop import prices, report

pytestmark = pytest.mark.integration

REVIEWED = "reviewed_orders"


@pytest.fixture(scope="module")
def control(airflow: AirflowHome) -> Iterator[Control]:
    with controlled(airflow, dags=[REVIEWED]) as found:
        yield found


def order(
    name: str, price: str, *, quantity: int = 1, amount: str | None = None, **more: Any
) -> dict[str, Any]:
    sku = f"reviewed-{name}"
    prices.set_price(sku, price)
    return {
        "order_id": f"order-{name}",
        "customer_id": "customer-77",
        "currency": "EUR",
        "amount": amount or price,
        "items": [{"sku": sku, "quantity": quantity}],
        "model": "rules",
        "notify_within": 60,
        **more,
    }


@pytest.fixture(scope="module")
def runs(control: Control) -> Mapping[str, str]:
    """All begun at once; the reviewed one is approved."""
    orders = [
        order("accepted", "19.90"),
        order("late", "19.90", notify_within=0),
        order("asked", "1200.00"),
        order("declined", "9000.00", quantity=60, amount="540000.00"),
    ]
    found = {one["order_id"].removeprefix("order-"): control.start(REVIEWED, **one) for one in orders}
    control.await_state(REVIEWED, found["asked"], "awaiting_input", "manual_review")
    control.rest.answer(REVIEWED, found["asked"], "manual_review", "Approve").expect(200)
    return found


def ended(control: Control, run_id: str) -> tuple[str, str, dict[str, str]]:
    """Airflow's state, the run's, and those of the nodes that tell the ways apart."""
    colour = control.ended(REVIEWED, run_id)
    _, (run,) = control.louver("workflow", "status", run_id)
    states = {node["node"]: node["state"] for node in run["nodes"]}
    ways = ("charge", "manual_review", "charge_reviewed", "decline", "notify")
    return colour, run["state"], {name: states[name] for name in ways}


def test_a_harmless_order_is_charged_without_asking(control: Control, runs: Mapping[str, str]) -> None:
    colour, state, states = ended(control, runs["accepted"])
    assert (colour, state) == ("success", "succeeded")
    assert states == {
        "charge": "succeeded",
        "manual_review": "skipped",
        "charge_reviewed": "skipped",
        "decline": "skipped",
        "notify": "succeeded",
    }
    assert report.sequence("order-accepted") == ["stock.reserve", "payments.charge", "mail.send"]


def test_a_person_decides_about_a_risky_one(control: Control, runs: Mapping[str, str]) -> None:
    colour, state, states = ended(control, runs["asked"])
    assert (colour, state) == ("success", "succeeded")
    assert states == {
        "charge": "skipped",
        "manual_review": "succeeded",
        "charge_reviewed": "succeeded",
        "decline": "skipped",
        "notify": "succeeded",
    }
    assert report.sequence("order-asked") == ["stock.reserve", "payments.charge", "mail.send"]


def test_one_that_is_declined_gives_back_what_was_reserved(control: Control, runs: Mapping[str, str]) -> None:
    colour, state, states = ended(control, runs["declined"])
    assert (colour, state) == ("failed", "failed_compensated")
    assert (states["decline"], states["charge"], states["notify"]) == ("failed", "skipped", "skipped")
    assert report.sequence("order-declined") == ["stock.reserve", "stock.release"]


def test_a_confirmation_that_would_be_late_is_not_sent(control: Control, runs: Mapping[str, str]) -> None:
    colour, state, states = ended(control, runs["late"])
    assert (colour, state, states["notify"]) == ("success", "succeeded", "skipped")
    assert report.sequence("order-late") == ["stock.reserve", "payments.charge"]
