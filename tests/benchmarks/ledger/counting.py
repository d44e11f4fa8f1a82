"""How many statements and round trips things take: a pass of its own, in which nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import make_url

from benchmarks.ledger.dbos_steps import DbosProcess
from benchmarks.ledger.results import Sent
from benchmarks.ledger.wire import Wire

__all__ = ["by_way_of", "count_calls", "count_dbos_steps"]

# A thread of few statements borrows its connection, and prepares nothing.
_WARM_UP = 24


def by_way_of(wire: Wire, url: str) -> str:
    """The same database, reached over the wire."""
    return make_url(url).set(port=wire.port).render_as_string(hide_password=False)


def count_calls(
    wire: Wire, prepares: Mapping[str, Callable[[int], Callable[[int], object]]]
) -> dict[str, Sent]:
    """What one call of each sends, once connections are open and statements prepared."""
    sent = {}
    for name, prepare in prepares.items():
        call = prepare(_WARM_UP + 1)
        for number in range(_WARM_UP):
            call(number)
        with wire.counting() as count:
            call(_WARM_UP)
        sent[name] = Sent(
            statements=len(count.statements), round_trips=count.round_trips, texts=tuple(count.statements)
        )
    return sent


def count_dbos_steps(wire: Wire, process: DbosProcess, *, few: int = 20, many: int = 220) -> Sent:
    """
    What a step of dbos sends, as the mean of many.

    What a workflow sends for itself falls out in the difference of a long and a short one. What dbos asks in
    the background meanwhile does not, but that is little.
    """
    process.steps(few)
    counts = []
    for steps in (few, many):
        with wire.counting() as count:
            process.steps(steps)
        counts.append(count)
    short, long = counts
    return Sent(
        statements=round((len(long.statements) - len(short.statements)) / (many - few), 1),
        round_trips=round((long.round_trips - short.round_trips) / (many - few), 1),
    )
