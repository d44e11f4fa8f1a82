"""What every benchmark has around what it measures: progress, options, the machine, tables, its JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.ledger.aims import Aim

__all__ = [
    "ROOT",
    "aims_as_json",
    "aims_as_table",
    "aligned",
    "describe_machine",
    "options_of",
    "say",
    "write",
]

ROOT = Path(__file__).resolve().parents[2]
_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print progress where it does not disturb the tables."""
    print(f"[{time.monotonic() - _BEGAN:5.0f} s] {text}", file=sys.stderr, flush=True)


def options_of(name: str, description: str) -> argparse.ArgumentParser:
    """
    The options that all have: ``--quick``, ``--strict``, ``--json``.

    :param name: of the script.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where an aim is missed")
    parser.add_argument(
        "--json", type=Path, default=ROOT / ".build" / f"{name}.json", metavar="FILE", help="%(default)s"
    )
    return parser


def describe_machine(*packages: str) -> dict[str, str]:
    """What the figures depend on, and how busy the machine is before they are taken."""
    cores = len(os.sched_getaffinity(0))
    return {
        "Python": f"{platform.python_version()}: {', '.join(f'{name} {version(name)}' for name in packages)}",
        "machine": f"{cores} cores, {platform.machine()}, {sys.platform}, load {os.getloadavg()[0]:.1f}",
    }


def write(path: Path, document: Mapping[str, Any]) -> None:
    """The results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    say(f"written as JSON to {path}")


def aims_as_table(aims: Sequence[Aim]) -> str:
    """Each aim beside its figure, and how many were kept."""
    rows = [("aim", "should be", "is", "")]
    rows += [(aim.what, aim.wish, f"{aim.value:.2f}", aim.verdict) for aim in aims]
    missed = sum(not aim.kept for aim in aims)
    return "\n".join([*aligned(rows), f"{len(aims) - missed} aims kept, {missed} missed"])


def aims_as_json(aims: Sequence[Aim]) -> list[dict[str, Any]]:
    """The same, as what JSON can hold."""
    return [{**asdict(aim), "verdict": aim.verdict} for aim in aims]


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
