"""Run from the command line; see :mod:`benchmarks.ledger`."""

from __future__ import annotations

import argparse
import sys

from support.postgres import PostgresServer, PostgresUnavailable

from benchmarks.frame import options_of, say, write
from benchmarks.ledger.extent import FULL, QUICK, THREADS
from benchmarks.ledger.full_ledgers import measure_listings
from benchmarks.ledger.operations import BEGIN_AND_COMMIT, KEPT_STEP, WHOLE_STEP
from benchmarks.ledger.parts import measure_costs, measure_scalings
from benchmarks.ledger.report import as_json, as_table
from benchmarks.ledger.results import Results, aims_of
from benchmarks.ledger.server import benchmark_server, describe

PARTS = ("costs", "threads", "listing")


def parse(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = options_of("bench-ledger", "What the ledger costs, beside bare inserts and beside dbos.")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--slower-flush",
        type=float,
        default=0.0,
        metavar="MS",
        help="how much longer each flush takes than on this machine's disk; at most 100",
    )
    options = parser.parse_args(argv)
    if not 0 <= options.slower_flush <= 100:
        parser.error(f"--slower-flush is from 0 to 100 milliseconds, not {options.slower_flush:g}")
    return options


def measure(server: PostgresServer, options: argparse.Namespace) -> Results:
    """All that was asked for."""
    extent = QUICK if options.quick else FULL
    machine = describe(server)
    costs = scalings = listings = ()
    filled = {}
    if "costs" in options.only:
        say("one worker: the ledger's operations, a bare insert and a step of dbos, in turns")
        costs = measure_costs(server, extent)
    if "threads" in options.only:
        say(f"{', '.join(map(str, THREADS))} threads, in turns")
        scalings = measure_scalings(server, extent, THREADS)
    if "listing" in options.only:
        rows, listings = measure_listings(server, extent, say)
        filled = {"runs": rows.runs, "transitions": rows.transitions}
    return Results(machine=machine, costs=costs, scalings=scalings, listings=listings, filled=filled)


def main(argv: list[str]) -> int:
    """Measure, print the tables, write the JSON."""
    options = parse(argv)
    try:
        with benchmark_server(slower_flush=options.slower_flush) as server:
            results = measure(server, options)
    except PostgresUnavailable as error:
        print(f"bench-ledger: {error}", file=sys.stderr)
        return 1
    aims = aims_of(results, whole_effect=BEGIN_AND_COMMIT, steps=(KEPT_STEP, WHOLE_STEP))
    print(as_table(results, aims))
    write(options.json, as_json(results, aims))
    return int(options.strict and not all(aim.kept for aim in aims))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
