"""Listing runs from full ledgers, on Postgres and on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from support.postgres import PostgresServer

from benchmarks.ledger.counting import by_way_of
from benchmarks.ledger.extent import KEYS, Extent
from benchmarks.ledger.filling import Filled, fill
from benchmarks.ledger.listing import ask_all
from benchmarks.ledger.plans import explain_postgres, reads_all_of_it, traced_sqlite
from benchmarks.ledger.results import Listing
from benchmarks.ledger.stage import Stage
from benchmarks.ledger.wire import Wire
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger

__all__ = ["measure_listings"]

Say = Callable[[str], None]
Explained = AbstractContextManager[tuple[Ledger, Callable[[Callable[[], object]], tuple[str, ...]]]]
"""The same ledger opened once more, and what explains how its database goes about what a call asks of it."""


def measure_listings(server: PostgresServer, extent: Extent, say: Say) -> tuple[Filled, tuple[Listing, ...]]:
    """The answers of both stores, filled alike."""
    url = server.url(database=server.fresh_database())
    filled, on_postgres = _measure("postgres", url, _on_postgres(server, url), extent, say)
    with TemporaryDirectory(prefix="louver-bench-") as directory:
        file = Path(directory) / "ledger.db"
        _, on_sqlite = _measure("sqlite", f"sqlite:///{file}", _on_sqlite(file), extent, say)
    return filled, (*on_postgres, *on_sqlite)


def _measure(
    store: str, url: str, explained: Explained, extent: Extent, say: Say
) -> tuple[Filled, list[Listing]]:
    with open_ledger(url, keys=KEYS) as ledger:
        say(f"filling a ledger on {store} with {extent.runs:,} runs")
        filled = fill(Stage(ledger), url, extent.runs)
        say(f"asking it for runs; it has {filled.transitions:,} transitions")
        answers = ask_all(ledger, filled.runs, rounds=extent.asking_rounds, count=extent.asked)
    listings = []
    with explained as (watched, explain):
        for answer in answers:
            wanted = answer.wanted
            plan = explain(lambda wanted=wanted: watched.list_runs(wanted))
            listings.append(
                Listing(
                    store=store,
                    question=answer.question,
                    found=answer.found,
                    taken=answer.taken,
                    plan=plan,
                    scanned=reads_all_of_it(plan),
                )
            )
    return filled, listings


@contextmanager
def _on_postgres(server: PostgresServer, url: str) -> Iterator[tuple[Ledger, Callable]]:
    with Wire(server.port) as wire, open_ledger(by_way_of(wire, url), keys=KEYS) as ledger:
        yield ledger, explain_postgres(wire, url)


@contextmanager
def _on_sqlite(file: Path) -> Iterator[tuple[Ledger, Callable]]:
    with traced_sqlite() as trace, open_ledger(f"sqlite:///{file}", keys=KEYS) as ledger:
        yield ledger, trace.explain(file)
