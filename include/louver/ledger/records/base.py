"""What every kind of row has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A row; subclasses say where it is kept."""

    TABLE: ClassVar[str]
    PRIMARY: ClassVar[tuple[str, ...]]
