"""The same work by one thread and by many: how far the rate rises."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Crowd", "Scaling", "scalings"]

Call = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """
    Work for several threads.

    :param prepare: for so many threads, with so many calls for each: one call per thread.
    """

    name: str
    prepare: Callable[[int, int], Sequence[Call]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """
    How often in a second a crowd did its work, by round and number of threads.

    :param rounds: threads to rate, for each round; all have the same numbers of threads, 1 among them.
    """

    name: str
    rounds: tuple[dict[int, float], ...]

    def rate(self, threads: int) -> float:
        """The middle one of the rounds' rates."""
        return median(rates[threads] for rates in self.rounds)

    def factor(self, threads: int) -> float:
        """How many times the rate of one thread, compared within each round; the middle one."""
        return median(rates[threads] / rates[1] for rates in self.rounds)


def scalings(crowds: Sequence[Crowd], *, threads: Sequence[int], rounds: int, count: int) -> list[Scaling]:
    """
    Measure all crowds with all numbers of threads in turns.

    :param count: calls at each turn, shared among the threads.
    """
    for crowd in crowds:
        _rate(crowd, max(threads), count)
    taken: dict[str, list[dict[int, float]]] = {crowd.name: [] for crowd in crowds}
    for _ in range(rounds):
        for crowd in crowds:
            taken[crowd.name].append({})
        for number in threads:
            for crowd in crowds:
                taken[crowd.name][-1][number] = _rate(crowd, number, count)
    return [Scaling(name=name, rounds=tuple(found)) for name, found in taken.items()]


def _rate(crowd: Crowd, threads: int, count: int) -> float:
    """Calls in a second, from when the first thread begins until the last one is done."""
    each = max(1, count // threads)
    calls = crowd.prepare(threads, each)
    spans: list[tuple[float, float]] = []
    failures: list[BaseException] = []
    together = threading.Barrier(threads)

    def work(call: Call) -> None:
        try:
            together.wait()
            began = time.perf_counter()
            for number in range(each):
                call(number)
            spans.append((began, time.perf_counter()))
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(call,), name="bench-crowd") for call in calls]
    gc.collect()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return threads * each / (max(end for _, end in spans) - min(began for began, _ in spans))
