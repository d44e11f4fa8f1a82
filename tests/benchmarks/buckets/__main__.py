"""Run from the command line; see :mod:`benchmarks.buckets`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from benchmarks.buckets.creation import measure_creation
from benchmarks.buckets.figures import aims, table
from benchmarks.buckets.home import own_home
from benchmarks.buckets.hook import measure_hook
from benchmarks.frame import options_of, say, write


def main(argv: list[str]) -> int:
    """Measure, print, and say whether the aims were kept."""
    options = options_of("bench-buckets", "What routing into buckets costs Airflow.").parse_args(argv)
    tasks, rounds, batches = (1_000, 1, 20) if options.quick else (10_000, 9, 400)
    with own_home():
        say("the hook")
        hook = measure_hook(batches=batches)
        creation = measure_creation(tasks=tasks, rounds=rounds, say=say)
    print(table(hook, creation, tasks=tasks))
    document = {"hook_microseconds": hook, "creation_seconds": asdict(creation), "tasks": tasks}
    write(options.json, document)
    missed = [aim for aim in aims(hook, creation) if not aim.kept]
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
