"""
What becomes of a run that is over: whether it may be removed (case H04), and what of it outlives it.

Pure decisions over what the ledger has of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from louver.compensation import tally
from louver.definition import Definition
from louver.evaluation import evaluate, final_state
from louver.ledger.names import EffectState
from louver.ledger.records import ApprovalRecord, EffectRecord, RunRecord, TaskRecord
from louver.node_states import node_states
from louver.states import RunState

__all__ = ["WAITING", "guards_beyond_its_run", "is_settled", "outliving", "reason_to_keep"]

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
    count = tally(effects)
    state = final_state(
        _forward(run, definition, tasks),
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


def _forward(run: RunRecord, definition: Definition, tasks: Iterable[TaskRecord]) -> RunState:
    """What its steps came to; those of a run that was deleted under this id are none of its own."""
    own = [task for task in tasks if task.incarnation == run.incarnation]
    return evaluate(definition, node_states(definition, own)).forward


def outliving(
    run: RunRecord,
    definition: Definition | None,
    *,
    tasks: Collection[TaskRecord],
    effects: Iterable[EffectRecord],
) -> list[EffectRecord]:
    """
    Which effects are none of the next run's that is made under this id: nobody undoes them any more.

    Those that are undone or failed, and what a run that has succeeded did. What a run that was deleted before
    its end has left is still to be undone, and what waits for a person goes on waiting.

    :param run: the one that was deleted.
    :param definition: None where it cannot be read; what is stored of the run is all that counts then.
    :param tasks: all of it, also those that a run deleted before it has left; so are the effects.
    """
    if not run.state.terminal or any(
        task.incarnation == run.incarnation and not task.state.terminal for task in tasks
    ):
        return []
    forward = run.state if definition is None else _forward(run, definition, tasks)
    # A step that was cleared since the run was closed, and failed, has left the stored state out of date.
    succeeded = run.state.success and (forward.success or not forward.terminal)

    def stands(effect: EffectRecord) -> bool:
        return effect.undo is None or (succeeded and effect.incarnation == run.incarnation)

    return [
        effect
        for effect in effects
        if effect.state not in WAITING and (effect.state is not EffectState.COMMITTED or stands(effect))
    ]


def guards_beyond_its_run(effect: EffectRecord) -> bool:
    """Whether the effect's key keeps other runs from doing it again."""
    return not effect.scope.startswith("run:")


def is_settled(effect: EffectRecord, *, before: datetime) -> bool:
    """Whether nobody is at work on the effect or has to decide about it, and it ended before that time."""
    return effect.state not in WAITING and effect.updated_at < before
