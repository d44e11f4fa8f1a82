"""
What the platform's own rows show of tasks, and what that means where their processes could not say so.

A step that was never started, that the platform gave up, or that a person marked has no process to write its
last transition. Whoever notices asks :func:`missed_change` what is missing, the closing tasks and the
reconciler alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from louver.definition import Definition
from louver.evaluation import may_run
from louver.ledger.records import TaskRecord
from louver.nodes import Node
from louver.sessions import Change
from louver.states import FailureKind, Precision, TaskState

__all__ = [
    "CLEARED",
    "GONE",
    "Shown",
    "Sighting",
    "explains_skip",
    "in_order",
    "missed_change",
    "occupies",
    "skipped_anew",
    "was_cleared",
]

_STARTED = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING})
_UNSTARTED = frozenset({TaskState.PENDING, TaskState.BLOCKED, TaskState.QUEUED})
_NEVER_RAN = frozenset({TaskState.SKIPPED, TaskState.CANCELLED})


class Shown(str, Enum):
    """
    What a row of the platform says of a task.

    ``nothing``: it has no state yet. ``waiting``: all it lacks is a slot. ``running``: a process is inside.
    ``parked``: it waits for a person, without a slot. ``held``: it waits for a time or a resource.
    ``retrying``: it failed and will be tried again. ``gone``: there is no row (any more).
    """

    NOTHING = "nothing"
    WAITING = "waiting"
    RUNNING = "running"
    PARKED = "parked"
    HELD = "held"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    GONE = "gone"

    @property
    def over(self) -> bool:
        """Whether the platform does nothing more about it."""
        return self in (Shown.SUCCEEDED, Shown.FAILED, Shown.SKIPPED, Shown.GONE)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """
    A task as the platform's row shows it.

    :param said: the platform's own word for its state.
    :param ready_at: when all it lacked was a slot.
    :param changed_at: when the row was last changed.
    :param answered: a person's answer is recorded that the task has not been given.
    """

    shown: Shown
    said: str
    try_number: int = 0
    max_tries: int = 0
    ready_at: datetime | None = None
    changed_at: datetime | None = None
    answered: bool = False


GONE = Sighting(shown=Shown.GONE, said="removed")
"""There is no row."""


CLEARED = Change(to=TaskState.PENDING, trigger="user:cleared", precision=Precision.BOUNDED)
"""What is written of a clear that nobody has recorded when it was made."""


def was_cleared(record: TaskRecord, sighting: Sighting) -> bool:
    """
    Whether the task was cleared since it was last opened, and nobody has recorded that.

    One that no process has opened was marked from outside, with no tries to compare.
    """
    return record.try_number > 0 and sighting.max_tries > record.max_tries


def occupies(record: TaskRecord | None) -> bool:
    """Whether the ledger holds a process for being inside the task."""
    if record is None:
        return False
    in_place = record.state is TaskState.PAUSED and record.nonce is None
    return record.state in _STARTED or in_place


def in_order(definition: Definition) -> tuple[Node, ...]:
    """The nodes, each behind those it waits for."""
    ordered: list[Node] = []
    placed: set[str] = set()
    waiting = list(definition.nodes)
    while waiting:
        late = []
        for node in waiting:
            if placed.issuperset(node.upstream):
                ordered.append(node)
                placed.add(node.name)
            else:
                late.append(node)
        waiting = late
    return tuple(ordered)


def explains_skip(node: Node | None, states: Mapping[str, TaskState], *, whole: bool = True) -> bool | None:
    """
    Whether an upstream did not deliver, so that the node is rightly skipped.

    :param node: None where the definition has no such node.
    :param states: of the nodes, as far as they are known.
    :param whole: it is skipped as a whole, and not one index of it.
    :returns: None where that is not settled yet.
    """
    if node is None:
        return False
    allowed = may_run(node, [states.get(name, TaskState.PENDING) for name in node.upstream])
    # Of a mapped step whose list is empty nothing runs either.
    return None if allowed is None else not allowed or (node.mapped and whole)


def missed_change(
    state: TaskState, sighting: Sighting, *, explained: bool | None, fast: bool = False
) -> Change | None:
    """
    The transition that is missing, if one is.

    A skip that no upstream explains was not decided by the workflow: the run was marked, it ran into a
    ``dagrun_timeout``, or the task was removed. Such a step is ``cancelled``, or ``lost`` where a process
    was inside, and a run with one of them did not succeed (semantics sections 1 and 4, case D08).

    :param state: what the ledger holds.
    :param explained: as :func:`explains_skip` says.
    :param fast: the workflow fails fast, and something has failed: what has not begun is ``cancelled``, also
        where the platform has skipped it before anybody could say so.
    """
    shown = sighting.shown
    if state.terminal or not shown.over:
        return None
    if shown is Shown.SUCCEEDED:
        return _marked(TaskState.SUCCEEDED, "Airflow holds it for success")
    if shown is Shown.FAILED:
        if state in _STARTED:
            return _lost("Airflow gave it up: its process ended without a word")
        return _marked(TaskState.FAILED, "Airflow holds it for failed")
    if state in _STARTED:
        return _lost(f"Airflow: {sighting.said} while it ran, as by dagrun_timeout or a removal")
    if explained is None:
        return None
    if explained and fast and state in _UNSTARTED:
        return Change(
            to=TaskState.CANCELLED,
            trigger="orchestrator:cascade",
            reason=f"Airflow: {sighting.said}; the workflow fails fast",
            precision=Precision.BOUNDED,
        )
    if explained and state in _UNSTARTED:
        return Change(
            to=TaskState.SKIPPED,
            trigger="orchestrator:upstream",
            reason=f"Airflow: {sighting.said}",
            precision=Precision.BOUNDED,
        )
    return Change(
        to=TaskState.CANCELLED,
        trigger="orchestrator:cascade",
        reason=f"Airflow: {sighting.said}, and not for an upstream: it was ended from outside",
        precision=Precision.BOUNDED,
    )


def skipped_anew(
    state: TaskState, sighting: Sighting, *, explained: bool | None, fast: bool = False
) -> tuple[Change, ...]:
    """
    What is missing of a step that was cleared, and that the platform has skipped since for an upstream.

    No process of it has begun that could have told of the clear. Were it still held for what it came to
    before, whoever goes on behind it would build on a result that is none any more.

    :param state: what the ledger holds.
    :param explained: as :func:`explains_skip` says.
    :param fast: as for :func:`missed_change`.
    """
    if not state.terminal or state in _NEVER_RAN or sighting.shown is not Shown.SKIPPED or not explained:
        return ()
    cleared = replace(CLEARED, reason=f"Airflow: {sighting.said} since")
    skipped = missed_change(TaskState.PENDING, sighting, explained=True, fast=fast)
    return (cleared,) if skipped is None else (cleared, skipped)


def _lost(reason: str) -> Change:
    return Change(
        to=TaskState.LOST,
        trigger="runtime:attempt_lost",
        reason=reason,
        failure_kind=FailureKind.LOST,
        precision=Precision.BOUNDED,
    )


def _marked(to: TaskState, reason: str) -> Change:
    kind = FailureKind.EXCEPTION if to is TaskState.FAILED else None
    return Change(to=to, trigger="user:marked", reason=reason, failure_kind=kind, precision=Precision.BOUNDED)
