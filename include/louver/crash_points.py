"""
Named points before, inside and after every write, where a test can end the process.

Without a test they do nothing. :mod:`louver.testing.crashes` arms them, in the process that is to die.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["at_every_point", "reach"]

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """
    Say that ``point`` is reached.

    :param point: ``<operation>.before``, ``<operation>.inside`` (written, and not committed yet) or
        ``<operation>.after`` for an operation of the ledger; ``perform.before`` and ``perform.after`` around
        the act itself, ``undo.perform.before`` and ``undo.perform.after`` around what undoes it.
    """
    if _hook is not None:
        _hook(point)


def at_every_point(hook: Callable[[str], None] | None) -> None:
    """Have ``hook`` called with the name of each point that this process reaches; None ends it."""
    global _hook
    _hook = hook
