"""What was measured, as values; and what the issue wants of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import nan
from statistics import median

from benchmarks.ledger.aims import Aim, at_most
from benchmarks.tenants.load import NOISY, QUIET

__all__ = ["PARTS", "Phase", "Results", "TaskTimes", "aims_of"]

MOST_TIMES = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTimes:
    """
    A task as Airflow recorded it; all moments are aware.

    :param tenant: whose it is.
    :param pool: that it was in.
    :param ready: from when on it could run: its run's date, or the end of the task before it.
    :param scheduled: when the scheduler saw that.
    :param queued: when it had a slot, and was handed to the executor.
    :param started: when its process began.
    """

    tenant: str
    pool: str
    ready: datetime
    scheduled: datetime
    queued: datetime
    started: datetime
    ended: datetime


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()


PARTS: Mapping[str, Callable[[TaskTimes], float]] = {
    "wait": lambda task: _seconds(task.ready, task.started),
    "to be scheduled": lambda task: _seconds(task.ready, task.scheduled),
    "for a slot": lambda task: _seconds(task.scheduled, task.queued),
    "for its process": lambda task: _seconds(task.queued, task.started),
}
"""Seconds of the whole wait, and of its parts: the slot is the pool's matter, the rest the machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """
    The tasks of one phase.

    :param name: for people.
    :param tasks: all that ran, of all tenants.
    """

    name: str
    tasks: tuple[TaskTimes, ...]

    @property
    def noisy(self) -> tuple[TaskTimes, ...]:
        """Those of the noisy tenant; none where it was not there."""
        return tuple(task for task in self.tasks if task.tenant == NOISY)

    @property
    def counted(self) -> tuple[TaskTimes, ...]:
        """
        Those of the quiet tenants that became ready while the noisy one had some left to run.

        :raises ValueError: where there is none: then the phase says nothing.
        """
        quiet = tuple(task for task in self.tasks if task.tenant != NOISY)
        if self.noisy:
            over = max(task.ended for task in self.noisy)
            quiet = tuple(task for task in quiet if task.ready < over)
        if not quiet:
            raise ValueError(f"{self.name}: the noisy tenant was done before the others began")
        return quiet

    @property
    def noisy_seconds(self) -> float:
        """From when the noisy tenant's run could begin to its end; 0 where it was not there."""
        if not self.noisy:
            return 0.0
        return _seconds(min(task.ready for task in self.noisy), max(task.ended for task in self.noisy))

    @property
    def noisy_at_once(self) -> int:
        """How many tasks of the noisy tenant ran at the same moment, at most."""
        return max((_running(self.noisy, task.started) for task in self.noisy), default=0)

    def median(self, part: str = "wait", tenant: str | None = None) -> float:
        """
        Seconds, the middle one; not a number where a tenant has none that counts.

        :param part: of :data:`PARTS`.
        :param tenant: of one alone; by default of all quiet ones.
        """
        samples = self.samples(part, tenant)
        return median(samples) if samples else nan

    def samples(self, part: str = "wait", tenant: str | None = None) -> list[float]:
        """Seconds of each task that counts; arguments as for :meth:`median`."""
        return [PARTS[part](task) for task in self.counted if tenant in (None, task.tenant)]


def _running(tasks: Sequence[TaskTimes], moment: datetime) -> int:
    return sum(task.started <= moment < task.ended for task in tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """
    A whole run.

    :param machine: what it was measured on.
    :param alone: the quiet tenants, in buckets.
    :param bucketed: the same beside the noisy one.
    :param one_pool: the same without buckets.
    """

    machine: Mapping[str, str]
    alone: Phase
    bucketed: Phase
    one_pool: Phase

    @property
    def phases(self) -> tuple[Phase, ...]:
        """In the order in which they were measured."""
        return (self.alone, self.bucketed, self.one_pool)

    def times(self, phase: Phase, tenant: str | None = None) -> float:
        """How many times as long as alone the quiet tenants wait, by their medians."""
        return phase.median(tenant=tenant) / self.alone.median(tenant=tenant)


def aims_of(results: Results) -> list[Aim]:
    """Issue 5, point 6."""
    beside, worst = results.bucketed, max(QUIET, key=lambda name: results.times(results.bucketed, name))
    return [
        at_most(MOST_TIMES, "times", what="median wait beside the noisy one", value=results.times(beside)),
        at_most(
            MOST_TIMES, "times", what=f"the same, worst off: {worst}", value=results.times(beside, worst)
        ),
        at_most(1, "tasks", what="tasks of the noisy one at once", value=beside.noisy_at_once),
    ]
