"""Removing what is over: runs, each in a transaction of its own, and effects that have outlived theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from louver.definition_json import read_definition_form
from louver.errors import DefinitionError, IntegrityError
from louver.ledger.findings import Cleaned, StandingPage
from louver.ledger.names import RunKey
from louver.ledger.owners import payloads_of
from louver.ledger.records import (
    OF_NO_GENERATION,
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    CommandRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
    PermitRecord,
    PlaceRecord,
    Record,
    RunRecord,
    SealRecord,
    TaskRecord,
    TouchRecord,
    TransitionRecord,
)
from louver.ledger.rows import Rows, primary_of
from louver.ledger.run_audit import PAGE
from louver.ledger.task_operations import TaskOperations, definition_binding, definition_payload
from louver.ledger.transactions import decision, question
from louver.retention import guards_beyond_its_run, is_settled, reason_to_keep

__all__ = ["RetentionOperations"]

T = TypeVar("T")

_TOGETHER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Belongings:
    """What the ledger has of a run."""

    run: RunRecord
    tasks: Sequence[TaskRecord]
    effects: Sequence[EffectRecord]


class RetentionOperations(TaskOperations):
    """The part of the contract that removes what is over."""

    @question
    def plan_cleaning(
        self, rows: Rows, key: RunKey, *, before: datetime, effects: bool = False
    ) -> Cleaned | None:
        run = rows.peek(RunRecord, key.dag_id, key.run_id)
        if run is None:
            return None
        equal = {"dag_id": key.dag_id, "run_id": key.run_id}
        found = _Belongings(
            run=run, tasks=rows.find(TaskRecord, **equal), effects=rows.find(EffectRecord, **equal)
        )
        return self._cleaning(rows, found, before=before, with_effects=effects, removing=False)

    @decision
    def clean_run(
        self, rows: Rows, key: RunKey, *, before: datetime, effects: bool = False
    ) -> Cleaned | None:
        found = self._locked_all(rows, key)
        if found is None:
            return None
        return self._cleaning(rows, found, before=before, with_effects=effects, removing=True)

    @staticmethod
    def _locked_all(rows: Rows, key: RunKey) -> _Belongings | None:
        """
        The run with its tasks and effects, all locked: in the order in which whoever commits an effect locks.

        A task that is opened for the first time meanwhile holds the run until it is there.
        """
        equal = {"dag_id": key.dag_id, "run_id": key.run_id}
        for task in rows.find(TaskRecord, **equal):
            rows.get(TaskRecord, *primary_of(task))
        for effect in rows.find(EffectRecord, **equal):
            rows.get(EffectRecord, *primary_of(effect))
        run = rows.get(RunRecord, key.dag_id, key.run_id)
        if run is None:
            return None
        return _Belongings(
            run=run, tasks=rows.find(TaskRecord, **equal), effects=rows.find(EffectRecord, **equal)
        )

    def _cleaning(
        self, rows: Rows, found: _Belongings, *, before: datetime, with_effects: bool, removing: bool
    ) -> Cleaned:
        key = found.run.key
        equal = {"dag_id": key.dag_id, "run_id": key.run_id}
        approvals = rows.find(ApprovalRecord, **equal)
        kept = self._kept(rows, found, approvals, before=before)
        if kept is not None:
            return Cleaned(dag_id=key.dag_id, run_id=key.run_id, kept=kept)
        events = rows.find(EventRecord, **equal)
        checkpoints = rows.find(CheckpointRecord, **equal)
        standing = [effect for effect in found.effects if guards_beyond_its_run(effect) and not with_effects]
        gone = [effect for effect in found.effects if with_effects or not guards_beyond_its_run(effect)]
        payload_ids = [
            name for row in (*approvals, *events, *checkpoints, *gone) for name in payloads_of(row)
        ]
        cleaned = Cleaned(
            dag_id=key.dag_id,
            run_id=key.run_id,
            tasks=len(found.tasks),
            transitions=rows.count(TransitionRecord, **equal),
            checkpoints=len(checkpoints),
            effects=len(gone),
            standing=len(standing),
            approvals=len(approvals),
            commands=rows.count(CommandRecord, **equal),
            events=len(events),
            payloads=sum(len(rows.sizes(some)) for some in _chunks(payload_ids)),
        )
        if removing:
            _discard(rows, PayloadRecord, [(payload_id,) for payload_id in payload_ids])
            for effect in standing:
                # What a later run of this id does is not built on it.
                rows.update(replace(effect, generation=OF_NO_GENERATION))
            _discard(rows, EffectRecord, [primary_of(effect) for effect in gone])
            for kind in _OF_THE_RUN:
                rows.remove(kind, **equal)
        return cleaned

    def _kept(
        self, rows: Rows, found: _Belongings, approvals: Sequence[ApprovalRecord], *, before: datetime
    ) -> str | None:
        run = found.run
        fingerprint = run.definition_fingerprint
        try:
            form = self._load(rows, definition_payload(fingerprint), binding=definition_binding(fingerprint))
            definition = read_definition_form(form)
        except (IntegrityError, DefinitionError) as error:
            return f"its definition cannot be read: {error}"
        return reason_to_keep(
            run,
            definition,
            tasks=found.tasks,
            effects=found.effects,
            approvals=approvals,
            before=before,
        )

    @question
    def list_standing_effects(
        self,
        rows: Rows,
        *,
        before: datetime,
        dag_id: str | None = None,
        after: tuple[Any, ...] | None = None,
        limit: int = PAGE,
    ) -> StandingPage:
        wanted = {} if dag_id is None else {"dag_id": dag_id}
        found = rows.page(EffectRecord, after=after, limit=limit, **wanted)
        effects = [row for row in found if isinstance(row, EffectRecord) and is_settled(row, before=before)]
        runs = _runs_of(rows, effects)
        return StandingPage(
            effects=tuple(effect for effect in effects if effect.task.run not in runs),
            after=primary_of(found[-1]) if len(found) == limit else None,
        )

    @decision
    def clean_effects(
        self, rows: Rows, effects: Iterable[EffectRecord], *, before: datetime
    ) -> tuple[EffectRecord, ...]:
        locked = [rows.get(EffectRecord, *primary_of(effect)) for effect in effects]
        settled = [effect for effect in locked if effect is not None and is_settled(effect, before=before)]
        runs = _runs_of(rows, settled)
        gone = [effect for effect in settled if effect.task.run not in runs]
        _discard(rows, EffectRecord, [primary_of(effect) for effect in gone])
        _discard(rows, PayloadRecord, [(name,) for effect in gone for name in payloads_of(effect)])
        return tuple(gone)


_OF_THE_RUN: tuple[type[Record], ...] = (
    TransitionRecord,
    SealRecord,
    AcceptanceRecord,
    CheckpointRecord,
    ApprovalRecord,
    CommandRecord,
    TouchRecord,
    PermitRecord,
    PlaceRecord,
    EventRecord,
    TaskRecord,
    RunRecord,
)


def _runs_of(rows: Rows, effects: Sequence[EffectRecord]) -> set[RunKey]:
    """The runs of these effects that are in the ledger."""
    wanted = sorted({(effect.dag_id, effect.run_id) for effect in effects})
    return {RunKey(*primary_of(row)) for some in _chunks(wanted) for row in rows.read(RunRecord, some)}


def _discard(rows: Rows, kind: type[Record], primaries: Sequence[tuple[Any, ...]]) -> None:
    for some in _chunks(primaries):
        rows.discard(kind, some)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + _TOGETHER] for first in range(0, len(items), _TOGETHER))
