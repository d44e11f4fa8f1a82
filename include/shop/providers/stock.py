"""The warehouse: sets items aside for an order, and puts them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shop.providers import desk

__all__ = ["find", "release", "reserve"]


def reserve(key: str, *, order_id: str, items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """
    Set the items aside.

    :param key: idempotency key.
    :param items: mappings of ``sku`` and ``quantity``.
    :returns: ``{"reservation": reference}``.
    :raises ProviderError: see :mod:`shop.providers`.
    """
    body = {"items": list(items)}
    return {"reservation": desk.handle("stock", "reserve", key, order_id=order_id, body=body)}


def release(key: str, *, reservation: str) -> dict[str, str]:
    """
    Put back what was reserved.

    :param key: idempotency key of this request, not of the reservation.
    :returns: ``{"release": reference}``.
    :raises ProviderError: see :mod:`shop.providers`.
    """
    order_id = desk.order_of("stock", "reserve", reservation)
    body = {"reservation": reservation}
    return {"release": desk.handle("stock", "release", key, order_id=order_id, body=body)}


def find(key: str) -> dict[str, str] | None:
    """What :func:`reserve` returned under ``key``; None where it did nothing."""
    reference = desk.find("stock", "reserve", key)
    return None if reference is None else {"reservation": reference}
