"""What was measured, as values; and what the issue wants of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.ledger.aims import Aim, at_most
from benchmarks.ledger.stats import Series

__all__ = ["ALONE", "COMMIT", "PLAIN", "STEP", "Answers", "Pairs", "Pauses", "Results", "aims_of"]

STEP = "a step of Louver"
PLAIN = "a plain task in the same run"
ALONE = "a plain task, its file without Louver"
COMMIT = "a bare commit to the disk"

MOST_CHECKPOINT_US = 2.0
MOST_RESUME_S = 0.5
MOST_ADDED_MS = 25.0
MOST_RECONCILE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """
    Seconds, a sample for each run.

    :param free: from the request to pause to the slot that is free.
    :param taken_over: from the same to the start of the task that waited for the slot.
    :param resumed: from the request to resume, the resume guard having passed, to the step's running code.
    """

    free: tuple[float, ...]
    taken_over: tuple[float, ...]
    resumed: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """
    Answers at every moment around the park.

    :param given: by commands and clicks.
    :param taken: of the clicks.
    :param broken: runs that failed, got stuck, were tried again, or did something twice or not at all.
    :param odd: answers that got neither what they wanted nor a plain refusal.
    """

    given: int
    taken: int
    runs: int
    broken: int
    odd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Seconds of steps and plain tasks on one store, by :data:`STEP` and the names beside it."""

    store: str
    taken: Mapping[str, Series]

    def added(self, to: str) -> float:
        """
        Seconds that a step takes more than that: the median over the runs of the difference of their medians.

        What was slow in one run was slow for both.
        """
        rounds = zip(self.taken[STEP].rounds, self.taken[to].rounds, strict=True)
        return median(median(steps) - median(others) for steps, others in rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """
    A whole run; what was not asked for is empty.

    :param machine: what it was measured on.
    :param control_interval: seconds between two looks of a running step.
    :param reconciled: seconds of a round of the reconciler, a sample each.
    :param live_tasks: that it looked at.
    """

    machine: Mapping[str, str]
    control_interval: float = 1.0
    checkpoints: Series | None = None
    pairs: tuple[Pairs, ...] = ()
    pauses: Pauses | None = None
    answers: Answers | None = None
    reconciled: tuple[float, ...] = ()
    live_tasks: int = 0


def aims_of(results: Results) -> list[Aim]:
    """The aims of issue 4, point 9, for what was measured."""
    aims = []
    if results.checkpoints is not None:
        value = results.checkpoints.median * 1e6
        aims.append(
            at_most(MOST_CHECKPOINT_US, "us", what="ctx.checkpoint() with nothing to do, median", value=value)
        )
    for pairs in results.pairs:
        what = f"a step more than a plain task, {pairs.store}"
        aims.append(at_most(MOST_ADDED_MS, "ms", what=what, value=pairs.added(PLAIN) * 1000))
    if results.pauses is not None:
        what, most = "from the request to pause to the free slot, longest", results.control_interval + 1
        aims.append(at_most(most, "s", what=what, value=max(results.pauses.free)))
        what = "from the resume to running code, median"
        aims.append(at_most(MOST_RESUME_S, "s", what=what, value=median(results.pauses.resumed)))
    if results.answers is not None:
        what = f"{results.answers.given} answers around the park"
        aims += [
            at_most(0, "runs broken", what=what, value=results.answers.broken),
            at_most(0, "answers left in doubt", what=what, value=results.answers.odd),
        ]
    if results.reconciled:
        what = f"a round over {results.live_tasks:,} live tasks, median"
        aims.append(at_most(MOST_RECONCILE_S, "s", what=what, value=median(results.reconciled)))
    return aims
