"""
The steps of ``dags/reviewed_orders.py`` that the order workflow does not have.

A model says how risky an order is; harmless ones are charged without asking, for the others a person decides,
and whatever nobody understands is for a person too. A confirmation that would come too late is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from shop import orders
from shop.risk.assessments import DECISIONS, REVIEW, assess
from shop.risk.evaluation import fingerprint as evaluation_fingerprint
from shop.risk.models import find_model

if TYPE_CHECKING:
    from louver.context import TaskContext
    from louver.results import NodeResult

__all__ = ["OrderDeclined", "decline", "notify_in_time", "receipt", "risk_check", "route", "take"]

Data = dict[str, Any]

WAYS = {"accept": "charge", "review": "manual_review", "decline": "decline"}
"""Decision to the step that comes next."""


class OrderDeclined(ValueError):
    """The shop does not want this order."""


def take(
    ctx: TaskContext,
    *,
    order_id: str,
    customer_id: str,
    currency: str,
    amount: str,
    items: list[Data],
    notify_within: float,
) -> Data:
    """
    The order that was typed in, if the shop takes it.

    :param notify_within: minutes; a confirmation later than that is not sent.
    :returns: what :func:`shop.orders.validate` does, and ``notify_until`` (RFC 3339).
    """
    data = {
        "order_id": order_id,
        "customer_id": customer_id,
        "currency": currency,
        "amount": amount,
        "items": items,
    }
    order = orders.validate(ctx, {"id": order_id, "source": "form", "data": data})
    until = datetime.now(timezone.utc) + timedelta(minutes=notify_within)
    return {**order, "notify_until": until.isoformat()}


def risk_check(ctx: TaskContext, order: Data, model: str) -> Data:
    """
    What the model says, with all that is needed to ask it again: its versions, and what it was measured on.

    :param model: its name, see :data:`shop.risk.models.MODELS`.
    :returns: the members of :class:`shop.risk.assessments.Assessment`, and ``evaluation_set``.
    :raises shop.risk.models.UnknownModel: where there is none of that name.
    """
    found = assess(order, find_model(model))
    if found.fallback is not None:
        ctx.log.warning("order %s: a person has to look: %s", order["order_id"], found.fallback)
    ctx.log.info("order %s: %s by %s %s", order["order_id"], found.decision, found.model, found.model_version)
    return {**asdict(found), "evaluation_set": evaluation_fingerprint()}


def route(risk: Mapping[str, Any]) -> str:
    """The step that comes next. A decision that is not known here goes the safe way: to a person."""
    decision = risk.get("decision")
    return WAYS[decision if isinstance(decision, str) and decision in DECISIONS else REVIEW]


def decline(order: Data, risk: Data) -> None:
    """End the run: what was reserved is released."""
    raise OrderDeclined(f"order {order['order_id']} was declined by {risk['model']} {risk['model_version']}")


def receipt(charges: Sequence[NodeResult]) -> Data:
    """The receipt of the one charge that was made."""
    return next(dict(charge.unwrap()) for charge in charges if charge.ok)


def notify_in_time(ctx: TaskContext, order: Data, receipt: Data) -> Data:
    """Confirm the order, unless it is too late for that: the customer has been told otherwise by then."""
    if datetime.now(timezone.utc) > datetime.fromisoformat(order["notify_until"]):
        ctx.skip(f"order {order['order_id']}: its confirmation is too late")
    return orders.notify(ctx, order=order, receipt=receipt)
