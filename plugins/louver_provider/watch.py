"""
The thread that watches a step from inside its process, and ends the process where asking was in vain.

It asks the ledger what people want, says that the task lives, and keeps its limits. What it cannot reach by a
checkpoint it ends by SIGTERM, and then by SIGKILL, children included: code that swallows exceptions, or waits
inside C, does not run on (case D04). Code that never lets go of the interpreter stops this thread too; then
the reconciler has Airflow end the process.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psutil

from louver.clock import SystemClock
from louver.supervision import Supervision

__all__ = ["end_children", "watching"]

log = logging.getLogger(__name__)

_INSIST = 5.0


def watching(interval: timedelta) -> Callable[[Supervision], object]:
    """How to watch a step, asking every ``interval``."""

    @contextmanager
    def watch(supervision: Supervision) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(
            target=_watch,
            args=(supervision, done, interval.total_seconds()),
            name="louver-watch",
            daemon=True,
        )
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            if supervision.interrupted:
                # What the step started and left behind would act on without it.
                end_children()

    return watch


def _watch(supervision: Supervision, done: threading.Event, interval: float) -> None:
    clock = SystemClock()
    # The first look comes early: what was asked for as the step began is seen sooner, and a step of just one
    # interval does not wait at its end for a look that has just begun.
    wait = interval / 2
    while not done.wait(wait):
        wait = interval
        try:
            supervision.poll()
        except Exception:
            log.exception("louver: a step could not be watched; trying again")
            continue
        why = supervision.overdue(clock.now())
        if why is not None:
            _end(supervision, done, why)
            return


def _end(supervision: Supervision, done: threading.Event, why: str) -> None:
    log.warning("louver [process.ending] %s: SIGTERM now, SIGKILL in %s s", why, _INSIST)
    # Airflow's handler calls the operator's on_kill, which raises in the step's own code.
    os.kill(os.getpid(), signal.SIGTERM)
    if done.wait(_INSIST):
        return
    try:
        supervision.give_up(why)
    except Exception:
        log.exception("louver: the end of a step could not be recorded; whoever comes next will")
    log.warning("louver [process.killed] %s", why)
    end_children()
    os.kill(os.getpid(), signal.SIGKILL)


def end_children() -> None:
    """Kill what this process has started, and what that has started."""
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
