"""
Proof that a process is dead.

A lease that ran out proves nothing: its holder may sit in a provider's call. The same machine can do better:
it knows its own processes, by boot, process id namespace, process id and start time. Another machine's
process is never proved dead here; then lease and quiesce have to do (semantics section 3, point 5).
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import ClassVar

__all__ = ["LocalProcesses"]

_PROC = Path("/proc")


class LocalProcesses:
    """
    Names this process and judges others of this machine.

    Several calls can be alive in one process (embedded runs); each takes a name of its own with
    :meth:`call`, and is dead once it has left.
    """

    # Shared by all instances: a call that one of them named must not look dead to another.
    _calls: ClassVar[set[str]] = set()
    _numbers: ClassVar[Iterator[int]] = itertools.count(1)
    _lock: ClassVar[Lock] = Lock()

    def name(self) -> str:
        """``host/boot/namespace/pid/start`` of this process."""
        return "/".join([*_machine(), str(os.getpid()), _start_time(os.getpid()) or "-"])

    @contextmanager
    def call(self) -> Iterator[str]:
        """A name for one call in this process, alive as long as the context is."""
        with self._lock:
            name = f"{self.name()}/{next(self._numbers)}"
            self._calls.add(name)
        try:
            yield name
        finally:
            with self._lock:
                self._calls.discard(name)

    def is_neighbour(self, process: str) -> bool:
        """Whether the named process is or was one of this machine, boot and namespace: it can be judged."""
        return "-" not in _machine() and process.split("/")[:3] == _machine()

    def proves_dead(self, process: str) -> bool:
        """Whether it is certain that the named process, or call, acts no more."""
        parts = process.split("/")
        if len(parts) not in (5, 6):
            return False
        host, boot, namespace, pid, start = parts[:5]
        here = _machine()
        if host != here[0] or "-" in (boot, here[1], start):
            return False
        # Another boot of this machine, or another machine of the same name: there is no telling.
        if boot != here[1] or namespace != here[2] or not pid.isdecimal():
            return False
        if int(pid) != os.getpid() or start != _start_time(os.getpid()):
            return _has_ended(int(pid), start)
        with self._lock:
            return len(parts) == 6 and process not in self._calls


def _machine() -> list[str]:
    host = socket.gethostname().replace("/", "_") or "-"
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        # No /proc, no proof: everything then rests on leases.
        return [host, "-", "-"]
    return [host, boot, namespace]


def _has_ended(pid: int, start: str) -> bool:
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        # Not shown is not gone: /proc may hide the processes of other users.
        return not _exists(pid)
    except OSError:
        return False
    # A zombie acts no more; another start time is another process under the same number.
    return fields[0] in ("Z", "X", "x") or fields[19] != start


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _start_time(pid: int) -> str | None:
    """Clock ticks since boot at which the process began; None where that cannot be read."""
    try:
        return _stat(pid)[19]
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    # The name in parentheses may hold anything, so count from its end: state is first, start time the 20th.
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
