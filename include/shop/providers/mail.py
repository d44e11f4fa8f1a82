"""The mail service: writes to a customer, whose address it knows by the id. What is sent is sent: no undo."""

from __future__ import annotations

from shop.providers import desk

__all__ = ["find", "send"]


def send(key: str, *, order_id: str, customer_id: str, template: str) -> dict[str, str]:
    """
    Send one mail.

    :param key: idempotency key.
    :param template: the name of the text.
    :returns: ``{"mail": reference}``.
    :raises ProviderError: see :mod:`shop.providers`.
    """
    body = {"customer_id": customer_id, "template": template}
    return {"mail": desk.handle("mail", "send", key, order_id=order_id, body=body)}


def find(key: str) -> dict[str, str] | None:
    """What :func:`send` returned under ``key``; None where it did nothing."""
    reference = desk.find("mail", "send", key)
    return None if reference is None else {"mail": reference}
