"""Who starts which runs when: the same for the quiet tenants in every phase. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from louver.buckets.policy import BucketPolicy

__all__ = ["BUCKETS", "FULL", "NOISY", "QUICK", "QUIET", "Extent", "PlannedRun", "planned"]

BUCKETS = 8
"""As many as tenants, each with one slot; the pool without buckets has as many slots together."""

_HEAD_START = 3.0


def _tenants() -> tuple[str, ...]:
    """One name for each bucket, the first that leads there, in the order of the buckets."""
    policy, found = BucketPolicy.of(BUCKETS), dict[int, str]()
    number = 0
    while len(found) < BUCKETS:
        number += 1
        found.setdefault(policy.bucket(f"tenant-{number}") or 0, f"tenant-{number}")
    return tuple(found[bucket] for bucket in range(BUCKETS))


NOISY, *QUIET = _tenants()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """
    How much.

    :param noisy_tasks: of the noisy tenant's one run; all but the first can run at once.
    :param runs: of two tasks, one after the other, of each quiet tenant.
    :param period: seconds from one run of a tenant to its next.
    :param seconds: that a task works: it waits, as for a service, and uses no processor.
    """

    noisy_tasks: int
    runs: int
    period: float
    seconds: float = 0.2


FULL = Extent(noisy_tasks=300, runs=14, period=10.0)
QUICK = Extent(noisy_tasks=60, runs=4, period=6.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """
    A run.

    :param after: seconds from the beginning of the phase to the moment from which on it may run.
    :param tasks: how many it has.
    """

    tenant: str
    after: float
    tasks: int


def planned(extent: Extent, *, noisy: bool) -> Iterator[PlannedRun]:
    """
    The runs of a phase.

    The noisy one comes first, and has a head start; those of the quiet tenants come one by one, evenly.
    """
    if noisy:
        yield PlannedRun(tenant=NOISY, after=0.0, tasks=extent.noisy_tasks)
    for number in range(extent.runs):
        for place, tenant in enumerate(QUIET):
            after = _HEAD_START + extent.period * (number + place / len(QUIET))
            yield PlannedRun(tenant=tenant, after=after, tasks=2)
