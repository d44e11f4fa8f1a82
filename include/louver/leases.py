"""Keeping leases alive while their holders are inside calls that may take long."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from louver.errors import LedgerError

__all__ = ["kept_alive"]

log = logging.getLogger(__name__)


@contextmanager
def kept_alive(renew: Callable[[], None], *, every: float) -> Iterator[None]:
    """
    Call ``renew`` every so many real seconds until the context is left.

    A renewal that fails is logged and tried again: the call inside cannot be taken back, and the lease says
    only how long nobody else may take its outcome for unknown. One thread of the process renews for all: most
    calls are over long before their first renewal, and a thread for each would cost more than they do.

    :param every: seconds between renewals; a third of the lease leaves room for two misses.
    """
    keeper = _keeper()
    held = keeper.take(renew, every)
    try:
        yield
    finally:
        keeper.give(held)


@dataclass(slots=True, eq=False)
class _Held:
    renew: Callable[[], None]
    every: float
    due: float
    lock: threading.Lock
    over: bool = False


class _Keeper:
    """Renews for all leases of one process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[_Held] = set()
        self._wakes_at = float("inf")
        self._thread: threading.Thread | None = None

    def take(self, renew: Callable[[], None], every: float) -> _Held:
        """Begin to renew."""
        held = _Held(renew, every, time.monotonic() + every, threading.Lock())
        with self._changed:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="louver-leases", daemon=True)
                self._thread.start()
            elif held.due < self._wakes_at:
                self._changed.notify()
        return held

    def give(self, held: _Held) -> None:
        """End it; a renewal that is under way is waited for."""
        with self._changed:
            self._held.discard(held)
        with held.lock:
            held.over = True

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._wakes_at = min((held.due for held in self._held), default=float("inf"))
                wait = None if not self._held else max(0.0, self._wakes_at - time.monotonic())
                self._changed.wait(wait)
                now = time.monotonic()
                due = [held for held in self._held if held.due <= now]
                for held in due:
                    held.due = now + held.every
            for held in due:
                _renew(held)


def _renew(held: _Held) -> None:
    with held.lock:
        if held.over:
            return
        try:
            held.renew()
        except LedgerError as error:
            log.warning("a lease could not be renewed: %s", error)
        except Exception:
            # Not this thread's end: it renews for others too.
            log.exception("a lease could not be renewed")


_KEEPERS: dict[int, _Keeper] = {}


def _keeper() -> _Keeper:
    # By process id: a forked child has none of its parent's threads.
    process = os.getpid()
    return _KEEPERS.get(process) or _KEEPERS.setdefault(process, _Keeper())
