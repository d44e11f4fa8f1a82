"""Whether a run may be removed: a pure decision over what the ledger has of it (case H04)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from louver.compensation import tally
from louver.definition import Definition
from louver.evaluation import evaluate, final_state
from louver.ledger.names import EffectState
from louver.ledger.records import ApprovalRecord, EffectRecord, RunRecord, TaskRecord

__all__ = ["WAITING", "guards_beyond_its_run", "is_settled", "reason_to_keep"]

WAITING = frozenset({EffectState.STARTED, EffectState.UNKNOWN, EffectState.UNDO_FAILED})
"""Effects that a process is at work on, or that wait for a person."""


def reason_to_keep(
    run: RunRecord,
    definition: Definition,
    *,
    tasks: Collection[TaskRecord],
    effects: Collection[EffectRecord],
    approvals: Collection[ApprovalRecord],
    before: datetime,
) -> str | None:
    """
    Why the run stays; None where it may go.

    Both the stored state and the one that follows from its steps and effects have to be final: the first
    alone may be out of date, the second is reached before the run is closed.

    :param tasks: all of it, also those that a run deleted under this id has left.
    :param before: when all of it has to have ended.
    """
    if not run.state.terminal:
        return f"it is {run.state}"
    unfinished = sorted(task.task_id for task in tasks if not task.state.terminal)
    if unfinished:
        return f"it is stored as {run.state}, and {unfinished[0]} has not ended"
    waiting = [effect for effect in effects if effect.state in WAITING]
    if waiting:
        return f"effect {waiting[0].reference} is {waiting[0].state}"
    states = {task.task_id: task.state for task in tasks if task.incarnation == run.incarnation}
    count = tally(effects)
    state = final_state(
        evaluate(definition, states).forward,
        undone=count.undone,
        failed=count.failed,
        outstanding=count.outstanding,
    )
    if not state.terminal:
        return f"it is stored as {run.state}, and is {state} by its steps and effects"
    moments = [
        run.updated_at,
        *(task.updated_at for task in tasks),
        *(effect.updated_at for effect in effects),
        *(asked.decided_at or asked.requested_at for asked in approvals),
    ]
    if max(moments) >= before:
        return "something of it is younger"
    return None


def guards_beyond_its_run(effect: EffectRecord) -> bool:
    """Whether the effect's key keeps other runs from doing it again."""
    return not effect.scope.startswith("run:")


def is_settled(effect: EffectRecord, *, before: datetime) -> bool:
    """Whether nobody is at work on the effect or has to decide about it, and it ended before that time."""
    return effect.state not in WAITING and effect.updated_at < before
