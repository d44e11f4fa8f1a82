"""What the figures should be (issue 3, point 10), and whether they are. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Aim", "at_least", "at_most"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """
    A figure beside its limit.

    :param limit: kept where the figure is exactly the limit, too.
    :param upwards: more is better.
    """

    what: str
    value: float
    limit: float
    unit: str
    upwards: bool

    @property
    def kept(self) -> bool:
        """Whether the figure is on the right side of its limit."""
        return self.value >= self.limit if self.upwards else self.value <= self.limit

    @property
    def verdict(self) -> str:
        """``ok`` or ``MISSED``."""
        return "ok" if self.kept else "MISSED"

    @property
    def wish(self) -> str:
        """The limit in words."""
        return f"{'at least' if self.upwards else 'at most'} {self.limit:.2f} {self.unit}"


def at_most(limit: float, unit: str, *, what: str, value: float) -> Aim:
    """An aim that a smaller figure keeps."""
    return Aim(what=what, value=value, limit=limit, unit=unit, upwards=False)


def at_least(limit: float, unit: str, *, what: str, value: float) -> Aim:
    """An aim that a larger figure keeps."""
    return Aim(what=what, value=value, limit=limit, unit=unit, upwards=True)
