"""
Faults on order: a provider fails, hangs, or does the work and loses the answer; a step's process is killed,
or held at its start.

They are told through the shop's file, so that a test or a demo can reach a task in another process. A fault
is consumed in the transaction that reads it, before it shows: one that was told once happens once, even where
it takes the process with it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from dataclasses import dataclass
from enum import Enum

from shop.database import transaction

__all__ = [
    "ACTIONS",
    "HELD_STEPS",
    "STEPS",
    "Fault",
    "Mode",
    "crash_point",
    "forget",
    "hold",
    "kill_after_effect",
    "release",
    "start_point",
    "take",
    "tell",
]

ACTIONS = frozenset(
    {
        "stock.reserve",
        "stock.release",
        "stock.find",
        "payments.charge",
        "payments.refund",
        "payments.find",
        "mail.send",
        "mail.find",
    }
)
"""Where a provider can be told to misbehave."""

STEPS = frozenset({"reserve_inventory", "charge", "notify", "stage"})
"""
Steps whose process can be killed once their effect is recorded; of the sales pipeline ``stage``, after a
checkpoint, with the partition (``2026-03-28/koeln``) as its order.
"""

HELD_STEPS = frozenset({"charge"})
"""Steps that can be held at their start."""

_ANY_ORDER = ""
_KILL = "kill"
_HOLD = "hold"
_POLL_SECONDS = 0.1


class Mode(str, Enum):
    """How a provider misbehaves."""

    FAIL = "fail"
    """It refuses, before it does anything."""
    FAIL_FOR_GOOD = "fail_for_good"
    """It refuses every time, until :func:`forget`."""
    HANG = "hang"
    """It takes its time, then does the work and answers."""
    LOSE_ANSWER = "lose_answer"
    """It does the work, but the caller sees a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, taken by the request that shall show it; ``seconds`` counts for ``hang`` alone."""

    mode: Mode
    seconds: float


def tell(
    action: str, mode: Mode | str, *, times: int = 1, seconds: float = 0.0, order_id: str | None = None
) -> None:
    """
    Make the next requests misbehave; replaces what was told before for the same action and order.

    :param action: one of :data:`ACTIONS`, as ``payments.charge``.
    :param mode: a :class:`Mode` or its value.
    :param times: how many requests, 1 or more; without meaning for ``fail_for_good``.
    :param seconds: how long to hang.
    :param order_id: only requests for this order; by default all.
    :raises ValueError: for an unknown action or mode, or a number out of range: a fault that can never show
        would make a test prove nothing.
    """
    mode = Mode(mode)
    if action not in ACTIONS:
        raise ValueError(f"{action!r} is no action; there are: {', '.join(sorted(ACTIONS))}")
    if times < 1:
        raise ValueError("times must be 1 or more")
    if seconds < 0 or (mode is Mode.HANG) != (seconds > 0):
        raise ValueError("seconds must be above 0 for 'hang', and is for no other mode")
    remaining = None if mode is Mode.FAIL_FOR_GOOD else times
    _store(action, order_id=order_id, mode=mode.value, remaining=remaining, seconds=seconds)


def kill_after_effect(step: str, *, order_id: str | None = None) -> None:
    """
    Have the step's process kill itself, once, after its effect was recorded and before it returns.

    :param step: one of :data:`STEPS`.
    :param order_id: only for this order; by default for the next one.
    :raises ValueError: for another step.
    """
    if step not in STEPS:
        raise ValueError(f"{step!r} is no step with an effect; there are: {', '.join(sorted(STEPS))}")
    _store(_after(step), order_id=order_id, mode=_KILL, remaining=1, seconds=0.0)


def hold(step: str, *, order_id: str, seconds: float = 120.0) -> None:
    """
    Have the step wait at its start until :func:`release`, so that the world can change under it.

    :param step: one of :data:`HELD_STEPS`.
    :param seconds: after which it goes on by itself.
    :raises ValueError: for another step.
    """
    if step not in HELD_STEPS:
        raise ValueError(f"{step!r} is no step that can be held; there are: {', '.join(sorted(HELD_STEPS))}")
    _store(_before_step(step), order_id=order_id, mode=_HOLD, remaining=None, seconds=seconds)


def release(step: str, *, order_id: str) -> None:
    """Let go what :func:`hold` holds."""
    with transaction() as shop:
        shop.execute("DELETE FROM faults WHERE place = ? AND order_id = ?", (_before_step(step), order_id))


def start_point(step: str, *, order_id: str) -> None:
    """Wait here, if :func:`hold` said so."""
    began = time.monotonic()
    while True:
        with transaction() as shop:
            row = shop.execute(
                "SELECT seconds FROM faults WHERE place = ? AND order_id = ?", (_before_step(step), order_id)
            ).fetchone()
        if row is None or time.monotonic() - began >= row[0]:
            return
        time.sleep(_POLL_SECONDS)


def forget() -> None:
    """Take back every fault that has not shown yet."""
    with transaction() as shop:
        shop.execute("DELETE FROM faults")


def crash_point(step: str, *, order_id: str) -> None:
    """Die here, by SIGKILL, if :func:`kill_after_effect` said so."""
    with transaction() as shop:
        doomed = _consume(shop, _after(step), order_id) is not None
    # Outside the block: the fault's row is committed as consumed, so the retry survives this line.
    if doomed:
        os.kill(os.getpid(), signal.SIGKILL)


def take(shop: sqlite3.Connection, action: str, *, order_id: str | None) -> Fault | None:
    """
    The fault that this request shall show, if one was told; consumed with the caller's transaction.

    :param order_id: the request's order; ``None`` where it names none, then only faults for all orders count.
    """
    row = _consume(shop, action, order_id)
    return None if row is None else Fault(mode=Mode(row[0]), seconds=row[1])


def _after(step: str) -> str:
    return f"after {step}"


def _before_step(step: str) -> str:
    return f"before {step}"


def _store(place: str, *, order_id: str | None, mode: str, remaining: int | None, seconds: float) -> None:
    with transaction() as shop:
        shop.execute(
            "REPLACE INTO faults (place, order_id, mode, remaining, seconds) VALUES (?, ?, ?, ?, ?)",
            (place, order_id or _ANY_ORDER, mode, remaining, seconds),
        )


def _consume(shop: sqlite3.Connection, place: str, order_id: str | None) -> tuple[str, float] | None:
    # The order's own fault comes before the one for every order: '' sorts first.
    row = shop.execute(
        "SELECT order_id, mode, seconds FROM faults WHERE place = ? AND order_id IN (?, ?) "
        "ORDER BY order_id DESC LIMIT 1",
        (place, order_id or _ANY_ORDER, _ANY_ORDER),
    ).fetchone()
    if row is None:
        return None
    told_for, mode, seconds = row
    # NULL stays NULL, so a fault for good is never used up.
    shop.execute(
        "UPDATE faults SET remaining = remaining - 1 WHERE place = ? AND order_id = ?", (place, told_for)
    )
    shop.execute("DELETE FROM faults WHERE remaining = 0")
    return mode, seconds
