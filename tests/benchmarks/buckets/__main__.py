"""Run from the command line; see :mod:`benchmarks.buckets`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.buckets.creation import measure_creation
from benchmarks.buckets.figures import aims, table
from benchmarks.buckets.home import own_home
from benchmarks.buckets.hook import measure_hook

ROOT = Path(__file__).resolve().parents[3]
BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print progress where it does not disturb the table."""
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", file=sys.stderr, flush=True)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench-buckets", description="What routing into buckets costs Airflow."
    )
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where an aim is missed")
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / ".build" / "bench-buckets.json",
        metavar="FILE",
        help="%(default)s",
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Measure, print, and say whether the aims were kept."""
    options = parse(argv)
    tasks, rounds, batches = (1_000, 1, 20) if options.quick else (10_000, 9, 400)
    with own_home():
        say("the hook")
        hook = measure_hook(batches=batches)
        creation = measure_creation(tasks=tasks, rounds=rounds, say=say)
    print(table(hook, creation, tasks=tasks))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    document = {"hook_microseconds": hook, "creation_seconds": asdict(creation), "tasks": tasks}
    options.json.write_text(json.dumps(document, indent=2) + "\n")
    missed = [aim for aim in aims(hook, creation) if not aim.kept]
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
