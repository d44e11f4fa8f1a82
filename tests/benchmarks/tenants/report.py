"""Results as tables for people, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.frame import aims_as_json, aims_as_table, aligned
from benchmarks.ledger.aims import Aim
from benchmarks.ledger.stats import quantile
from benchmarks.tenants.load import QUIET
from benchmarks.tenants.results import PARTS, Phase, Results

__all__ = ["as_json", "as_table"]


def as_table(results: Results, aims: Sequence[Aim]) -> str:
    """All of it, as text of several tables."""
    parts = [
        "\n".join(f"{name:<12} {value}" for name, value in results.machine.items()),
        "the quiet tenants' tasks, seconds: median of the wait, and of what it consists of",
        "\n".join(aligned(_phases(results))),
        "each tenant's wait, seconds: median (times that of alone)",
        "\n".join(aligned(_tenants(results))),
        aims_as_table(aims),
    ]
    return "\n\n".join(parts)


def as_json(results: Results, aims: Sequence[Aim]) -> dict[str, Any]:
    """All of it, as what JSON can hold; times in seconds."""
    return {
        "machine": dict(results.machine),
        "phases": {
            phase.name: {
                "median": {part: phase.median(part) for part in PARTS},
                "times": results.times(phase),
                "tenants": {
                    tenant: {
                        "median": phase.median(tenant=tenant),
                        "times": results.times(phase, tenant),
                        "samples": {part: phase.samples(part, tenant) for part in PARTS},
                    }
                    for tenant in QUIET
                },
                "noisy_tasks": len(phase.noisy),
                "noisy_at_once": phase.noisy_at_once,
                "noisy_seconds": phase.noisy_seconds,
            }
            for phase in results.phases
        },
        "aims": aims_as_json(aims),
    }


def _phases(results: Results) -> list[tuple[str, ...]]:
    rows = [("", "tasks", *PARTS, "p95 of the wait", "times alone", "the noisy one")]
    for phase in results.phases:
        medians = (f"{phase.median(part):.2f}" for part in PARTS)
        p95, times = quantile(phase.samples(), 0.95), results.times(phase)
        rows.append(
            (
                phase.name,
                str(len(phase.counted)),
                *medians,
                f"{p95:.2f}",
                f"{times:.2f}",
                _noisy(phase),
            )
        )
    return rows


def _noisy(phase: Phase) -> str:
    if not phase.noisy:
        return ""
    return f"{len(phase.noisy)} tasks, {phase.noisy_at_once} at once, {phase.noisy_seconds:.0f} s"


def _tenants(results: Results) -> list[tuple[str, ...]]:
    rows = [("", *(phase.name for phase in results.phases))]
    for tenant in QUIET:
        cells = (
            f"{phase.median(tenant=tenant):.2f} ({results.times(phase, tenant):.2f})"
            for phase in results.phases
        )
        rows.append((tenant, *cells))
    return rows
