"""
Pure: whose turn it is to have what resources take (semantics section 7).

Asked by the ledger inside each transaction that gives a permit back, takes one or finds one expired, over
limits, permits and the time.

Those who wait stand in one line, by priority and then by the order of asking. Whoever cannot be served keeps
what it needs from those behind it, also where there is some of it: otherwise a step that needs two things, or
much of one, could be overtaken for ever. Only while nothing but time can help it (a rate, or a resource that
is closed) it leaves the rest to others.

However many wait, a decision reads few of them. Of those who wait for one resource only the first can be
served, and when it cannot, nobody behind it can have any; so each resource has its line, in the order of the
one line, and is read up to there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType

from louver.ledger.names import TaskKey
from louver.semaphores import Permit, Resource, too_large

__all__ = ["Plan", "decide", "in_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    What becomes of the permits now; those that are not named stay as they are.

    :param granted: their turn has come.
    :param expired: they were not renewed, or not taken when their turn came: they are given up.
    :param refused: they need more than there can ever be; see :func:`too_large`.
    :param full_at: of each resource with a rate, after what was granted.
    :param next_at: when time alone may change something; None where it cannot.
    """

    granted: Sequence[Permit] = ()
    expired: Sequence[Permit] = ()
    refused: Sequence[Permit] = ()
    full_at: Mapping[str, datetime]
    next_at: datetime | None = None

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.granted or self.expired or self.refused)


def decide(
    resources: Mapping[str, Resource],
    inside: Iterable[Permit],
    line_of: Callable[[str], Iterable[Permit]],
    *,
    now: datetime,
    touched: Iterable[str] | None = None,
    lowered: Iterable[str] = (),
) -> Plan:
    """
    Whose turn it is.

    :param resources: by name, those that have limits; what has none is had by everybody.
    :param inside: all permits that are held or granted.
    :param line_of: all who wait for a resource and perhaps for others too, in the order of :func:`in_line`.
    :param touched: what was asked for, given back or changed since everybody was served who could be; what
        is in no way connected with it stays as it is. None for all.
    :param lowered: of these the limits are less than before: there may be needs that can never be had now.
    """
    known = list(inside)
    expired = [permit for permit in known if permit.until is not None and permit.until <= now]
    gone = {permit.task for permit in expired}
    left = [permit for permit in known if permit.task not in gone]
    lines = _Lines(line_of)
    limits = {name: resource.limit for name, resource in resources.items()}
    too_much = [
        permit
        for name in lowered
        for permit in lines.all(name)
        if too_large(permit.needs, limits) is not None
    ]
    names = set(resources if touched is None else touched)
    names.update(name for permit in expired for name in permit.needs)
    while True:
        desk = _Desk(resources, left, now)
        for permit in too_much:
            desk.meet(permit)
        _serve(desk, lines, names)
        if desk.met <= names:
            break
        # Who was met needs something else as well: those who wait for that come in between.
        names |= desk.met
    moments = [permit.until for permit in left if permit.until is not None] + desk.ready_at
    return Plan(
        granted=tuple(desk.granted),
        expired=tuple(expired),
        refused=tuple(desk.refused),
        full_at=MappingProxyType(desk.full_at),
        next_at=min((moment for moment in moments if moment > now), default=None),
    )


def in_line(permit: Permit) -> tuple[int, int]:
    """Sorts who waits: who has more priority goes first, and then who asked first."""
    return -permit.priority, permit.sequence


def _serve(desk: _Desk, lines: _Lines, names: Iterable[str]) -> None:
    """Go through the lines of these resources as through one."""
    firsts: list[tuple[tuple[int, int], str, int]] = []

    def line_up(name: str, number: int) -> None:
        permit = None if desk.is_kept(name) else lines.at(name, number)
        if permit is not None:
            heappush(firsts, (in_line(permit), name, number))

    for name in names:
        line_up(name, 0)
    while firsts:
        _, name, number = heappop(firsts)
        permit = lines.at(name, number)
        if permit is not None and not desk.is_kept(name):
            desk.meet(permit)
            line_up(name, number + 1)


class _Lines:
    """What was read of each line."""

    def __init__(self, line_of: Callable[[str], Iterable[Permit]]) -> None:
        self._line_of = line_of
        self._read: dict[str, list[Permit]] = {}
        self._rest: dict[str, Iterator[Permit]] = {}

    def at(self, name: str, number: int) -> Permit | None:
        """Who stands there; None behind the end."""
        read = self._read.setdefault(name, [])
        while len(read) <= number:
            if name not in self._rest:
                self._rest[name] = iter(self._line_of(name))
            following = next(self._rest[name], None)
            if following is None:
                return None
            read.append(following)
        return read[number]

    def all(self, name: str) -> Iterator[Permit]:
        """The whole of it."""
        for number in count():
            permit = self.at(name, number)
            if permit is None:
                return
            yield permit


class _Desk:
    """Serves one after the other, and keeps for each what it could not have yet."""

    def __init__(self, resources: Mapping[str, Resource], inside: Iterable[Permit], now: datetime) -> None:
        self._resources = resources
        self._limits = {name: resource.limit for name, resource in resources.items()}
        self._now = now
        self._used: Counter[str] = Counter()
        for permit in inside:
            self._used.update(permit.needs)
        self._kept: set[str] = set()
        self._known: set[TaskKey] = set()
        self.full_at = {
            name: resource.full_at for name, resource in resources.items() if resource.limit.rate is not None
        }
        self.ready_at: list[datetime] = []
        self.granted: list[Permit] = []
        self.refused: list[Permit] = []
        self.met: set[str] = set()

    def is_kept(self, name: str) -> bool:
        """Whether nobody who comes now can have any of it: it is kept for somebody, or closed."""
        limit = self._limits.get(name)
        return name in self._kept or (limit is not None and limit.limit == 0)

    def meet(self, permit: Permit) -> None:
        """Serve one if that can be; who stands in several lines is met once."""
        if permit.task in self._known:
            return
        self._known.add(permit.task)
        limited = {name: units for name, units in permit.needs.items() if name in self._resources}
        if too_large(permit.needs, self._limits) is not None:
            self.refused.append(permit)
            return
        self.met.update(limited)
        if self._serve(limited):
            self.granted.append(permit)

    def _serve(self, limited: Mapping[str, int]) -> bool:
        if any(self._limits[name].limit == 0 for name in limited):
            return False
        first = self._kept.isdisjoint(limited)
        ready_at = max((self._ready(name, units) for name, units in limited.items()), default=self._now)
        if first and ready_at <= self._now and all(self._fits(*need) for need in limited.items()):
            self._used.update(limited)
            for name, units in limited.items():
                self._count(name, units)
            return True
        if first and ready_at > self._now:
            self.ready_at.append(ready_at)
            self._kept.update(name for name in limited if name in self.full_at)
        else:
            self._kept.update(limited)
        return False

    def _fits(self, name: str, units: int) -> bool:
        limit = self._limits[name].limit
        return limit is None or self._used[name] + units <= limit

    def _ready(self, name: str, units: int) -> datetime:
        """When so many may begin, by the rate."""
        rate = self._limits[name].rate
        if rate is None:
            return self._now
        return max(self.full_at[name], self._now) + rate.interval * units - rate.span

    def _count(self, name: str, units: int) -> None:
        rate = self._limits[name].rate
        if rate is not None:
            self.full_at[name] = max(self.full_at[name], self._now) + rate.interval * units
