"""Run from the command line; see :mod:`benchmarks.control`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from support.postgres import PostgresUnavailable

from benchmarks.frame import ROOT, describe_machine, options_of, say, write

sys.path.insert(0, str(ROOT / "scripts"))

from support.airflow_on_postgres import postgres_settings

from benchmarks.control.checkpoints import measure_checkpoints
from benchmarks.control.extent import FULL, QUICK, Extent
from benchmarks.control.on_airflow import (
    bench_airflow,
    measure_answers,
    measure_pairs,
    measure_pauses,
)
from benchmarks.control.report import as_json, as_table
from benchmarks.control.results import Pairs, Results, aims_of
from benchmarks.ledger.server import benchmark_server

PARTS = ("checkpoint", "step", "pause", "answers", "reconcile")
STORES = ("sqlite", "postgres")


def parse(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = options_of("bench-control", "What control costs, on a real Airflow where it needs one.")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--stores",
        nargs="+",
        choices=STORES,
        default=STORES,
        metavar="STORE",
        help=f"of {', '.join(STORES)}: those that a step is measured on",
    )
    return parser.parse_args(argv)


def measure(options: argparse.Namespace) -> Results:
    """All that was asked for."""
    extent = QUICK if options.quick else FULL
    results = Results(machine=describe_machine("apache-airflow", "SQLAlchemy", "psycopg2-binary"))
    if "checkpoint" in options.only:
        say("checkpoints, in this process")
        results = replace(results, checkpoints=measure_checkpoints(extent))
    if "reconcile" in options.only:
        say(f"rounds of the reconciler over {extent.live_tasks:,} live tasks")
        results = replace(results, live_tasks=extent.live_tasks, reconciled=reconcile(extent))
    with tempfile.TemporaryDirectory(prefix="louver-bench-", ignore_cleanup_errors=True) as folder:
        if "sqlite" in options.stores and {"step", "pause", "answers"} & set(options.only):
            results = on_sqlite(Path(folder) / "sqlite", results, options, extent)
        if "postgres" in options.stores and "step" in options.only:
            results = on_postgres(Path(folder) / "postgres", results, extent)
    return results


def on_sqlite(folder: Path, results: Results, options: argparse.Namespace, extent: Extent) -> Results:
    """What is measured on an Airflow on SQLite."""
    with bench_airflow(folder, {}, say) as home:
        if "step" in options.only:
            say("on SQLite: steps and plain tasks, in turns")
            pairs = Pairs(store="SQLite", taken=measure_pairs(home, extent))
            results = told(replace(results, pairs=(*results.pairs, pairs)))
        if "pause" in options.only:
            say("on SQLite: pausing and resuming, one run after the other")
            results = told(replace(results, pauses=measure_pauses(home, extent)))
        if "answers" in options.only:
            say("on SQLite: answers at every moment around the park")
            results = replace(results, answers=measure_answers(home, extent))
    return results


def told(results: Results) -> Results:
    """The same; what is known so far is said, in case the rest is not waited for."""
    for aim in aims_of(results):
        say(f"  {aim.what}: {aim.value:.2f} ({aim.wish}) {aim.verdict}")
    return results


def on_postgres(folder: Path, results: Results, extent: Extent) -> Results:
    """The same for Postgres, where it can be started; Airflow's own database is there too."""
    try:
        with (
            benchmark_server() as server,
            bench_airflow(folder, postgres_settings(server), say) as home,
        ):
            say("on Postgres: steps and plain tasks, in turns")
            pairs = Pairs(store="Postgres", taken=measure_pairs(home, extent))
            return replace(results, pairs=(*results.pairs, pairs))
    except PostgresUnavailable as error:
        say(f"Postgres is left out: {error}")
        return results


def reconcile(extent: Extent) -> tuple[float, ...]:
    """Seconds of each round; in a process of its own, which has an Airflow home of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.reconcile", "--tasks", str(extent.live_tasks), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the reconciler could not be measured:\n{done.stderr[-2000:]}")
    return tuple(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main(argv: list[str]) -> int:
    """Measure, print the tables, write the JSON."""
    options = parse(argv)
    results = measure(options)
    aims = aims_of(results)
    print(as_table(results, aims))
    write(options.json, as_json(results, aims))
    return int(options.strict and not all(aim.kept for aim in aims))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
