"""Results as a table for people, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from benchmarks.frame import aims_as_json, aims_as_table, aligned
from benchmarks.ledger.aims import Aim
from benchmarks.workflows.results import LOUVER, PLAIN, Results, Shape

__all__ = ["as_json", "as_table"]


def as_table(results: Results, aims: Sequence[Aim]) -> str:
    """All of it, as text of several tables."""
    parts = [
        "\n".join(f"{name:<12} {value}" for name, value in results.machine.items()),
        "\n".join(aligned([("", "Louver", "plain", "more"), *_rows(results)])),
        aims_as_table(aims) if aims else "",
    ]
    return "\n\n".join(filter(None, parts))


def as_json(results: Results, aims: Sequence[Aim]) -> dict[str, Any]:
    """All of it, as what JSON can hold; times in seconds."""
    return {
        "machine": dict(results.machine),
        "parsed": {kind: list(taken) for kind, taken in results.parsed.items()},
        "shapes": [
            {
                "name": shape.name,
                "store": shape.store,
                "business": {kind: [run.business for run in runs] for kind, runs in shape.runs.items()},
                "advances": {kind: [run.advances for run in runs] for kind, runs in shape.runs.items()},
                "closing": [run.closing for run in shape.runs[LOUVER]],
            }
            for shape in (*results.chains, *results.fans)
        ],
        "aims": aims_as_json(aims),
    }


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    if results.parsed:
        louver, plain = (median(results.parsed[kind]) for kind in (LOUVER, PLAIN))
        more = f"{results.parsing:.2f} times"
        yield f"parsing {results.steps} steps", f"{louver * 1000:.0f} ms", f"{plain * 1000:.0f} ms", more
    for shape in results.chains:
        yield from _shape(shape)
        advance = [shape.advance(kind) for kind in (LOUVER, PLAIN)]
        yield f"{shape.store}: from task to task", *(f"{gap * 1000:.0f} ms" for gap in advance), ""
    for shape in results.fans:
        yield from _shape(shape)


def _shape(shape: Shape) -> Iterator[tuple[str, ...]]:
    more = f"{shape.overhead * 100:+.1f} %, {shape.added:+.0f} ms a step"
    name = f"{shape.store}: {shape.name}"
    yield name, f"{shape.median(LOUVER):.2f} s", f"{shape.median(PLAIN):.2f} s", more
    yield f"{name}, closing tasks", f"{shape.closing:.2f} s", "", ""
