"""The payment provider: takes money from a customer, and gives it back."""

from __future__ import annotations

from shop.providers import desk

__all__ = ["charge", "find", "refund"]


def charge(key: str, *, order_id: str, customer_id: str, amount: str, currency: str) -> dict[str, str]:
    """
    Take the amount.

    :param key: idempotency key.
    :param amount: decimal string.
    :returns: ``{"charge": reference}``.
    :raises ProviderError: see :mod:`shop.providers`.
    """
    body = {"customer_id": customer_id, "amount": amount, "currency": currency}
    return {"charge": desk.handle("payments", "charge", key, order_id=order_id, body=body)}


def refund(key: str, *, charge: str) -> dict[str, str]:
    """
    Give back the whole charge.

    :param key: idempotency key of this request, not of the charge.
    :param charge: the charge's reference.
    :returns: ``{"refund": reference}``.
    :raises ProviderError: see :mod:`shop.providers`.
    """
    order_id = desk.order_of("payments", "charge", charge)
    return {"refund": desk.handle("payments", "refund", key, order_id=order_id, body={"charge": charge})}


def find(key: str) -> dict[str, str] | None:
    """What :func:`charge` returned under ``key``; None where it did nothing."""
    reference = desk.find("payments", "charge", key)
    return None if reference is None else {"charge": reference}
