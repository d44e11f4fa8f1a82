"""Measures several things in turns: what disturbs the machine for a while disturbs all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.ledger.stats import Series

__all__ = ["Measured", "in_turns", "timed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """
    Something to measure.

    :param block: does it so many times in a row, and returns the seconds that each time took. What has to be
        there first it sets up outside of those.
    """

    name: str
    block: Callable[[int], Sequence[float]]


def timed(name: str, prepare: Callable[[int], Callable[[int], object]]) -> Measured:
    """
    Something that is measured by calling it.

    :param prepare: sets up what so many calls need and returns the call, which takes its number, from 0.
    """

    def block(count: int) -> list[float]:
        call = prepare(count)
        samples = []
        for number in range(count):
            began = time.perf_counter()
            call(number)
            samples.append(time.perf_counter() - began)
        return samples

    return Measured(name=name, block=block)


def in_turns(things: Sequence[Measured], *, rounds: int, count: int, warm_up: int) -> dict[str, Series]:
    """
    The samples of each thing, by its name.

    :param rounds: how often each has its turn.
    :param count: how often it is done at each turn.
    :param warm_up: how often it is done before, unmeasured: connections, caches and plans are there then.
    """
    for thing in things:
        thing.block(warm_up)
    taken: dict[str, list[tuple[float, ...]]] = {thing.name: [] for thing in things}
    for number in range(rounds):
        # Each round begins with another one: nothing comes always after the same neighbour.
        first = number % len(things)
        for thing in (*things[first:], *things[:first]):
            # Garbage of the one before is not this one's.
            gc.collect()
            taken[thing.name].append(tuple(thing.block(count)))
    return {name: Series(name=name, rounds=tuple(samples)) for name, samples in taken.items()}
