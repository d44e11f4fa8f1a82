"""What is said about what was measured, and whether it is as it should be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.buckets.creation import Creation
from benchmarks.ledger.aims import Aim, at_most

__all__ = ["aims", "longer_line", "ratio", "table"]

_MICROSECONDS, _RATIO, _LONGER = 5.0, 1.02, 1.5

Lines = Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]]
"""Seconds by store, by how many wait, and by what was done."""


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """The middle one of the rounds' ratios: what was slow in a round was slow for both."""
    return median(one / other for one, other in zip(of, to, strict=True))


def longer_line(by_length: Mapping[int, Mapping[str, Sequence[float]]]) -> float:
    """What a turn costs beside the longest line, to what it costs beside the shortest."""
    costs = [sum(median(seconds) for seconds in done.values()) for _, done in sorted(by_length.items())]
    return costs[-1] / costs[0]


def aims(hook: Mapping[str, float], creation: Creation, lines: Lines) -> list[Aim]:
    """Issue 5, point 7; and a turn costs the same however many wait."""
    return [
        at_most(_MICROSECONDS, "us", what="Louver's hook, for a task instance", value=hook["louver"]),
        at_most(
            _RATIO,
            "times",
            what="CPU time of creation, with Louver's policy and without any",
            value=ratio(creation.cpu["louver"], creation.cpu["none"]),
        ),
        *(
            at_most(
                _LONGER,
                "times",
                what=f"a turn on {store}, {max(by_length)} and {min(by_length)} in the line",
                value=longer_line(by_length),
            )
            for store, by_length in lines.items()
        ),
    ]


def table(hook: Mapping[str, float], creation: Creation, lines: Lines, *, tasks: int) -> str:
    """All of it, as text."""
    found = aims(hook, creation, lines)
    told = ["the hook, median microseconds a call"]
    told += [f"  {name:<20} {value:8.2f}" for name, value in hook.items()]
    told += ["", f"{tasks} task instances created by Airflow on SQLite: median seconds, and of the CPU"]
    told += [f"  {'policy':<20} {'elapsed':>8} {'CPU':>8} {'to none':>8} {'to empty':>9}"]
    for name, cpu in creation.cpu.items():
        beside = [ratio(cpu, creation.cpu[other]) for other in ("none", "empty")]
        seconds = f"{median(creation.elapsed[name]):8.2f} {median(cpu):8.2f}"
        told.append(f"  {name:<20} {seconds} {beside[0]:8.3f} {beside[1]:9.3f}")
    told += ["", "a turn at a resource for which so many wait, median milliseconds"]
    for store, by_length in lines.items():
        for length, done in by_length.items():
            costs = ", ".join(f"{what} {median(seconds) * 1e3:.2f}" for what, seconds in done.items())
            told.append(f"  {store:<10} {length:>6} {costs}")
    told += ["", "aims"]
    told += [f"  {aim.verdict:<7} {aim.what}: {aim.value:.3f} {aim.unit} ({aim.wish})" for aim in found]
    return "\n".join(told)
