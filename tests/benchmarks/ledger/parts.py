"""What the operations cost on one Postgres server, and how the rate rises with threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from support.postgres import PostgresServer

from benchmarks.ledger.bare import bare_inserts
from benchmarks.ledger.counting import by_way_of, count_calls, count_dbos_steps
from benchmarks.ledger.crowds import Call, Crowd, Scaling, scalings
from benchmarks.ledger.dbos_steps import dbos_process
from benchmarks.ledger.extent import KEYS, Extent
from benchmarks.ledger.operations import Operations
from benchmarks.ledger.results import BARE, DBOS, Cost, Sent
from benchmarks.ledger.rounds import Measured, in_turns, timed
from benchmarks.ledger.stage import Stage
from benchmarks.ledger.wire import Wire
from louver.ledger import open_ledger

__all__ = ["measure_costs", "measure_scalings"]


def measure_costs(server: PostgresServer, extent: Extent) -> tuple[Cost, ...]:
    """One worker's operations, a bare insert and a step of dbos, in turns; then their round trips."""
    url, dbos_url = _database(server), _database(server)
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger(url, keys=KEYS))
        bare = opened.enter_context(bare_inserts(url))
        dbos = opened.enter_context(dbos_process(dbos_url))
        things = [timed(BARE, bare.prepare), Measured(name=DBOS, block=dbos.steps)]
        things += [timed(name, prepare) for name, prepare in Operations(Stage(ledger)).by_name().items()]
        taken = in_turns(things, rounds=extent.rounds, count=extent.count, warm_up=extent.count)
    sent = _sent(server, url, dbos_url)
    return tuple(Cost(taken=series, sent=sent[name]) for name, series in taken.items())


def _sent(server: PostgresServer, url: str, dbos_url: str) -> dict[str, Sent]:
    with ExitStack() as opened:
        wire = opened.enter_context(Wire(server.port))
        ledger = opened.enter_context(open_ledger(by_way_of(wire, url), keys=KEYS))
        bare = opened.enter_context(bare_inserts(by_way_of(wire, url)))
        prepares = {BARE: bare.prepare, **Operations(Stage(ledger)).by_name()}
        sent = count_calls(wire, prepares)
        # Only now: what dbos asks in the background would be counted too.
        dbos = opened.enter_context(dbos_process(by_way_of(wire, dbos_url)))
        return {**sent, DBOS: count_dbos_steps(wire, dbos)}


def measure_scalings(server: PostgresServer, extent: Extent, threads: Sequence[int]) -> tuple[Scaling, ...]:
    """Bare inserts and whole effects, by one thread and by many."""
    url = _database(server)
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger(url, keys=KEYS))
        stage = Stage(ledger)
        operations = Operations(stage)
        # As many connections as there are threads at once: the ledger keeps as many.
        inserts = [opened.enter_context(bare_inserts(url)) for _ in range(max(threads))]

        def bare(number: int, each: int) -> list[Call]:
            return [insert.prepare(each) for insert in inserts[:number]]

        def own_runs(number: int, each: int) -> list[Call]:
            return [operations.begin_and_commit(each) for _ in range(number)]

        def one_run(number: int, each: int) -> list[Call]:
            run = stage.run()
            return [operations.begin_and_commit(each, run) for _ in range(number)]

        crowds = [
            Crowd(name="bare inserts, a connection each", prepare=bare),
            Crowd(name="begin + commit, a run each", prepare=own_runs),
            Crowd(name="begin + commit, all in one run", prepare=one_run),
        ]
        return tuple(scalings(crowds, threads=threads, rounds=extent.crowd_rounds, count=extent.crowd_count))


def _database(server: PostgresServer) -> str:
    return server.url(database=server.fresh_database())
