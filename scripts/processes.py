"""
Process groups, looked at and signalled.

A process is named by its id and its time of birth: ids are used again, and a stale file must never end a
stranger. Where the system has no ``/proc``, the id alone has to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["alive", "born", "is_group", "members", "signal_groups"]

_PROC = Path("/proc")


def born(pid: int) -> str | None:
    """When the process was started, in the kernel's own ticks; None where nobody can tell."""
    fields = _fields(pid)
    return fields[19] if fields else None


def alive(pid: int, birth: str | None) -> bool:
    """Whether that very process runs; one that has ended and was not waited for does not."""
    if not _PROC.is_dir():
        return _reachable(pid)
    fields = _fields(pid)
    return fields is not None and fields[0] not in "ZX" and birth in (None, fields[19])


def is_group(pid: int, birth: str | None) -> bool:
    """Whether the group that this process leads, or led, still has members of its own."""
    fields = _fields(pid)
    if fields is not None and birth not in (None, fields[19]):
        # The id is another process's now, so the group ended: an id is not given away while a group has it.
        return False
    return bool(members(pid))


def members(group: int) -> list[int]:
    """The living processes of the group."""
    if not _PROC.is_dir():
        return [group] if _reachable(-group) else []
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields is not None and fields[2] == str(group) and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def signal_groups(groups: Iterable[int], number: int) -> None:
    """Signal every process of the groups; one that is gone is fine."""
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
