"""What things cost: decimal strings in one currency, never binary fractions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from shop.database import transaction

__all__ = ["CURRENCY", "NotSold", "set_price", "total"]

CURRENCY = "EUR"

_CENT = Decimal("0.01")


class NotSold(LookupError):
    """The shop has no such SKU."""


def total(items: Iterable[Mapping[str, Any]]) -> Decimal:
    """
    What the items cost now, with two decimals.

    :param items: mappings of ``sku`` and ``quantity``.
    :raises NotSold: for a SKU without a price.
    """
    with transaction() as shop:
        prices = dict(shop.execute("SELECT sku, unit_price FROM prices"))
    amount = Decimal(0)
    for index, item in enumerate(items):
        if item["sku"] not in prices:
            # Its place, not its name: the message ends up in logs.
            raise NotSold(f"items[{index}] is not sold here")
        amount += Decimal(prices[item["sku"]]) * item["quantity"]
    return amount.quantize(_CENT)


def set_price(sku: str, unit_price: str) -> None:
    """
    Sell ``sku`` at another price from now on.

    :param unit_price: decimal string above zero with at most two decimals, as ``"14.95"``.
    :raises ValueError: for anything else.
    """
    price = _price(unit_price)
    with transaction() as shop:
        shop.execute(
            "INSERT INTO prices (sku, unit_price) VALUES (?, ?) "
            "ON CONFLICT (sku) DO UPDATE SET unit_price = excluded.unit_price",
            (sku, str(price)),
        )


def _price(text: str) -> Decimal:
    try:
        price = Decimal(text)
        cents = price.quantize(_CENT)
    except InvalidOperation:
        # Not a number, or one without an end.
        cents = price = Decimal(0)
    if cents != price or price <= 0:
        raise ValueError("a price is a decimal string above zero with at most two decimals, such as '14.95'")
    return cents
