"""
Keeps a reconciler running for as long as the scheduler lives.

The scheduler starts it as a program of its own, never as a thread or a fork: a scheduler forks its workers,
which would inherit locks and connections. It imports nothing of Airflow, so it costs little; the reconciler
is ``airflow louver reconcile --watch``, as a service would run it. However its parent ends, it ends too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

__all__ = ["PARENT", "RECONCILE", "end_with_parent", "is_orphan", "keep"]

PARENT = "_LOUVER_RECONCILER_PARENT"
"""Environment variable: the process that a reconciler is to end with."""

RECONCILE = ("-m", "airflow", "louver", "reconcile", "--watch")
"""What is kept running, as arguments of Python."""

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.5
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_STEADY_SECONDS = 60.0
_PATIENCE_SECONDS = 15.0


def end_with_parent(parent: int) -> bool:
    """
    Have the system send SIGTERM when the parent ends, where it can; False where it has ended already.

    :param parent: process id of it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # It may have ended before the system was asked.
    return not is_orphan(parent)


def is_orphan(parent: int) -> bool:
    """Whether the process of this id is not the parent (any more)."""
    return os.getppid() != parent


def keep(command: Sequence[str], *, parent: int, env: Mapping[str, str]) -> None:
    """
    Run the command, and again when it has ended, until the parent has ended or SIGTERM comes.

    It waits longer each time, up to a minute, unless the command has run for that long.

    :param command: program and arguments.
    :param env: its environment.
    """
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopping.append(number))
    wait = _FIRST_WAIT_SECONDS
    while end_with_parent(parent) and not stopping:
        began = time.monotonic()
        child = subprocess.Popen(command, env={**env, PARENT: str(os.getpid())}, stdin=subprocess.DEVNULL)
        while child.poll() is None and not stopping and not is_orphan(parent):
            _nap(_LOOK_SECONDS, child)
        if child.returncode is None:
            _end(child)
            return
        if time.monotonic() - began >= _STEADY_SECONDS:
            wait = _FIRST_WAIT_SECONDS
        print(
            f"louver: the reconciler ended with code {child.returncode}; it is started again in {wait:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        again = time.monotonic() + wait
        while time.monotonic() < again and not stopping and not is_orphan(parent):
            time.sleep(_LOOK_SECONDS)
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)


def _nap(seconds: float, child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(seconds)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    keep([sys.executable, *RECONCILE], parent=int(sys.argv[1]), env=os.environ)
