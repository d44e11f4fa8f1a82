"""Which Louver task this process is living; a task process lives one."""

from __future__ import annotations

from louver.ledger.names import TaskKey

__all__ = ["is_current_step", "remember_step"]

# Airflow pushes the result after the operator has returned, and runs the operator in a copy of its context: a
# plain module variable is what both see.
_LIVING: list[TaskKey] = []


def remember_step(key: TaskKey) -> None:
    """This process lives that task now."""
    _LIVING[:] = [key]


def is_current_step(key: TaskKey) -> bool:
    """Whether this process lives, or has just lived, that task."""
    return key in _LIVING
