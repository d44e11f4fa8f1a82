"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Extent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """
    So much of each part.

    :param steps: of the workflow that is parsed.
    :param parsings: rounds of parsing.
    :param chains: runs of each chain, on each database.
    :param fans: runs of each fan-out.
    """

    steps: int
    parsings: int
    chains: int
    fans: int


FULL = Extent(steps=300, parsings=15, chains=7, fans=5)
QUICK = Extent(steps=60, parsings=2, chains=1, fans=1)
