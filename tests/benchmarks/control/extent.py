"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Extent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """
    So much of each part.

    :param checkpoint_rounds: blocks of checkpoints.
    :param checkpoints: in each block.
    :param pauses: runs, each of which is paused and resumed once.
    :param hammered: runs whose step is paused and resumed at all the moments around the park.
    :param pairs: runs of ten steps and ten plain tasks, one after the other, on each database.
    :param live_tasks: that the reconciler looks at.
    """

    checkpoint_rounds: int
    checkpoints: int
    pauses: int
    hammered: int
    pairs: int
    live_tasks: int


FULL = Extent(checkpoint_rounds=15, checkpoints=50_000, pauses=12, hammered=3, pairs=5, live_tasks=10_000)
QUICK = Extent(checkpoint_rounds=3, checkpoints=1_000, pauses=2, hammered=1, pairs=2, live_tasks=1_000)
