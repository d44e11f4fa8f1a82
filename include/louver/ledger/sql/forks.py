"""
SQLite and forks.

SQLite remembers for each file which locks its process holds. A forked child inherits that memory but not the
locks, so a connection that was open at the fork spoils every later one of the child to the same file: it
takes no lock because it believes to have it, and the parent, closing, removes a log that is in use
(https://sqlite.org/howtocorrupt.html, section 2.6). A pool of the child's own does not help. So no connection
is open when a fork happens: the parent lets go of its idle ones just before, and takes new ones when it needs
them.
"""

from __future__ import annotations

import os
import time
from threading import Lock
from typing import Protocol
from weakref import WeakSet

__all__ = ["Pooled", "taking", "watch"]

_WAIT_SECONDS = 1.0
_STEP_SECONDS = 0.002


class Pooled(Protocol):
    """Somebody who keeps connections."""

    def release(self) -> bool:
        """Close the idle ones; False while one is in use."""

    def spoil(self) -> None:
        """Called in a child that was forked while one was in use."""


class _Gate:
    """Shut while a fork is under way; connections are taken through it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.watched: WeakSet[Pooled] = WeakSet()
        self.in_use: list[Pooled] = []
        self.registered = False

    def before(self) -> None:
        """Let no new transaction begin, those of other threads end, and close what is idle then."""
        self.lock.acquire()
        deadline = time.monotonic() + _WAIT_SECONDS
        self.in_use = [pooled for pooled in self.watched if not pooled.release()]
        # Bounded: it may be the forking thread's own transaction, which does not end here.
        while self.in_use and time.monotonic() < deadline:
            time.sleep(_STEP_SECONDS)
            self.in_use = [pooled for pooled in self.in_use if not pooled.release()]

    def after_in_parent(self) -> None:
        """Go on."""
        self.in_use = []
        self.lock.release()

    def after_in_child(self) -> None:
        """Go on, without what could not be let go."""
        self.lock = Lock()
        for pooled in self.in_use:
            pooled.spoil()
        self.in_use = []


_GATE = _Gate()


def watch(pooled: Pooled) -> None:
    """Have ``pooled`` let go before each fork, for as long as it lives."""
    with _GATE.lock:
        _GATE.watched.add(pooled)
        if _GATE.registered:
            return
        # Not at import: a process without a SQLite ledger is left alone.
        os.register_at_fork(
            before=_GATE.before,
            after_in_parent=_GATE.after_in_parent,
            after_in_child=_GATE.after_in_child,
        )
        _GATE.registered = True


def taking() -> Lock:
    """What to hold while a connection is taken, so that none is opened in the middle of a fork."""
    return _GATE.lock
