"""Resources with limits, and the permits of those who use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from louver.errors import ConfigurationError
from louver.ledger.names import CommandState, TaskKey, Token, Verb
from louver.ledger.permit_contract import PermitWatch, Settled
from louver.ledger.records import CommandRecord, LineRecord, PermitRecord, ResourceRecord, TaskRecord
from louver.ledger.rows import Rows, primary_of
from louver.ledger.transactions import Transactional, decision, question
from louver.semaphores import PermitTerms, Plan, ResourceLimit, Stage, decide, too_large

__all__ = ["PermitOperations"]

_LINE = "resources"
_WANTED = (Verb.STOP, Verb.PAUSE)


class PermitOperations(Transactional):
    """The part of the contract that concerns permits."""

    @decision
    def take_permit(
        self,
        rows: Rows,
        token: Token,
        needs: Mapping[str, int],
        *,
        limits: Mapping[str, ResourceLimit],
        priority: int,
        terms: PermitTerms,
        now: datetime,
    ) -> PermitRecord | None:
        self._hold(rows, token)
        mine = [limits[name] for name in needs if name in limits]
        if not mine and not any(rows.peek(ResourceRecord, name) for name in sorted(needs)):
            return None
        line = _line(rows)
        _configure(rows, mine, now)
        resources = {record.resource: record.limit for record in rows.find(ResourceRecord)}
        problem = too_large(needs, resources)
        if problem is not None:
            raise ConfigurationError(problem)
        wanted = tuple(f"{name}={units}" for name, units in sorted(needs.items()))
        known = rows.get(PermitRecord, *_primary(token.key))
        if known is not None and _goes_on(known, token, wanted, resources, now):
            place = replace(known, session=token.session, process=token.process, priority=priority)
            rows.update(place)
        else:
            rows.update(replace(line, last=line.last + 1))
            place = _new_place(token, wanted, priority=priority, sequence=line.last + 1, now=now)
            rows.put(place)
        if place.stage is Stage.WAITING:
            _settle(rows, terms, now)
            place = rows.get(PermitRecord, *_primary(token.key)) or place
        if place.stage is not Stage.WAITING:
            place = replace(place, stage=Stage.HELD, until=now + terms.lease)
            rows.update(place)
        return place

    @decision
    def renew_permit(self, rows: Rows, token: Token, *, terms: PermitTerms, now: datetime) -> bool:
        known = rows.get(PermitRecord, *_primary(token.key))
        if known is None or known.session != token.session or known.stage is not Stage.HELD:
            return False
        rows.update(replace(known, until=now + terms.lease))
        return True

    @decision
    def release_permit(
        self, rows: Rows, key: TaskKey, *, session: int, terms: PermitTerms, now: datetime
    ) -> Settled | None:
        if rows.peek(PermitRecord, *_primary(key)) is None:
            return None
        _line(rows)
        known = rows.get(PermitRecord, *_primary(key))
        if known is None or known.session > session:
            return None
        rows.discard(PermitRecord, [_primary(key)])
        return _settle(rows, terms, now)

    @decision
    def settle_permits(
        self, rows: Rows, *, limits: Mapping[str, ResourceLimit], terms: PermitTerms, now: datetime
    ) -> Settled:
        _line(rows)
        _configure(rows, limits.values(), now)
        return _settle(rows, terms, now)

    @question
    def plan_permits(self, rows: Rows, *, now: datetime) -> Settled:
        permits = {permit.task: permit for permit in rows.find(PermitRecord)}
        plan = _plan(rows.find(ResourceRecord), permits.values(), now)
        return Settled(
            granted=tuple(permits[permit.task] for permit in plan.granted),
            expired=tuple(permits[permit.task] for permit in plan.expired),
            refused=tuple(permits[permit.task] for permit in plan.refused),
        )

    @question
    def list_permit_watches(self, rows: Rows, keys: Iterable[TaskKey]) -> list[PermitWatch]:
        wanted = list(keys)
        places = [_primary(key) for key in wanted]
        stages = {
            row.task: row.stage for row in rows.read(PermitRecord, places) if isinstance(row, PermitRecord)
        }
        generations = {
            row.key: row.generation for row in rows.read(TaskRecord, places) if isinstance(row, TaskRecord)
        }
        asked = {
            command.task
            for command in rows.of_runs(
                CommandRecord, {key.run for key in wanted}, state=CommandState.PENDING
            )
            if command.verb in _WANTED and generations.get(command.task) == command.generation
        }
        return [PermitWatch(task=key, stage=stages.get(key), asked=key in asked) for key in wanted]

    @question
    def list_permits(self, rows: Rows) -> list[PermitRecord]:
        return rows.find(PermitRecord)

    @question
    def list_resources(self, rows: Rows) -> list[ResourceRecord]:
        return rows.find(ResourceRecord)

    @decision
    def set_resource(
        self, rows: Rows, limit: ResourceLimit, *, by: str, terms: PermitTerms, now: datetime
    ) -> Settled:
        _line(rows)
        _limit(rows, limit, set_by=by, now=now)
        return _settle(rows, terms, now)

    @decision
    def unset_resource(self, rows: Rows, resource: str, *, terms: PermitTerms, now: datetime) -> bool:
        _line(rows)
        known = rows.get(ResourceRecord, resource)
        if known is None:
            return False
        rows.discard(ResourceRecord, [(resource,)])
        _settle(rows, terms, now)
        return True


def _line(rows: Rows) -> LineRecord:
    """The line's row, locked: whoever decides about permits at the same moment waits for the other."""
    known = rows.get(LineRecord, _LINE)
    if known is not None:
        return known
    fresh = LineRecord(name=_LINE, last=0)
    return fresh if rows.insert(fresh) else rows.get(LineRecord, _LINE) or fresh


