"""Run from the command line; see :mod:`benchmarks.tenants`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from support.airflow_on_postgres import postgres_settings
from support.postgres import PostgresUnavailable

from benchmarks.frame import describe_machine, options_of, say, write
from benchmarks.ledger.server import benchmark_server
from benchmarks.tenants.load import FULL, QUICK, Extent
from benchmarks.tenants.on_airflow import measure, tenants_airflow
from benchmarks.tenants.report import as_json, as_table
from benchmarks.tenants.results import Results, aims_of


def measured(extent: Extent, *, eager: bool) -> Results:
    """The phases, on an Airflow of their own."""
    machine = describe_machine("apache-airflow", "SQLAlchemy", "psycopg2-binary")
    machine["scheduler"] = "looks every 0.1 s" if eager else "looks every second, as it does by default"
    with (
        tempfile.TemporaryDirectory(prefix="louver-bench-", ignore_cleanup_errors=True) as folder,
        benchmark_server() as server,
        tenants_airflow(Path(folder) / "airflow", postgres_settings(server), say, eager=eager) as home,
    ):
        alone, bucketed, one_pool = measure(home, extent, say)
    return Results(machine=machine, alone=alone, bucketed=bucketed, one_pool=one_pool)


def main(argv: list[str]) -> int:
    """Measure, print the tables, write the JSON."""
    parser = options_of("bench-tenants", "How long tenants wait beside a noisy one.")
    parser.add_argument("--eager", action="store_true", help="a scheduler that looks for work every 0.1 s")
    options = parser.parse_args(argv)
    try:
        results = measured(QUICK if options.quick else FULL, eager=options.eager)
    except PostgresUnavailable as error:
        print(f"bench-tenants: {error}", file=sys.stderr)
        return 1
    aims = aims_of(results)
    print(as_table(results, aims))
    write(options.json, as_json(results, aims))
    return int(options.strict and not all(aim.kept for aim in aims))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
