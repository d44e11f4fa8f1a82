"""Resources with limits, and the permits of those who use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from louver.errors import ConfigurationError
from louver.ledger.names import CommandState, TaskKey, Token, Verb
from louver.ledger.permit_contract import PermitWatch, Settled
from louver.ledger.permit_lines import Touched, leave, plan, settle, stand, task_primary
from louver.ledger.records import CommandRecord, LineRecord, PermitRecord, ResourceRecord, TaskRecord
from louver.ledger.rows import Rows
from louver.ledger.transactions import Transactional, decision, question
from louver.semaphores import PermitTerms, ResourceLimit, Stage, less_at_once, too_large

__all__ = ["PermitOperations"]

_LINE = "resources"
_WANTED = (Verb.STOP, Verb.CANCEL, Verb.PAUSE)


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
        primary = task_primary(token.key)
        mine = [limits[name] for name in needs if name in limits]
        limited = mine or any(rows.peek(ResourceRecord, name) for name in sorted(needs))
        if not limited and rows.peek(PermitRecord, *primary) is None:
            return None
        line = _line(rows)
        touched = Touched(names=set(needs))
        _configure(rows, mine, touched, now)
        resources = {record.resource: record.limit for record in rows.find(ResourceRecord)}
        problem = too_large(needs, resources)
        if problem is not None:
            raise ConfigurationError(problem)
        wanted = tuple(f"{name}={units}" for name, units in sorted(needs.items()))
        known = rows.get(PermitRecord, *primary)
        if known is not None and limited and _goes_on(known, token, wanted, resources, now):
            return self._go_on(rows, known, token, touched, priority=priority, terms=terms, now=now)
        if known is not None:
            touched.add(known.units)
            leave(rows, known)
            rows.discard(PermitRecord, [primary])
        if not limited:
            # It waited, or an earlier process had it, when there were limits; now nobody counts it.
            settle(rows, touched, terms, now)
            return None
        rows.update(replace(line, last=line.last + 1))
        place = _new_place(token, wanted, priority=priority, sequence=line.last + 1, now=now)
        settled = settle(rows, touched, terms, now, newcomer=place)
        turn = next((permit for permit in settled.granted if permit.task == token.key), None)
        if turn is not None:
            place = replace(turn, stage=Stage.HELD, until=now + terms.lease)
        rows.put(place)
        stand(rows, place)
        return place

    @staticmethod
    def _go_on(
        rows: Rows,
        known: PermitRecord,
        token: Token,
        touched: Touched,
        *,
        priority: int,
        terms: PermitTerms,
        now: datetime,
    ) -> PermitRecord:
        """With what the task has already, or from its place."""
        place = replace(known, session=token.session, process=token.process, priority=priority)
        if place.stage is Stage.WAITING:
            leave(rows, known)
            rows.update(place)
            stand(rows, place)
            settled = settle(rows, touched, terms, now)
            turn = next((permit for permit in settled.granted if permit.task == token.key), None)
            if turn is None:
                return place
            place = turn
        place = replace(place, stage=Stage.HELD, until=now + terms.lease)
        rows.update(place)
        return place

    @decision
    def renew_permit(self, rows: Rows, token: Token, *, terms: PermitTerms, now: datetime) -> bool:
        known = rows.get(PermitRecord, *task_primary(token.key))
        if known is None or known.session != token.session or known.stage is not Stage.HELD:
            return False
        rows.update(replace(known, until=now + terms.lease))
        return True

    @decision
    def release_permit(
        self, rows: Rows, key: TaskKey, *, session: int, terms: PermitTerms, now: datetime
    ) -> Settled | None:
        primary = task_primary(key)
        if rows.peek(PermitRecord, *primary) is None:
            return None
        _line(rows)
        known = rows.get(PermitRecord, *primary)
        if known is None or known.session > session:
            return None
        leave(rows, known)
        rows.discard(PermitRecord, [primary])
        return settle(rows, Touched(names=set(known.units)), terms, now)

    @decision
    def settle_permits(
        self, rows: Rows, *, limits: Mapping[str, ResourceLimit], terms: PermitTerms, now: datetime
    ) -> Settled:
        _line(rows)
        touched = Touched(names=None)
        _configure(rows, limits.values(), touched, now)
        return settle(rows, touched, terms, now)

    @question
    def plan_permits(self, rows: Rows, *, now: datetime) -> Settled:
        return plan(rows, now)

    @question
    def list_permit_watches(self, rows: Rows, keys: Iterable[TaskKey]) -> list[PermitWatch]:
        wanted = list(keys)
        places = [task_primary(key) for key in wanted]
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
        touched = Touched(names=None)
        _limit(rows, limit, touched, set_by=by, now=now)
        return settle(rows, touched, terms, now)

    @decision
    def unset_resource(
        self,
        rows: Rows,
        resource: str,
        *,
        limits: Mapping[str, ResourceLimit],
        terms: PermitTerms,
        now: datetime,
    ) -> bool:
        _line(rows)
        if rows.get(ResourceRecord, resource) is None:
            return False
        touched = Touched(names=None)
        if resource in limits:
            _limit(rows, limits[resource], touched, set_by=None, now=now)
            settle(rows, touched, terms, now)
            return True
        rows.discard(ResourceRecord, [(resource,)])
        # Who waited for this one alone waits for nothing that has a limit.
        settle(
            rows, Touched(names={resource, *(row.resource for row in rows.find(ResourceRecord))}), terms, now
        )
        return True


def _line(rows: Rows) -> LineRecord:
    """The line's row, locked: whoever decides about permits at the same moment waits for the other."""
    known = rows.get(LineRecord, _LINE)
    if known is not None:
        return known
    fresh = LineRecord(name=_LINE, last=0)
    return fresh if rows.insert(fresh) else rows.get(LineRecord, _LINE) or fresh


def _configure(rows: Rows, limits: Iterable[ResourceLimit], touched: Touched, now: datetime) -> None:
    for limit in limits:
        known = rows.peek(ResourceRecord, limit.resource)
        if known is None or (known.set_by is None and known.limit != limit):
            _limit(rows, limit, touched, set_by=None, now=now)


def _limit(rows: Rows, limit: ResourceLimit, touched: Touched, *, set_by: str | None, now: datetime) -> None:
    known = rows.get(ResourceRecord, limit.resource)
    full_at = now if known is None else known.value.under(limit, now).full_at
    # Another limit may free, or keep, whatever those who wait for it need besides.
    touched.names = None
    if known is None or less_at_once(limit, known.limit):
        touched.lowered.add(limit.resource)
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
