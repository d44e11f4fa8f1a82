"""What the steps of that Dag do: one buys, with a payload that stands nowhere else; the other fails."""

from __future__ import annotations

from typing import Any

__all__ = ["buy", "give_back", "ship"]

MARKER = "payload-zq7told"


def buy(ctx: Any) -> dict[str, str]:
    """An effect that can be undone."""
    bought = ctx.effect("buy", intent={"what": MARKER}, perform=lambda key: MARKER, compensate=give_back)
    return {"bought": bought}


def give_back(undo: Any) -> str:
    """Undo it."""
    return MARKER


def ship(bought: Any) -> None:
    """It does not."""
    raise ValueError(MARKER)
