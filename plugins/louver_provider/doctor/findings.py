"""What a check has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Level", "some"]


class Level(str, Enum):
    """
    How bad it is.

    ``error``: something waits for ever, is not done, or not where it should be. ``warning``: it will be, or
    it cannot be told. ``ok``: it was looked at, and is in order.
    """

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that was looked at.

    :param check: its name, which stays the same between releases.
    :param what: what is so, with ids and numbers.
    :param mend: what to do about it; empty where there is nothing to do.
    """

    check: str
    level: Level
    what: str
    mend: str = ""

    @classmethod
    def error(cls, check: str, what: str, *, mend: str) -> Finding:
        """Something is wrong."""
        return cls(check=check, level=Level.ERROR, what=what, mend=mend)

    @classmethod
    def warning(cls, check: str, what: str, *, mend: str) -> Finding:
        """Something may be wrong."""
        return cls(check=check, level=Level.WARNING, what=what, mend=mend)

    @classmethod
    def fine(cls, check: str, what: str) -> Finding:
        """It is in order."""
        return cls(check=check, level=Level.OK, what=what)


def some(names: Iterable[str], *, most: int = 5) -> str:
    """A few of these names, and how many more there are."""
    found: Sequence[str] = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
