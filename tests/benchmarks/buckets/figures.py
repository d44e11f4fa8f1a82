"""What is said about what was measured, and whether it is as it should be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.buckets.creation import Creation
from benchmarks.ledger.aims import Aim, at_most

__all__ = ["aims", "ratio", "table"]

_MICROSECONDS, _RATIO = 5.0, 1.02


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """The middle one of the rounds' ratios: what was slow in a round was slow for both."""
    return median(one / other for one, other in zip(of, to, strict=True))


def aims(hook: Mapping[str, float], creation: Creation) -> list[Aim]:
    """Issue 5, point 7."""
    return [
        at_most(_MICROSECONDS, "us", what="Louver's hook, for a task instance", value=hook["louver"]),
        at_most(
            _RATIO,
            "times",
            what="CPU time of creation, with Louver's policy and without any",
            value=ratio(creation.cpu["louver"], creation.cpu["none"]),
        ),
    ]


def table(hook: Mapping[str, float], creation: Creation, *, tasks: int) -> str:
    """All of it, as text."""
    found = aims(hook, creation)
    lines = ["the hook, median microseconds a call"]
    lines += [f"  {name:<20} {value:8.2f}" for name, value in hook.items()]
    lines += ["", f"{tasks} task instances created by Airflow on SQLite: median seconds, and of the CPU"]
    lines += [f"  {'policy':<20} {'elapsed':>8} {'CPU':>8} {'to none':>8} {'to empty':>9}"]
    for name, cpu in creation.cpu.items():
        beside = [ratio(cpu, creation.cpu[other]) for other in ("none", "empty")]
        seconds = f"{median(creation.elapsed[name]):8.2f} {median(cpu):8.2f}"
        lines.append(f"  {name:<20} {seconds} {beside[0]:8.3f} {beside[1]:9.3f}")
    lines += ["", "aims"]
    lines += [f"  {aim.verdict:<7} {aim.what}: {aim.value:.3f} {aim.unit} ({aim.wish})" for aim in found]
    return "\n".join(lines)
