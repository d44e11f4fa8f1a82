"""The workflow of ``dags/reviewed_orders.py``: what runs when; :mod:`shop.reviewed` has the steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from louver.builder import workflow
from louver.policies import Backoff, RetryPolicy
from shop import orders, reviewed

__all__ = ["reviewed_orders"]

AGAIN = RetryPolicy(max_attempts=3, delay=timedelta(seconds=1))


@workflow(name="reviewed_orders", version="1.0.0")
def reviewed_orders(
    wf: Any,
    order_id: str,
    customer_id: str,
    currency: str,
    amount: str,
    items: list[dict[str, Any]],
    model: str,
    notify_within: float,
) -> Any:
    """One order."""
    order = wf.step(
        "validate",
        reviewed.take,
        kwargs={
            "order_id": order_id,
            "customer_id": customer_id,
            "currency": currency,
            "amount": amount,
            "items": items,
            "notify_within": notify_within,
        },
    )
    reservation = wf.step("reserve_inventory", orders.reserve_inventory, deps={"order": order}, retry=AGAIN)
    risk = wf.step(
        "risk_check", reviewed.risk_check, kwargs={"model": model}, deps={"order": order}, retry=AGAIN
    )
    way = wf.branch("route", reviewed.route, deps={"risk": risk}, after=[reservation])

    given = {"order": order, "reservation": reservation, "risk": risk}
    again = RetryPolicy(
        max_attempts=3,
        delay=timedelta(seconds=1),
        backoff=Backoff.EXPONENTIAL,
        max_delay=timedelta(seconds=30),
    )
    unasked = wf.step("charge", orders.charge, deps=given, after=[way], retry=again)
    question = wf.approve(
        "manual_review",
        of="charge_reviewed",
        payload=orders.charge_intent,
        deps={"order": order, "risk": risk},
        after=[way],
        expires_after=86_400,
    )
    asked = wf.step("charge_reviewed", orders.charge, deps=given, approval=question, retry=again)
    wf.step("decline", reviewed.decline, deps={"order": order, "risk": risk}, after=[way])

    receipt = wf.join(
        "receipt", reviewed.receipt, deps=[unasked, asked], collect="charges", join="any_succeeded"
    )
    return wf.step("notify", reviewed.notify_in_time, deps={"order": order, "receipt": receipt}, retry=AGAIN)
