"""Results as a table for people, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.control.results import ALONE, PLAIN, Results
from benchmarks.frame import aims_as_json, aims_as_table, aligned
from benchmarks.ledger.aims import Aim
from benchmarks.ledger.stats import Series, quantile

__all__ = ["as_json", "as_table"]


def as_table(results: Results, aims: Sequence[Aim]) -> str:
    """All of it, as text of several tables."""
    rows = list(_rows(results))
    parts = [
        "\n".join(f"{name:<12} {value}" for name, value in results.machine.items()),
        "\n".join(aligned([("", "unit", "median", "p10", "p95", "most", "samples", "more"), *rows])),
        aims_as_table(aims) if aims else "",
    ]
    return "\n\n".join(filter(None, parts))


def as_json(results: Results, aims: Sequence[Aim]) -> dict[str, Any]:
    """All of it, as what JSON can hold; times in seconds."""
    return {
        **asdict(results),
        "pairs": [
            {
                "store": pairs.store,
                "taken": {
                    name: [list(round_) for round_ in series.rounds] for name, series in pairs.taken.items()
                },
                "added": {name: pairs.added(name) for name in (PLAIN, ALONE)},
            }
            for pairs in results.pairs
        ],
        "aims": aims_as_json(aims),
    }


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    if results.checkpoints is not None:
        yield _row("ctx.checkpoint()", _samples(results.checkpoints), "us", 1e6)
    for pairs in results.pairs:
        for name, series in pairs.taken.items():
            more = f"step: {pairs.added(name) * 1000:+.1f} ms" if name in (PLAIN, ALONE) else ""
            yield _row(f"{pairs.store}: {name}", _samples(series), "ms", 1e3, more)
    if results.pauses is not None:
        yield _row("pause to free slot", results.pauses.free, "s", 1)
        yield _row("pause to the next task's start", results.pauses.taken_over, "s", 1)
        yield _row("resume to running code", results.pauses.resumed, "s", 1)
    if results.answers is not None:
        found = results.answers
        more = f"of {found.runs} runs {found.broken} broken, {found.odd} answers in doubt"
        yield ("answers around the park", "", "", "", "", "", str(found.given), more)
    if results.reconciled:
        yield _row(f"reconciling {results.live_tasks:,} live tasks", results.reconciled, "s", 1)


def _samples(series: Series) -> list[float]:
    return [sample for samples in series.rounds for sample in samples]


def _row(name: str, samples: Sequence[float], unit: str, times: float, more: str = "") -> tuple[str, ...]:
    sizes = (median(samples), quantile(samples, 0.1), quantile(samples, 0.95), max(samples))
    return (name, unit, *(f"{size * times:.2f}" for size in sizes), str(len(samples)), more)
