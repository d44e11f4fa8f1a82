"""
Ends a process where it reaches a named point, as a power cut would: by SIGKILL, without a last word.

A test arms a point in a process that is to die, has it work, and then proves with another process that
nothing was lost and nothing was done twice::

    if os.fork() == 0:
        crashes.kill_at("commit_effect.inside")
        run_inline(definition, params=params, ledger=open_ledger(url), run_id="run-1")

The points lie around every write of the ledger, and around the act of an effect; see
:mod:`louver.crash_points`. What they do not do: reach into a database. A server that dies is another matter.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from louver.crash_points import at_every_point
from louver.effects import ACTS
from louver.errors import ConfigurationError
from louver.ledger.operations import LedgerOperations

__all__ = ["act_at", "die", "disarm", "kill_at", "points", "recording"]


def points() -> tuple[str, ...]:
    """The names of all points, collected from the operations and acts that reach them."""
    found = [
        point
        for name in dir(LedgerOperations)
        for point in getattr(getattr(LedgerOperations, name), "crash_points", ())
    ]
    return (*found, *(f"{act}.{moment}" for act in ACTS.values() for moment in ("before", "after")))


def kill_at(point: str, *, hit: int = 1) -> None:
    """
    Have this process killed where it reaches the point.

    :param hit: the how-manieth time, from 1.
    :raises ConfigurationError: see :func:`act_at`.
    """
    act_at(point, die, hit=hit)


def act_at(point: str, action: Callable[[], None], *, hit: int = 1) -> None:
    """
    Have something done where this process reaches the point, instead of what was armed before.

    :param action: called once, in the thread that reaches the point.
    :param hit: the how-manieth time, from 1.
    :raises ConfigurationError: for a point or a hit that no process can reach: a test would prove nothing.
    """
    known = points()
    if point not in known:
        raise ConfigurationError(f"{point!r} is no crash point; there are: {', '.join(known)}")
    if hit < 1:
        raise ConfigurationError(f"a point is hit for the first time by hit=1, not {hit}")
    # Counted by one call into C: the thread that keeps a lease alive reaches points too.
    hits = itertools.count(1)

    def reached(name: str) -> None:
        if name == point and next(hits) == hit:
            action()

    at_every_point(reached)


def disarm() -> None:
    """Have nothing more happen at any point."""
    at_every_point(None)


@contextmanager
def recording() -> Iterator[list[str]]:
    """The points that this process reaches meanwhile, in order; nothing is armed during and afterwards."""
    reached: list[str] = []
    at_every_point(reached.append)
    try:
        yield reached
    finally:
        disarm()


def die() -> None:
    """End this process at once, by SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)
