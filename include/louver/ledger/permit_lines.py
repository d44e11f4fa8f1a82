"""
Whose turn it is, carried out on the rows of one transaction.

Read are the resources, those who are inside, and of each line as much as the decision asks for; see
:mod:`louver.permit_turns`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from louver.ledger.names import TaskKey
from louver.ledger.permit_contract import Settled
from louver.ledger.records import PermitRecord, PlaceRecord, ResourceRecord
from louver.ledger.rows import Rows, primary_of
from louver.permit_turns import Plan, decide, in_line
from louver.semaphores import Permit, PermitTerms, Stage

__all__ = ["Touched", "leave", "plan", "settle", "stand", "task_primary"]

_PAGES = (4, 32, 256)
"""How many of a line are read at a time; most decisions end at the first."""


@dataclass(slots=True, kw_only=True)
class Touched:
    """
    What a transaction has changed, for the decision at its end.

    :param names: resources that were asked for or given back; None where any may be concerned.
    :param lowered: resources whose limits are less than before.
    """

    names: set[str] | None = field(default_factory=set)
    lowered: set[str] = field(default_factory=set)

    def add(self, names: Iterable[str]) -> None:
        """These too."""
        if self.names is not None:
            self.names.update(names)


def task_primary(key: TaskKey) -> tuple[str, str, str, int]:
    """The primary key of the task's permit."""
    return key.dag_id, key.run_id, key.task_id, key.map_index


def stand(rows: Rows, permit: PermitRecord) -> None:
    """Take the places of a permit that waits."""
    for place in permit.places:
        rows.put(place)


def leave(rows: Rows, permit: PermitRecord) -> None:
    """Give the places up, if it has any."""
    places = [primary_of(place) for place in permit.places]
    if places:
        rows.discard(PlaceRecord, places)


def plan(rows: Rows, now: datetime) -> Settled:
    """What :func:`settle` would do if anything may be concerned; nothing is written."""
    inside = _inside(rows)
    found = _plan(rows, rows.find(ResourceRecord), inside, Touched(names=None), now)
    known = {permit.task: permit for permit in inside}
    return Settled(
        granted=_permits(rows.peek, found.granted),
        expired=tuple(known[permit.task] for permit in found.expired),
        refused=_permits(rows.peek, found.refused),
    )


def settle(
    rows: Rows, touched: Touched, terms: PermitTerms, now: datetime, *, newcomer: PermitRecord | None = None
) -> Settled:
    """
    Do what is due; the line is locked.

    :param newcomer: somebody who asks, and has no row yet: whose turn it is at once gets none here either.
    """
    inside = {permit.task: permit for permit in _inside(rows)}
    for late in [permit for permit in inside.values() if permit.until is not None and permit.until <= now]:
        # Locked before it is given up: its process may be renewing it at this moment.
        found = rows.get(PermitRecord, *primary_of(late))
        if found is None:
            del inside[late.task]
        else:
            inside[late.task] = found
    resources = rows.find(ResourceRecord)
    decided = _plan(rows, resources, inside.values(), touched, now, newcomer)
    waited = [permit for permit in decided.granted if newcomer is None or permit.task != newcomer.task]
    called = _permits(rows.get, waited)
    if len(called) < len(waited):
        # Places without permits: cleaned away with their runs just now. Nobody shall stand behind them.
        there = {permit.task for permit in called}
        gone = [place for permit in waited if permit.task not in there for place in _places_of(permit)]
        rows.discard(PlaceRecord, gone)
        return settle(rows, touched, terms, now, newcomer=newcomer)
    granted = [
        replace(permit, stage=Stage.GRANTED, granted_at=now, until=now + terms.grant_ttl)
        for permit in (*called, *([newcomer] if len(waited) < len(decided.granted) and newcomer else ()))
    ]
    for before, turn in zip(called, granted, strict=False):
        leave(rows, before)
        rows.update(turn)
    for resource in resources:
        full_at = decided.full_at.get(resource.resource, resource.full_at)
        if full_at != resource.full_at:
            rows.update(replace(resource, full_at=full_at, updated_at=now))
    refused = _permits(rows.get, decided.refused)
    expired = tuple(inside[permit.task] for permit in decided.expired)
    for permit in refused:
        leave(rows, permit)
    if refused or expired:
        rows.discard(PermitRecord, [primary_of(permit) for permit in (*expired, *refused)])
    return Settled(granted=tuple(granted), expired=expired, refused=refused)


def _inside(rows: Rows) -> list[PermitRecord]:
    return [
        permit for stage in (Stage.HELD, Stage.GRANTED) for permit in rows.find(PermitRecord, stage=stage)
    ]


def _plan(
    rows: Rows,
    resources: Collection[ResourceRecord],
    inside: Iterable[PermitRecord],
    touched: Touched,
    now: datetime,
    newcomer: PermitRecord | None = None,
) -> Plan:
    # In quiet times one look tells that there is nobody in any line.
    waited_for = touched.names is not None or bool(rows.page(PlaceRecord, limit=1))

    def line_of(name: str) -> Iterable[Permit]:
        line = _line(rows, name) if waited_for else iter(())
        if newcomer is None or name not in newcomer.units:
            return line
        return heapq.merge(line, [newcomer.value], key=in_line)

    return decide(
        {record.resource: record.value for record in resources},
        [permit.value for permit in inside],
        line_of,
        now=now,
        touched=touched.names,
        lowered=touched.lowered,
    )


def _line(rows: Rows, name: str) -> Iterator[Permit]:
    """Who waits for a resource, the first one first."""
    after, number = None, 0
    while True:
        limit = _PAGES[min(number, len(_PAGES) - 1)]
        found = rows.page(PlaceRecord, after=after, limit=limit, resource=name)
        yield from (place.value for place in found if isinstance(place, PlaceRecord))
        if len(found) < limit:
            return
        after, number = primary_of(found[-1]), number + 1


def _permits(read: Callable[..., PermitRecord | None], wanted: Iterable[Permit]) -> tuple[PermitRecord, ...]:
    """Their rows, of those that wait still."""
    found = (read(PermitRecord, *task_primary(permit.task)) for permit in wanted)
    return tuple(
        known
        for known, permit in zip(found, wanted, strict=True)
        if known is not None and (known.stage, known.sequence) == (Stage.WAITING, permit.sequence)
    )


def _places_of(permit: Permit) -> list[tuple[str, int, int]]:
    return [(name, *in_line(permit)) for name in permit.needs]
