"""What the providers really did for an order, read from their own file: the proof beside Louver's ledger."""

from __future__ import annotations

from shop.database import transaction

__all__ = ["ACTING", "calls", "counts", "sequence"]

ACTING = ("stock.reserve", "payments.charge", "mail.send", "payments.refund", "stock.release")
"""Actions that change the world, as they come in a run that goes well, then the undos."""


def sequence(order_id: str) -> list[str]:
    """The order's real effects in the order in which they happened, as ``["stock.reserve", ...]``."""
    with transaction() as shop:
        rows = shop.execute("SELECT provider, action FROM done WHERE order_id = ? ORDER BY id", (order_id,))
        return [f"{provider}.{action}" for provider, action in rows]


def counts(order_id: str) -> dict[str, int]:
    """How often each action of :data:`ACTING` was really done for the order; 0 where it was not."""
    happened = sequence(order_id)
    return {action: happened.count(action) for action in ACTING}


def calls(order_id: str) -> dict[str, int]:
    """How often each action was asked for, requests that failed or found their work done included."""
    with transaction() as shop:
        rows = shop.execute("SELECT provider, action FROM calls WHERE order_id = ?", (order_id,))
        asked = [f"{provider}.{action}" for provider, action in rows]
    return {action: asked.count(action) for action in ACTING}
