"""What was measured, as values; and what the issue wants of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from benchmarks.ledger.aims import Aim, at_most

__all__ = ["LOUVER", "PLAIN", "Results", "RunTimes", "Shape", "aims_of"]

LOUVER, PLAIN = "louver", "plain"

CLOSING = ("compensate", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """
    A run as Airflow recorded it; moments in seconds.

    :param tasks: start and end of each task instance, business steps and closing tasks alike, by name and
        map index.
    """

    tasks: Mapping[tuple[str, int], tuple[float, float]]

    def _business(self) -> list[tuple[float, float]]:
        return [times for (name, _), times in self.tasks.items() if name not in CLOSING]

    @property
    def business(self) -> float:
        """Seconds from the start of the first business step to the end of the last one."""
        steps = self._business()
        return max(end for _, end in steps) - min(start for start, _ in steps)

    @property
    def closing(self) -> float:
        """Seconds from there to the end of the closing tasks; 0 where there are none."""
        last = max(end for _, end in self._business())
        return (
            max((end for (name, _), (_, end) in self.tasks.items() if name in CLOSING), default=last) - last
        )

    @property
    def advances(self) -> tuple[float, ...]:
        """Of a chain: seconds from the end of each step to the start of the next one."""
        ordered = sorted(self._business())
        return tuple(after[0] - before[1] for before, after in pairwise(ordered))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    One shape on one database, in both ways; a run of one beside a run of the other.

    :param steps: business steps that come one after the other, over which the overhead is spread.
    """

    name: str
    store: str
    steps: int
    runs: Mapping[str, Sequence[RunTimes]]

    def median(self, kind: str) -> float:
        """Seconds of the business steps of a run, the middle one."""
        return median(run.business for run in self.runs[kind])

    @property
    def overhead(self) -> float:
        """Part of the plain Dag's time that the workflow takes more."""
        return self.median(LOUVER) / self.median(PLAIN) - 1

    @property
    def added(self) -> float:
        """Milliseconds that it takes more for each step."""
        return (self.median(LOUVER) - self.median(PLAIN)) * 1000 / self.steps

    @property
    def closing(self) -> float:
        """Seconds of the closing tasks, the middle one."""
        return median(run.closing for run in self.runs[LOUVER])

    def advance(self, kind: str) -> float:
        """Seconds from the end of a step to the start of the next one, the middle one of all."""
        return median(gap for run in self.runs[kind] for gap in run.advances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All of it; what was not asked for is empty."""

    machine: Mapping[str, str]
    steps: int = 0
    parsed: Mapping[str, Sequence[float]] = field(default_factory=dict)
    chains: Sequence[Shape] = ()
    fans: Sequence[Shape] = ()

    @property
    def parsing(self) -> float:
        """How many times as long the workflow takes to parse as the plain Dag."""
        return median(
            louver / plain for louver, plain in zip(self.parsed[LOUVER], self.parsed[PLAIN], strict=True)
        )


def aims_of(results: Results) -> list[Aim]:
    """What the issue says the figures should be, as far as they were taken."""
    aims = []
    if results.parsed:
        what = f"parsing {results.steps} steps, times plain"
        aims.append(at_most(1.3, "times", what=what, value=results.parsing))
    for chain in results.chains:
        what = f"{chain.store}: from task to task"
        aims.append(at_most(0.15, "s", what=what, value=chain.advance(LOUVER)))
    for shape in (*results.chains, *results.fans):
        what = f"{shape.store}: {shape.name}, overhead"
        aims.append(at_most(5, "%", what=what, value=shape.overhead * 100))
        aims.append(at_most(25, "ms", what=f"{shape.store}: {shape.name}, a step", value=shape.added))
    return aims