def _configure(rows: Rows, limits: Iterable[ResourceLimit], now: datetime) -> None:
    for limit in limits:
        known = rows.peek(ResourceRecord, limit.resource)
        if known is None or (known.set_by is None and known.limit != limit):
            _limit(rows, limit, set_by=None, now=now)


def _limit(rows: Rows, limit: ResourceLimit, *, set_by: str | None, now: datetime) -> None:
    known = rows.get(ResourceRecord, limit.resource)
    full_at = now if known is None else known.value.under(limit, now).full_at
    rows.put(
        ResourceRecord(
            resource=limit.resource,
            capacity=limit.limit,
            rate=None if limit.rate is None else str(limit.rate),
            full_at=full_at,
            set_by=set_by,
            updated_at=now,
        )
    )


def _goes_on(
    known: PermitRecord,
    token: Token,
    wanted: tuple[str, ...],
    limits: Mapping[str, ResourceLimit],
    now: datetime,
) -> bool:
    """Whether what the task has, or its place, is good for the process that asks now."""
    if known.incarnation != token.incarnation or known.needs != wanted:
        return False
    if known.until is not None and known.until <= now:
        return False
    counted = any(limits[name].rate is not None for name in known.units if name in limits)
    # Of one that was held some code has begun: the next beginning counts again.
    return known.stage is not Stage.HELD or known.session == token.session or not counted


def _new_place(
    token: Token, wanted: tuple[str, ...], *, priority: int, sequence: int, now: datetime
) -> PermitRecord:
    key = token.key
    return PermitRecord(
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        map_index=key.map_index,
        incarnation=token.incarnation,
        session=token.session,
        process=token.process,
        needs=wanted,
        priority=priority,
        sequence=sequence,
        stage=Stage.WAITING,
        wanted_at=now,
        granted_at=None,
        until=None,
    )


def _settle(rows: Rows, terms: PermitTerms, now: datetime) -> Settled:
    """Carry out what is due; the line is locked."""
    permits = {permit.task: permit for permit in rows.find(PermitRecord)}
    for late in [permit for permit in permits.values() if permit.until is not None and permit.until <= now]:
        # Locked before it is given up: its process may be renewing it at this moment.
        found = rows.get(PermitRecord, *primary_of(late))
        if found is None:
            del permits[late.task]
        else:
            permits[late.task] = found
    resources = rows.find(ResourceRecord)
    plan = _plan(resources, permits.values(), now)
    granted = []
    for permit in plan.granted:
        place = rows.get(PermitRecord, *_primary(permit.task))
        if place is None:
            # Cleaned away with its run just now; whoever settles next finds what it would have had.
            continue
        turn = replace(place, stage=Stage.GRANTED, granted_at=now, until=now + terms.grant_ttl)
        rows.update(turn)
        granted.append(turn)
    for resource in resources:
        full_at = plan.full_at.get(resource.resource, resource.full_at)
        if full_at != resource.full_at:
            rows.update(replace(resource, full_at=full_at, updated_at=now))
    settled = Settled(
        granted=tuple(granted),
        expired=tuple(permits[permit.task] for permit in plan.expired),
        refused=tuple(permits[permit.task] for permit in plan.refused),
    )
    gone = [primary_of(permit) for permit in (*settled.expired, *settled.refused)]
    if gone:
        rows.discard(PermitRecord, gone)
    return settled


def _plan(resources: Iterable[ResourceRecord], permits: Iterable[PermitRecord], now: datetime) -> Plan:
    limited = {record.resource: record.value for record in resources}
    return decide(limited, [permit.value for permit in permits], now=now)


def _primary(key: TaskKey) -> tuple[str, str, str, int]:
    return key.dag_id, key.run_id, key.task_id, key.map_index
