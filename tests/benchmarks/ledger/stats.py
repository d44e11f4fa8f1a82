"""Samples taken in rounds, and what is said about them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

__all__ = ["Series", "median_of_ratios", "quantile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """
    Seconds that one thing took, by round.

    :param rounds: for each round its samples, one for each time the thing was done; none is empty.
    :raises ValueError: where there is no round, or one without samples.
    """

    name: str
    rounds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.rounds or not all(self.rounds):
            raise ValueError(f"{self.name}: every round needs a sample, and there must be a round")

    @property
    def median(self) -> float:
        """Seconds of the middle one of all samples."""
        return median(self._samples())

    @property
    def p10(self) -> float:
        """Seconds that 1 of 10 samples stays within: what it takes while nothing disturbs."""
        return quantile(self._samples(), 0.10)

    @property
    def p95(self) -> float:
        """Seconds that 19 of 20 samples stay within."""
        return quantile(self._samples(), 0.95)

    @property
    def rate(self) -> float:
        """How often in a second, one after the other: the middle one of the rounds' rates."""
        return median(1 / fmean(samples) for samples in self.rounds)

    def _samples(self) -> list[float]:
        return [sample for samples in self.rounds for sample in samples]


def median_of_ratios(of: Series, to: Series) -> float:
    """
    How many times as long ``of`` takes as ``to``.

    Medians are compared round by round, and the middle one of those ratios is taken: what was slow in one
    round was slow for both.

    :raises ValueError: where they were not measured in the same rounds.
    """
    return median(median(one) / median(other) for one, other in zip(of.rounds, to.rounds, strict=True))


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that ``share`` of all samples do not exceed (nearest rank)."""
    if not samples or not 0 < share <= 1:
        raise ValueError("a quantile needs samples, and a share above 0 and up to 1")
    ordered = sorted(samples)
    # Exact in whole numbers: 0.95 * 20 is a little more than 19 as a float.
    rank = -(-round(share * 1_000_000) * len(ordered) // 1_000_000)
    return ordered[rank - 1]
