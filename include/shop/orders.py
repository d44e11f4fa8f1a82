"""
The steps of the order workflow (``dags/order.json``), and what undoes them.

Louver calls a step with ``ctx``, where the function names it, and with the results of other steps, by
parameter name. What acts on the world goes through ``ctx.effect``, which needs to know five things: under
which business key, what is intended, how to do it, how to undo it, and how to find out whether it was done.
Undo and verify are functions at the top of a module, since another process may have to find them by name.

Results are small plain data; they are kept. Log lines carry ids, never what is in an order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from louver.cloudevents import OrderProfile
from louver.effects import Verification
from louver.errors import EffectNotPerformed
from shop import faults, prices
from shop.providers import ProviderRefused, mail, payments, stock

if TYPE_CHECKING:
    from louver.compensation import Undo
    from louver.context import TaskContext

__all__ = [
    "OrderRefused",
    "charge",
    "charge_intent",
    "notify",
    "refund",
    "release_inventory",
    "reserve_inventory",
    "risk_check",
    "validate",
    "verify_charge",
    "verify_mail",
    "verify_reservation",
]

Data = dict[str, Any]


class OrderRefused(ValueError):
    """The shop does not take this order."""


def validate(ctx: TaskContext, event: Data) -> Data:
    """
    The order in the event, if the shop takes it.

    In Airflow the event has passed its profile before this step sees it. It is checked here too, since an
    embedded run is handed any parameters.

    :param event: has ``id``, ``source`` and ``data``; see :class:`louver.cloudevents.OrderProfile`.
    :returns: ``order_id``, ``customer_id``, ``currency``, ``amount`` and ``items``.
    :raises EventRejected: where the data break the profile.
    :raises OrderRefused: for another currency, something not sold here, or an amount that is not the price.
    """
    checked = OrderProfile.from_form(event["data"], source=event["source"], id=event["id"])
    order: Data = checked.data
    order_id = order["order_id"]
    if order["currency"] != prices.CURRENCY:
        raise OrderRefused(f"order {order_id}: the shop takes {prices.CURRENCY} alone")
    try:
        due = prices.total(order["items"])
    except prices.NotSold as error:
        raise OrderRefused(f"order {order_id}: {error}") from error
    # The amount is what the customer was shown.
    if Decimal(order["amount"]) != due:
        raise OrderRefused(f"order {order_id}: its amount is not what its items cost now")
    ctx.log.info("order %s: accepted", order_id)
    return order


def reserve_inventory(ctx: TaskContext, order: Data) -> Data:
    """Set the items aside; released where the run does not succeed."""
    order_id = order["order_id"]
    intent = {"order_id": order_id, "items": order["items"]}
    reserved = ctx.effect(
        "reserve",
        # Of the order, not of the run: a second run for the same order gets this result and reserves nothing.
        key=f"reserve:{order_id}",
        intent=intent,
        perform=lambda key: _ask(stock.reserve, key, **intent),
        compensate=release_inventory,
        verify=verify_reservation,
        provider_idempotent=True,
    )
    faults.crash_point("reserve_inventory", order_id=order_id)
    ctx.log.info("order %s: %s", order_id, reserved["reservation"])
    return {"order_id": order_id, **reserved}


def risk_check(order: Data) -> Data:
    """
    How risky the order looks, by fixed rules.

    :returns: ``decision`` (``low``, ``medium`` or ``high``) and ``score``, 0 to 100.
    """
    amount = Decimal(order["amount"])
    score = 0
    score += 50 if amount >= 1000 else 20 if amount >= 250 else 0
    score += 30 if any(item["quantity"] >= 50 for item in order["items"]) else 0
    score += 20 if len(order["items"]) >= 20 else 0
    decision = "high" if score >= 60 else "medium" if score >= 30 else "low"
    return {"decision": decision, "score": score}


def charge_intent(order: Data, risk: Data) -> Data:
    """
    Exactly what the charge will do, at the prices of this moment.

    A person approves this, and ``charge`` works it out again before it acts: where the two differ, because a
    price has changed meanwhile, Louver refuses the charge and asks anew.

    :returns: ``order_id``, ``customer_id``, ``currency``, ``amount``, and ``risk``, for the person to see.
    """
    return {
        "order_id": order["order_id"],
        "customer_id": order["customer_id"],
        "currency": prices.CURRENCY,
        "amount": str(prices.total(order["items"])),
        "risk": risk["decision"],
    }


def charge(ctx: TaskContext, order: Data, reservation: Data, risk: Data) -> Data:
    """Take the money that was approved, for what is reserved; refunded where the run does not succeed."""
    order_id = order["order_id"]
    faults.start_point("charge", order_id=order_id)
    intent = charge_intent(order, risk)
    charged = ctx.effect(
        "charge",
        key=f"charge:{order_id}",
        intent=intent,
        perform=lambda key: _ask(
            payments.charge,
            key,
            order_id=order_id,
            customer_id=intent["customer_id"],
            amount=intent["amount"],
            currency=intent["currency"],
        ),
        compensate=refund,
        verify=verify_charge,
        provider_idempotent=True,
    )
    faults.crash_point("charge", order_id=order_id)
    ctx.log.info("order %s: %s", order_id, charged["charge"])
    return {"order_id": order_id, "reservation": reservation["reservation"], **charged}


def notify(ctx: TaskContext, order: Data, receipt: Data) -> Data:
    """Confirm the order by mail. A mail cannot be unsent, so it comes last and has no undo."""
    order_id = order["order_id"]
    intent = {"order_id": order_id, "customer_id": order["customer_id"], "template": "order-confirmation"}
    sent = ctx.effect(
        "confirm",
        key=f"mail:{order_id}:confirmation",
        intent=intent,
        perform=lambda key: _ask(mail.send, key, **intent),
        verify=verify_mail,
        provider_idempotent=True,
    )
    faults.crash_point("notify", order_id=order_id)
    ctx.log.info("order %s: %s", order_id, sent["mail"])
    return {**receipt, **sent}


def release_inventory(undo: Undo) -> Data:
    """Undo of ``reserve_inventory``."""
    # Without a recorded result nobody knows whether it was done: the provider does.
    reserved = undo.result or stock.find(undo.effect_key)
    if reserved is None:
        return {"release": None}
    return _ask(stock.release, undo.key, reservation=reserved["reservation"])


def refund(undo: Undo) -> Data:
    """Undo of ``charge``."""
    charged = undo.result or payments.find(undo.effect_key)
    if charged is None:
        return {"refund": None}
    return _ask(payments.refund, undo.key, charge=charged["charge"])


def verify_reservation(key: str) -> Verification:
    """Whether the stock was reserved under ``key``."""
    return _found(stock.find(key))


def verify_charge(key: str) -> Verification:
    """Whether the money was taken under ``key``."""
    return _found(payments.find(key))


def verify_mail(key: str) -> Verification:
    """Whether the mail was sent under ``key``."""
    return _found(mail.find(key))


def _found(result: Mapping[str, Any] | None) -> Verification:
    return Verification.absent() if result is None else Verification.committed(dict(result))


def _ask(request: Callable[..., dict[str, str]], key: str, **arguments: Any) -> Data:
    """
    Ask a provider, and tell Louver what a refusal means: it proves that nothing was done.

    Any other error leaves open what happened; then Louver asks the effect's ``verify``.
    """
    try:
        return dict(request(key, **arguments))
    except ProviderRefused as error:
        raise EffectNotPerformed(str(error)) from error
