"""What people look for, and what they settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from louver.audit import link
from louver.errors import LedgerError
from louver.ledger.effect_operations import EffectOperations, effect_binding
from louver.ledger.human_queue_contract import Census, Word
from louver.ledger.names import CommandState, Decision, EffectKind, EffectState
from louver.ledger.records import (
    ApprovalRecord,
    CommandRecord,
    EffectRecord,
    Record,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.rows import Rows
from louver.ledger.transactions import decision, question
from louver.states import Precision, RunState, TaskState

__all__ = ["HumanQueueOperations"]

S = TypeVar("S", bound=Enum)

_WITH_REASON = frozenset({EffectState.UNKNOWN, EffectState.UNDO_FAILED, EffectState.FAILED})
"""Nothing comes into these states without a reason."""

_WAITING = (EffectState.UNKNOWN, EffectState.UNDO_FAILED)

_LIVE = tuple(state for state in RunState if not state.terminal)


class HumanQueueOperations(EffectOperations):
    """The part of the contract that serves people."""

    @question
    def find_effects(
        self, rows: Rows, *, states: Collection[EffectState] = (), key: str | None = None
    ) -> list[EffectRecord]:
        if states and key is None and _WITH_REASON.issuperset(states):
            return rows.effects_with_reason(states)
        named: dict[str, Any] = {} if key is None else {"key": key}
        wanted = [{**named, "state": state} for state in set(states)] or [named]
        found = [effect for equal in wanted for effect in rows.find(EffectRecord, **equal)]
        return sorted(found, key=lambda effect: (effect.started_at, effect.scope, effect.key, effect.epoch))

    @question
    def count_states(self, rows: Rows, *, live: bool = False) -> Census:
        states = _LIVE if live else ()
        workflows = _by_dag(rows.tally_runs(states))
        effects = _count(rows, EffectRecord, EffectState, states)
        if live:
            # These are looked for by an index of their own, of all runs.
            waiting = Counter(effect.state for effect in rows.effects_with_reason(_WAITING))
            effects |= {state: waiting[state] for state in _WAITING if waiting[state]}
        return Census(
            runs={
                state: number
                for state in RunState
                if (number := sum(counted.get(state, 0) for counted in workflows.values()))
            },
            workflows=workflows,
            tasks=_count(rows, TaskRecord, TaskState, states),
            effects=effects,
            approvals=_count(rows, ApprovalRecord, Decision, states, field="decision"),
            commands=_count(rows, CommandRecord, CommandState, states),
        )

    @decision
    def settle_effect(
        self, rows: Rows, record: EffectRecord, *, undone: bool, word: Word, now: datetime
    ) -> EffectRecord | None:
        _require(record, *_WAITING)
        task = self._task_of(rows, record)
        current = self._as_shown(rows, record)
        if current is None or not self._settle_undo(rows, current, undone=undone, now=now):
            return None
        if undone:
            settled = replace(current, state=EffectState.UNDONE, reason=_by_word("undone"), updated_at=now)
        else:
            settled = replace(
                current, state=EffectState.COMMITTED, undo=None, reason=_by_word("it stands"), updated_at=now
            )
            if current.commit_sequence is None:
                self._keep(
                    rows, settled.result_payload, None, binding=effect_binding(settled, "result"), now=now
                )
                settled = replace(settled, commit_sequence=self._next_sequence(rows, settled.task.run))
        rows.update(settled)
        self._bind_anew(rows, current, settled)
        what = f"effect {record.reference} is {'undone' if undone else 'to stand'}"
        self._note(rows, task, "user:settled", what, word, now=now)
        return settled

    def _settle_undo(self, rows: Rows, original: EffectRecord, *, undone: bool, now: datetime) -> bool:
        """Close the undo of what a person has settled; False where some process is at it."""
        undo = rows.get(EffectRecord, original.scope, f"undo:{original.reference}", 1)
        if undo is not None and undo.state is EffectState.STARTED:
            return False
        if not undone:
            if undo is not None and undo.state is EffectState.UNKNOWN:
                reason = _by_word("what it would undo stands")
                rows.update(replace(undo, state=EffectState.FAILED, reason=reason, updated_at=now))
            return True
        if undo is None:
            undo = _undo_of(original, now=now)
            rows.insert(undo)
            intent = self._intent(rows, original)
            self._keep(rows, undo.intent_payload, intent, binding=effect_binding(undo, "intent"), now=now)
        self._keep(rows, undo.result_payload, None, binding=effect_binding(undo, "result"), now=now)
        rows.update(
            replace(
                undo,
                state=EffectState.COMMITTED,
                commit_sequence=self._next_sequence(rows, undo.task.run),
                reason=_by_word("done"),
                updated_at=now,
            )
        )
        return True

    @decision
    def reopen_undo(
        self, rows: Rows, record: EffectRecord, *, word: Word, now: datetime
    ) -> EffectRecord | None:
        _require(record, EffectState.UNDO_FAILED)
        task = self._task_of(rows, record)
        current = self._as_shown(rows, record)
        if current is None:
            return None
        state = EffectState.UNKNOWN if current.commit_sequence is None else EffectState.COMMITTED
        reopened = replace(current, state=state, reason=_by_word("to be undone again"), updated_at=now)
        rows.update(reopened)
        self._note(
            rows, task, "user:retried", f"effect {record.reference} is to be undone again", word, now=now
        )
        return reopened

    @decision
    def renew_effect(
        self, rows: Rows, record: EffectRecord, *, word: Word, now: datetime
    ) -> EffectRecord | None:
        _require(record, EffectState.COMMITTED)
        task = self._task_of(rows, record)
        current = self._as_shown(rows, record)
        newest = self._newest(rows, record.scope, record.key)
        if current is None or newest is None or newest.epoch != record.epoch:
            return None
        renewed = replace(
            current,
            epoch=current.epoch + 1,
            state=EffectState.FAILED,
            commit_sequence=None,
            approval_id=None,
            ticket="",
            reason=_by_word("opened; nobody has begun it"),
            started_at=now,
            updated_at=now,
        )
        if not rows.insert(renewed):
            return None
        intent = self._intent(rows, current)
        self._keep(rows, renewed.intent_payload, intent, binding=effect_binding(renewed, "intent"), now=now)
        self._note(rows, task, "user:renewed", f"effect {renewed.reference} may be begun", word, now=now)
        return renewed

    @staticmethod
    def _task_of(rows: Rows, record: EffectRecord) -> TaskRecord:
        """The task that began the effect, locked first, as by everybody who writes about both."""
        key = record.task
        task = rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        if task is None:
            raise LedgerError(
                f"task {key}, which began effect {record.reference}, is no longer in the ledger; "
                "use another key"
            )
        return task

    def _as_shown(self, rows: Rows, record: EffectRecord) -> EffectRecord | None:
        current = self._current(rows, record)
        return current if (current.state, current.updated_at) == (record.state, record.updated_at) else None

    def _note(
        self, rows: Rows, task: TaskRecord, trigger: str, what: str, word: Word, *, now: datetime
    ) -> None:
        """A row that tells what a person said; the task's state stays, and nobody is fenced off."""
        row = TransitionRecord(
            dag_id=task.dag_id,
            run_id=task.run_id,
            task_id=task.task_id,
            map_index=task.map_index,
            chain="side",
            version=task.side_version + 1,
            generation=task.generation,
            attempt=task.attempt,
            from_state=task.state,
            to_state=task.state,
            at=now,
            trigger=trigger,
            actor=word.actor,
            reason=what if word.reason is None else f"{what}: {word.reason}",
            source=word.source,
            precision=Precision.EXACT,
        )
        row = link(row, task.side_head, keys=self._keys)
        rows.insert(row)
        rows.update(replace(task, side_version=row.version, side_head=row.mac))
        run = rows.peek(RunRecord, task.dag_id, task.run_id)
        if run is not None and run.state.terminal:
            self._seal(rows, run, now=now)


