"""Run from the command line; see :mod:`benchmarks.buckets`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from benchmarks.buckets.creation import measure_creation
from benchmarks.buckets.figures import aims, table
from benchmarks.buckets.home import own_home
from benchmarks.buckets.hook import measure_hook
from benchmarks.buckets.lines import LENGTHS, measure_lines
from benchmarks.frame import options_of, say, write


def main(argv: list[str]) -> int:
    """Measure, print, and say whether the aims were kept."""
    options = options_of("bench-buckets", "What buckets and resources cost.").parse_args(argv)
    tasks, rounds, batches = (1_000, 1, 20) if options.quick else (10_000, 9, 400)
    lengths, turns = (LENGTHS[:2], 10) if options.quick else (LENGTHS, 100)
    with own_home() as home:
        say("the hook")
        hook = measure_hook(batches=batches)
        creation = measure_creation(tasks=tasks, rounds=rounds, say=say)
        lines = measure_lines(home, lengths=lengths, rounds=turns, say=say)
    print(table(hook, creation, lines, tasks=tasks))
    document = {
        "hook_microseconds": hook,
        "creation_seconds": asdict(creation),
        "tasks": tasks,
        "turn_seconds": lines,
    }
    write(options.json, document)
    missed = [aim for aim in aims(hook, creation, lines) if not aim.kept]
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
