"""
One poller for each triggerer: a thread beside its event loop asks the ledger for all tasks that wait.

A triggerer may have thousands of triggers in one loop; none of them asks the ledger itself, and the loop
never waits for a database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from louver.clock import SystemClock
from louver.errors import LouverError
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.permits import PermitSettings
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["Poller", "get_poller", "look"]

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0
_PAGE = 200


def look(ledger: Ledger, settings: PermitSettings, keys: list[TaskKey]) -> dict[TaskKey, str]:
    """
    Do what time has brought, and see which of these tasks have something to do.

    :returns: why, in a word; without those that go on waiting.
    """
    now = SystemClock().now()
    if ledger.plan_permits(now=now).changes:
        ledger.settle_permits(limits=settings.limits, terms=settings.terms, now=now)
    # Some at a time: a statement takes only so many values.
    pages = (keys[first : first + _PAGE] for first in range(0, len(keys), _PAGE))
    return {
        watch.task: "asked" if watch.asked else str(watch.stage or "left out")
        for page in pages
        for watch in ledger.list_permit_watches(page)
        if watch.wake
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    key: TaskKey
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[str]


class Poller:
    """
    Asks for all that wait, one question for all of them.

    :param look_once: what is asked: keys in, reasons out.
    :param every: seconds between two questions.
    :param pause: seconds after one that had no answer.
    """

    def __init__(
        self,
        look_once: Callable[[list[TaskKey]], dict[TaskKey, str]],
        *,
        every: Callable[[], float],
        pause: float = _PAUSE_SECONDS,
    ) -> None:
        self._look = look_once
        self._every = every
        self._pause = pause
        self._changed = threading.Condition()
        self._waiting: set[_Waiting] = set()
        self._thread: threading.Thread | None = None
        self._trouble: str | None = None

    async def wait_for(self, key: TaskKey) -> str:
        """Until the task has something to do; says what."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(key, loop, loop.create_future())
        with self._changed:
            self._waiting.add(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, name="louver-permits", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            return await waiting.future
        finally:
            with self._changed:
                self._waiting.discard(waiting)

    def _poll(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                asked = list(self._waiting)
            pause = self._pause
            try:
                found = self._look(sorted({waiting.key for waiting in asked}))
                pause = self._every()
            except Exception as error:
                self._say(error)
            else:
                self._trouble = None
                for waiting in asked:
                    if waiting.key in found:
                        self._tell(waiting, found[waiting.key])
            threading.Event().wait(pause)

    def _tell(self, waiting: _Waiting, why: str) -> None:
        with self._changed:
            self._waiting.discard(waiting)
        try:
            waiting.loop.call_soon_threadsafe(_answer, waiting.future, why)
        except RuntimeError:
            # Its loop is closed; whoever takes the trigger over asks again.
            log.debug("louver: a trigger's loop has ended")

    def _say(self, error: Exception) -> None:
        """Once, and again when it is another trouble."""
        words = str(error) if isinstance(error, LouverError) else type(error).__name__
        if words != self._trouble:
            self._trouble = words
            log.warning("louver [permits.trouble] who waits for resources could not be looked at: %s", words)


def _answer(future: asyncio.Future[str], why: str) -> None:
    if not future.done():
        future.set_result(why)


_POLLERS: dict[int, Poller] = {}


def get_poller() -> Poller:
    """This process's poller; by process id, as a forked child has none of its parent's threads."""
    process = os.getpid()
    return _POLLERS.get(process) or _POLLERS.setdefault(process, Poller(_look, every=_every))


def _look(keys: list[TaskKey]) -> dict[TaskKey, str]:
    return look(get_ledger(), load_settings().permits, keys)


def _every() -> float:
    return load_settings().permits.look_every.total_seconds()
