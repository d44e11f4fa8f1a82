"""Results as a table for people, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.ledger.aims import Aim
from benchmarks.ledger.results import BARE, DBOS, Cost, Results
from benchmarks.ledger.stats import Series, median_of_ratios

__all__ = ["as_json", "as_table"]


def as_table(results: Results, aims: Sequence[Aim]) -> str:
    """All of it, as text of several tables."""
    parts = [
        _machine(results),
        _costs(results) if results.costs else "",
        _scalings(results) if results.scalings else "",
        _listings(results) if results.listings else "",
        _aims(aims) if aims else "",
    ]
    return "\n\n".join(filter(None, parts))


def as_json(results: Results, aims: Sequence[Aim]) -> dict[str, Any]:
    """All of it, as what JSON can hold; times in seconds."""
    return {
        "machine": dict(results.machine),
        "costs": [
            {
                **_series(cost.taken),
                "per_second": cost.taken.rate,
                "bare_inserts": _ratio(results, cost, BARE),
                "dbos_steps": _ratio(results, cost, DBOS),
                "statements": cost.sent.statements,
                "round_trips": cost.sent.round_trips,
                "texts": list(cost.sent.texts),
            }
            for cost in results.costs
        ],
        "scalings": [
            {
                "name": scaling.name,
                "threads": [
                    {"threads": number, "per_second": scaling.rate(number), "factor": scaling.factor(number)}
                    for number in scaling.rounds[0]
                ],
            }
            for scaling in results.scalings
        ],
        "filled": dict(results.filled),
        "listings": [
            {
                **_series(listing.taken),
                "store": listing.store,
                "found": listing.found,
                "plan": list(listing.plan),
                "scanned": listing.scanned,
            }
            for listing in results.listings
        ],
        "aims": [{**asdict(aim), "verdict": aim.verdict} for aim in aims],
    }


def _series(taken: Series) -> dict[str, Any]:
    return {
        "name": taken.name,
        "median": taken.median,
        "p10": taken.p10,
        "p95": taken.p95,
        "samples": sum(map(len, taken.rounds)),
    }


def _ratio(results: Results, cost: Cost, to: str) -> float | None:
    if cost.taken.name == to:
        return 1.0
    return median_of_ratios(cost.taken, results.cost(to).taken)


def _machine(results: Results) -> str:
    return "\n".join(f"{name:<12} {value}" for name, value in results.machine.items())


def _costs(results: Results) -> str:
    sizes = ("median", "p10", "p95", "a second", "bare inserts", "dbos steps", "statements", "round trips")
    rows = [("one worker", *sizes)]
    for cost in results.costs:
        rows.append(
            (
                cost.taken.name,
                _microseconds(cost.taken.median),
                _microseconds(cost.taken.p10),
                _microseconds(cost.taken.p95),
                f"{cost.taken.rate:.0f}",
                f"{_ratio(results, cost, BARE):.2f}",
                f"{_ratio(results, cost, DBOS):.2f}",
                f"{cost.sent.statements:g}",
                f"{cost.sent.round_trips:g}",
            )
        )
    return "\n".join(_aligned(rows))


def _scalings(results: Results) -> str:
    numbers = list(results.scalings[0].rounds[0])
    rows = [("a second (times one thread)", *(f"{number} thread{'s' * (number > 1)}" for number in numbers))]
    for scaling in results.scalings:
        cells = (f"{scaling.rate(number):.0f} ({scaling.factor(number):.2f})" for number in numbers)
        rows.append((scaling.name, *cells))
    return "\n".join(_aligned(rows))


def _listings(results: Results) -> str:
    size = ", ".join(f"{count:,} {name}" for name, count in results.filled.items())
    rows = [(f"list_runs ({size})", "store", "found", "median", "p95", "how")]
    for listing in results.listings:
        rows.append(
            (
                listing.question,
                listing.store,
                str(listing.found),
                f"{listing.taken.median * 1000:.2f} ms",
                f"{listing.taken.p95 * 1000:.2f} ms",
                "; ".join(listing.plan),
            )
        )
    return "\n".join(_aligned(rows, texts=(0, 1, 5)))


def _aims(aims: Sequence[Aim]) -> str:
    rows = [("aim", "is", "should be", "")]
    rows += [(aim.what, f"{aim.value:.2f}", aim.wish, aim.verdict) for aim in aims]
    missed = sum(not aim.kept for aim in aims)
    return "\n".join([*_aligned(rows, texts=(0, 2, 3)), f"{len(aims) - missed} aims kept, {missed} missed"])


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1_000_000:.0f} us"


def _aligned(rows: Sequence[tuple[str, ...]], *, texts: tuple[int, ...] = (0,)) -> Iterator[str]:
    """Columns of equal width; those of text to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if column in texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
