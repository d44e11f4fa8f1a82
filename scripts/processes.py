"""
Processes that outlive their starter: each leads a group of its own, and is found again by a file.

A process is named by its id and its time of birth: ids are used again, and a stale file must never end a
stranger. Where the system has no ``/proc``, the id alone has to do.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Components", "ended_by_all_means", "last_lines", "read_json", "write_json"]

_PROC = Path("/proc")


class Components:
    """
    The long-running processes of one home.

    :param file: remembers them.
    :param logs: folder for their output, one file each.
    """

    def __init__(self, file: Path, *, logs: Path) -> None:
        self._file = file
        self._logs = logs
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def known(self) -> dict[str, dict[str, Any]]:
        """Process id and birth by name, of those that were started and not ended."""
        return read_json(self._file)

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str], folder: Path) -> None:
        """Start one in the background."""
        with (self._logs / f"{name}.log").open("ab") as log:
            # A session and group of its own: Ctrl-C and a closed terminal do not reach it, and one signal to
            # the group reaches all that it starts.
            child = subprocess.Popen(
                command,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[name] = child
        write_json(self._file, {**self.known(), name: {"pid": child.pid, "born": _born(child.pid)}})

    def dead(self) -> list[str]:
        """Names of those that have ended by themselves."""
        self._reap()
        return [name for name, entry in self.known().items() if not _alive(entry["pid"], entry["born"])]

    def tail(self, name: str) -> str:
        """The end of its log."""
        path = self._logs / f"{name}.log"
        return last_lines(path.read_text(errors="replace")) if path.exists() else "(it wrote none)"

    def end(self, *, patience: float) -> bool:
        """
        End all of them, with everything that they started: SIGTERM, then SIGKILL after ``patience`` seconds.

        :returns: whether there was anything to end.
        :raises TimeoutError: where even SIGKILL does not end them.
        """
        groups = {
            entry["pid"] for entry in self.known().values() if _leads_group(entry["pid"], entry["born"])
        }
        found = bool(groups)
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            _signal(groups, number)
            deadline = time.monotonic() + seconds
            while groups and time.monotonic() < deadline:
                self._reap()
                groups = {group for group in groups if _members(group)}
                time.sleep(0.05)
        if groups:
            raise TimeoutError(f"process groups {sorted(groups)} do not end, not even by SIGKILL")
        for child in self._children.values():
            # Its first thread may be gone before the last one is; until then nobody can wait for it.
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=10)
        self._file.unlink(missing_ok=True)
        self._children.clear()
        return found

    def _reap(self) -> None:
        """A child that ended and that nobody waited for would look alive where there is no ``/proc``."""
        for child in self._children.values():
            child.poll()


@contextmanager
def ended_by_all_means(end: Callable[[], object]) -> Iterator[None]:
    """Call ``end`` after the block, whatever ends it: an error, Ctrl-C, SIGTERM, SIGHUP or an exit."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    atexit.register(end)
    try:
        yield
    finally:
        # Neither a second signal nor an impatient Ctrl-C may interrupt the ending.
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        end()
        atexit.unregister(end)
        for number, handler in before.items():
            signal.signal(number, handler)


def _born(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[19] if fields else None


def _alive(pid: int, birth: str | None) -> bool:
    if not _PROC.is_dir():
        return _reachable(pid)
    fields = _fields(pid)
    return fields is not None and fields[0] not in "ZX" and birth in (None, fields[19])


def _leads_group(pid: int, birth: str | None) -> bool:
    """Whether the group of this process still has living members, with or without the process itself."""
    fields = _fields(pid)
    if fields is not None and birth not in (None, fields[19]):
        # Another process has the id now, so the group is gone: an id is not given away while a group has it.
        return False
    return bool(_members(pid))


def _members(group: int) -> list[int]:
    if not _PROC.is_dir():
        return [group] if _reachable(-group) else []
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields is not None and fields[2] == str(group) and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def _signal(groups: Iterable[int], number: int) -> None:
    for group in groups:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            continue


def _fields(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` after the command: state, parent, group, ... (proc(5))."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command may hold spaces and parentheses; the last one closes it.
    return text.rpartition(")")[2].split()


def _reachable(target: int) -> bool:
    try:
        os.kill(target, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_json(path: Path) -> dict[str, Any]:
    """
    The object in the file; empty where there is no file.

    :raises ValueError: where it holds anything else.
    """
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        raise ValueError(f"{path} is not as it was written; remove {path.parent} to start afresh") from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write the object for the owner alone, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(dict(content), file)
    draft.replace(path)


def last_lines(text: str, count: int = 25) -> str:
    """The end of a text."""
    return "\n".join(text.rstrip().splitlines()[-count:])
