"""What was measured, as values; and what the issue wants of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.ledger.aims import Aim, at_least, at_most
from benchmarks.ledger.crowds import Scaling
from benchmarks.ledger.stats import Series, median_of_ratios

__all__ = ["BARE", "DBOS", "Cost", "Listing", "Results", "Sent", "aims_of"]

BARE = "bare INSERT ... RETURNING"
"""Baseline (a)."""

DBOS = "dbos: step"
"""Baseline (b)."""

MOST_BARE_INSERTS = 3.0
LEAST_DBOS_STEPS = 4.0
LEAST_FACTOR = 3.0
MOST_LISTING_MS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    What goes to the server for doing something once.

    :param statements: how many the server got for it.
    :param round_trips: how often the client waited for it; neither is whole where a mean was taken.
    :param texts: the statements themselves, where nothing else was sent at the time.
    """

    statements: float
    round_trips: float
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What doing something once costs; the name is that of ``taken``."""

    taken: Series
    sent: Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """
    One question to one full ledger.

    :param scanned: a table is read from end to end for it.
    """

    store: str
    question: str
    found: int
    taken: Series
    plan: tuple[str, ...]
    scanned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """
    A whole run; what was not asked for is empty.

    :param machine: what it was measured on.
    :param scalings: that of bare inserts first, then the one that is held against it.
    :param filled: rows of the ledger that was listed, by what they are.
    """

    machine: Mapping[str, str]
    costs: tuple[Cost, ...] = ()
    scalings: tuple[Scaling, ...] = ()
    listings: tuple[Listing, ...] = ()
    filled: Mapping[str, int] = field(default_factory=dict)

    def cost(self, name: str) -> Cost:
        """
        The cost of that name.

        :raises KeyError: where there is none.
        """
        for cost in self.costs:
            if cost.taken.name == name:
                return cost
        raise KeyError(name)


def aims_of(results: Results, *, whole_effect: str, steps: Sequence[str]) -> list[Aim]:
    """
    The aims of issue 3, point 10, for what was measured.

    :param whole_effect: name of the cost that is held against bare inserts.
    :param steps: names of the costs that are held against a step of dbos.
    """
    return [*_of_costs(results, whole_effect, steps), *_of_scalings(results), *_of_listings(results)]


def _of_costs(results: Results, whole_effect: str, steps: Sequence[str]) -> list[Aim]:
    if not results.costs:
        return []
    bare, dbos = results.cost(BARE).taken, results.cost(DBOS).taken
    return [
        at_most(
            MOST_BARE_INSERTS,
            "bare inserts",
            what=whole_effect,
            value=median_of_ratios(results.cost(whole_effect).taken, bare),
        ),
        *(
            at_least(
                LEAST_DBOS_STEPS,
                "times as many a second as dbos steps",
                what=step,
                value=median_of_ratios(dbos, results.cost(step).taken),
            )
            for step in steps
        ),
    ]


def _of_scalings(results: Results) -> list[Aim]:
    if len(results.scalings) < 2:
        return []
    bare, own, *_ = results.scalings
    most = max(bare.rounds[0])
    # What the machine and the server do not give to a bare insert, they cannot give to the ledger.
    limit = min(LEAST_FACTOR, bare.factor(most))
    return [
        at_least(
            limit,
            f"times the rate of one thread (bare inserts: {bare.factor(most):.2f})",
            what=f"{own.name}, {most} threads",
            value=own.factor(most),
        )
    ]


def _of_listings(results: Results) -> list[Aim]:
    if not results.listings:
        return []
    found: dict[str, set[int]] = {}
    for listing in results.listings:
        found.setdefault(listing.question, set()).add(listing.found)
    differing = sum(len(answers) > 1 for answers in found.values())
    aims = [at_most(0, "questions that the stores answer differently", what="listing", value=differing)]
    for store in dict.fromkeys(listing.store for listing in results.listings):
        here = [listing for listing in results.listings if listing.store == store]
        slowest = max(here, key=lambda listing: listing.taken.median)
        scanned = sum(listing.scanned for listing in here)
        aims += [
            at_most(
                MOST_LISTING_MS,
                "ms",
                what=f"listing on {store}, slowest: {slowest.question}",
                value=slowest.taken.median * 1000,
            ),
            at_most(0, "questions without an index", what=f"listing on {store}", value=scanned),
        ]
    return aims
