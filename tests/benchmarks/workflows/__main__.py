"""Run from the command line; see :mod:`benchmarks.workflows`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from support.airflow_on_postgres import postgres_settings
from support.postgres import PostgresUnavailable

from benchmarks.frame import describe_machine, options_of, say, write
from benchmarks.ledger.server import benchmark_server
from benchmarks.workflows.extent import FULL, QUICK, Extent
from benchmarks.workflows.on_airflow import measure_shape, workflows_airflow
from benchmarks.workflows.report import as_json, as_table
from benchmarks.workflows.results import Results, aims_of

PARTS = ("parse", "chain", "fan")
STORES = ("sqlite", "postgres")
CHAIN, WIDE = 5, 50


def parse(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = options_of("bench-workflows", "What workflows cost beside plain Airflow Dags.")
    for name, choices in (("--only", PARTS), ("--stores", STORES)):
        parser.add_argument(
            name,
            nargs="+",
            choices=choices,
            default=choices,
            metavar="PART",
            help=f"of {', '.join(choices)}",
        )
    return parser.parse_args(argv)


def parsing(folder: Path, extent: Extent) -> dict[str, list[float]]:
    """Seconds of each round, by kind; in a process of its own, with an Airflow home of its own."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.workflows.parsing",
            str(folder),
            str(extent.steps),
            str(extent.parsings),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        },
    )
    if done.returncode != 0:
        raise RuntimeError(f"parsing could not be measured:\n{done.stderr[-2000:]}")
    taken: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return taken


def on_airflow(
    store: str, home: Path, settings: dict[str, str], results: Results, only: set[str], extent: Extent
) -> Results:
    """The chain on any database; the fan-out where the database can take 50 tasks at a time."""
    with workflows_airflow(home, settings) as airflow:
        if "chain" in only:
            say(f"on {store}: chains of {CHAIN} steps of one second")
            chain = measure_shape(
                airflow, "chain of 1 s steps", "chain", store=store, steps=CHAIN, runs=extent.chains
            )
            results = replace(results, chains=(*results.chains, chain))
        if "fan" in only and store == "Postgres":
            say(f"on {store}: fan-outs over {WIDE}")
            # One after the other there are the list, the items in as many rounds as there are slots, the sum.
            slots = int(settings["AIRFLOW__CORE__PARALLELISM"])
            fan = measure_shape(
                airflow,
                f"fan-out over {WIDE}",
                "wide",
                store=store,
                steps=2 + -(-WIDE // slots),
                runs=extent.fans,
            )
            results = replace(results, fans=(*results.fans, fan))
    for aim in aims_of(results):
        say(f"  {aim.what}: {aim.value:.2f} ({aim.wish}) {aim.verdict}")
    return results


def main(argv: list[str]) -> int:
    """Measure, print the tables, write the JSON."""
    options = parse(argv)
    extent = QUICK if options.quick else FULL
    only = set(options.only)
    results = Results(
        machine=describe_machine("apache-airflow", "SQLAlchemy", "psycopg2-binary"), steps=extent.steps
    )
    with tempfile.TemporaryDirectory(prefix="louver-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if "parse" in only:
            say(f"parsing {extent.steps} steps")
            (folder / "parse").mkdir()
            results = replace(results, parsed=parsing(folder / "parse", extent))
        if "sqlite" in options.stores and "chain" in only:
            results = on_airflow("SQLite", folder / "sqlite", {}, results, only, extent)
        if "postgres" in options.stores and only & {"chain", "fan"}:
            try:
                with benchmark_server() as server:
                    settings = {**postgres_settings(server), "AIRFLOW__CORE__PARALLELISM": "8"}
                    results = on_airflow("Postgres", folder / "postgres", settings, results, only, extent)
            except PostgresUnavailable as error:
                say(f"Postgres is left out: {error}")
    aims = aims_of(results)
    print(as_table(results, aims))
    write(options.json, as_json(results, aims))
    return int(options.strict and not all(aim.kept for aim in aims))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