def _require(record: EffectRecord, *states: EffectState) -> None:
    if record.kind is EffectKind.UNDO:
        raise LedgerError(f"{record.reference} is an undo; settle what it undoes: {record.undoes}")
    if record.state not in states:
        wanted = " or ".join(map(str, states))
        raise LedgerError(f"effect {record.reference} is {record.state}; this is for one that is {wanted}")


def _by_word(what: str) -> str:
    # Whose word it was stands in the trail.
    return f"{what}, as a person said"


def _undo_of(original: EffectRecord, *, now: datetime) -> EffectRecord:
    """The undo that nobody had begun, done by hand."""
    return replace(
        original,
        key=f"undo:{original.reference}",
        epoch=1,
        name=f"undo:{original.name}",
        kind=EffectKind.UNDO,
        ticket="",
        undo=None,
        undoes=original.reference,
        verify=None,
        approval_id=None,
        commit_sequence=None,
        started_at=now,
        updated_at=now,
    )


def _count(
    rows: Rows,
    kind: type[Record],
    states: type[S],
    of_runs_in: Collection[RunState],
    *,
    field: str = "state",
) -> dict[S, int]:
    """
    How many there are in each state.

    :param of_runs_in: of runs in these states; empty means all there are.
    """
    of_some = bool(of_runs_in)
    counted = rows.tally_of_runs(kind, field, states=of_runs_in) if of_some else rows.tally(kind, field)
    return {state: counted[state.value] for state in states if state.value in counted}


def _by_dag(counted: Mapping[tuple[str, str], int]) -> dict[str, dict[RunState, int]]:
    by_dag: dict[str, dict[RunState, int]] = {dag_id: {} for dag_id, _ in sorted(counted)}
    for dag_id, of_dag in by_dag.items():
        of_dag.update((state, number) for state in RunState if (number := counted.get((dag_id, state.value))))
    return by_dag
