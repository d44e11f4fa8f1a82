"""
What the runs do that are killed: small workflows over the shop's providers, and the order workflow.

The shop's providers do each key once, so that they show a repetition only where its key is another one.
``careless`` ones look at no key: whatever is asked of them twice happens twice.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from louver.compensation import Undo
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.effects import Verification
from louver.errors import EffectNotPerformed
from louver.policies import RetryPolicy
from shop.providers import ProviderRefused, payments, stock

__all__ = [
    "BREAKING",
    "BUYING",
    "BY_HAND",
    "LONGER",
    "ORDER",
    "PARTS",
    "PAYING",
    "WALKING",
    "order_event",
]

PARTS = 4
"""How many parts the walk has."""

_ITEMS = [{"sku": "mug-blue", "quantity": 2}, {"sku": "teapot", "quantity": 1}]


def order_event(order: str) -> dict[str, Any]:
    """An order that the shop takes, as its workflow's parameter."""
    data = {
        "order_id": order,
        "customer_id": "customer-77",
        "currency": "EUR",
        "amount": "129.90",
        "items": _ITEMS,
    }
    return {"id": order, "source": "/shop", "data": data}


# Effects


def reserve(ctx: TaskContext, order: str) -> Any:
    return ctx.effect(
        "reserve",
        key=f"reserve:{order}",
        intent={"order": order},
        perform=lambda key: _asked(stock.reserve, key, order_id=order, items=_ITEMS),
        compensate=release,
        verify=find_reservation,
        provider_idempotent=True,
    )


def pay(ctx: TaskContext, order: str, way: str = "verify") -> Any:
    """Take money; ``way`` says what is done where nobody knows whether it was taken."""
    return ctx.effect(
        "pay", key=f"pay:{order}", intent={"order": order, "amount": "1.00"}, **_ways(order)[way]
    )


def walk(ctx: TaskContext, order: str) -> list[int]:
    """Act once for each part, and save how far it is."""
    done: list[int] = ctx.restore(default=[])
    for part in range(len(done), PARTS):
        ctx.effect(
            f"part-{part}",
            intent={"part": part},
            perform=lambda key: _asked(stock.reserve, key, order_id=order, items=_ITEMS),
            verify=find_reservation,
            provider_idempotent=True,
        )
        done.append(part)
        ctx.checkpoint(done)
        ctx.checkpoint()
    return done


def fall(order: str) -> None:
    raise OSError("no way on")


def _ways(order: str) -> dict[str, dict[str, Any]]:
    """Arguments of the effect, by the name of the way."""

    def charge(key: str) -> Any:
        return _asked(
            payments.charge, key, order_id=order, customer_id="customer-77", amount="1.00", currency="EUR"
        )

    def careless(key: str) -> Any:
        return charge(f"{key}/{uuid.uuid4().hex}")

    return {
        "verify": {
            "perform": charge,
            "verify": find_charge,
            "compensate": refund,
            "provider_idempotent": True,
        },
        "verify careless": {"perform": charge, "verify": find_charge},
        "verify in vain": {"perform": charge, "verify": find_nothing},
        "retry": {"perform": charge, "provider_idempotent": True, "on_unknown": "retry"},
        "manual": {"perform": careless, "compensate": refund},
    }


def release(undo: Undo) -> Any:
    reserved = undo.result or stock.find(undo.effect_key)
    return None if reserved is None else _asked(stock.release, undo.key, **reserved)


def refund(undo: Undo) -> Any:
    charged = undo.result or payments.find(undo.effect_key)
    return None if charged is None else _asked(payments.refund, undo.key, **charged)


def find_reservation(key: str) -> Verification:
    return _found(stock.find(key))


def find_charge(key: str) -> Verification:
    return _found(payments.find(key))


def find_nothing(key: str) -> Verification:
    return Verification.unknown()


def _found(result: dict[str, str] | None) -> Verification:
    return Verification.absent() if result is None else Verification.committed(result)


def _asked(request: Any, key: str, **given: Any) -> Any:
    try:
        return request(key, **given)
    except ProviderRefused as error:
        raise EffectNotPerformed(str(error)) from error


# Workflows


def _step(name: str, function: Any, **given: Any) -> Step:
    return Step(name=name, task=f"{__name__}:{function.__name__}", params={"order": "order"}, **given)


def _workflow(name: str, *nodes: Step | ApprovalNode, params: tuple[str, ...] = ("order",)) -> Definition:
    return Definition(name=name, version="1", nodes=nodes, params=list(params))


ORDER = Definition.from_json((Path(__file__).parents[2] / "dags" / "order.json").read_text())

_TRIES = RetryPolicy(max_attempts=3)

BUYING = _workflow(
    "buying",
    _step("reserve", reserve, retry=_TRIES, resources={"shop": 1}),
    _step("pay", pay, after=["reserve"], retry=_TRIES, resources={"shop": 1}),
)
"""Two effects that can be undone, and whose retries have a budget."""

BREAKING = _workflow(
    "breaking",
    _step("reserve", reserve),
    _step("pay", pay, after=["reserve"]),
    _step("fall", fall, after=["pay"]),
)
"""The same, and then a step that fails."""

WALKING = _workflow("walking", _step("walk", walk))
"""One step in several parts."""

PAYING = Definition(
    name="paying",
    version="1",
    nodes=[
        Step(
            name="pay",
            task=f"{__name__}:pay",
            params={"order": "order", "way": "way"},
            retry=_TRIES,
        )
    ],
    params=["order", "way"],
)
"""One effect, in any of :data:`WAYS`."""

BY_HAND = _workflow("by-hand", _step("work", pay), _step("gone", pay))
"""What nobody runs: its tasks are opened and written about by hand."""

LONGER = _workflow("by-hand", _step("work", pay), _step("gone", pay), _step("new", pay, after=["gone"]))
"""The same with one step more, behind all others."""
