"""What the system tells about processes, and free ports for them."""

from __future__ import annotations

import socket
from pathlib import Path

__all__ = ["alive", "children_of", "free_port"]

_PROC = Path("/proc")


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens at, just now."""
    with socket.socket() as taken:
        taken.bind((host, 0))
        return taken.getsockname()[1]


def children_of(parent: int) -> list[int]:
    """Process ids of its children; none where there is no ``/proc``."""
    found = []
    for directory in _PROC.glob("[0-9]*"):
        state = _status(directory)
        if state is not None and state[1] == str(parent):
            found.append(int(directory.name))
    return found


def alive(process: int) -> bool:
    """Whether it runs; one that only waits for its parent to ask does not."""
    state = _status(_PROC / str(process))
    return state is not None and state[0] != "Z"


def _status(directory: Path) -> list[str] | None:
    """State, parent and so on; the name before them is in brackets and may hold any character."""
    try:
        return (directory / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
