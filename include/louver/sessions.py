"""
How a process takes hold of a task: pure decisions about the task's record.

A process opens its task by one conditional write and gets a token; every later write of it is conditional on
that token, so a superseded process can write nothing more (semantics section 1, Fencing and Identity).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from louver.errors import Superseded
from louver.ledger.names import Token
from louver.ledger.records import TaskRecord, TransitionRecord
from louver.policies import INFRASTRUCTURE_BUDGET
from louver.states import FailureKind, Precision, Source, TaskState, transition

__all__ = ["Change", "Claim", "Entry", "Opening", "apply_change", "check_token", "plan_opening"]

# What the retry policy counts as a failure of the step's own.
_COUNTED = frozenset({"runtime:error", "timeout:attempt", "timeout:idle"})

# In these the previous process was inside the attempt; a new one that finds them knows that it died, or was
# replaced.
_OCCUPYING = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    What a process says when it opens a task.

    :param try_number: Airflow's, or the engine's own count.
    :param max_tries: Airflow's; a larger one than before tells of a clear.
    :param process: host, process id and start time, to prove its death by.
    :param source: who it is.
    :param nonce: on a resume, what the park stored.
    :param fate: what the workflow's rules make of the task instead of running it: it is skipped or cancelled.
    """

    try_number: int
    max_tries: int
    process: str
    source: Source
    nonce: str | None = None
    fate: Change | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    A transition that somebody asks for.

    :param at: when it happened, where it could not be told then; otherwise it happens now.
    :param begins_attempt: user code is about to be launched anew, and not gone on with.
    """

    to: TaskState
    trigger: str
    reason: str | None = None
    actor: str | None = None
    failure_kind: FailureKind | None = None
    precision: Precision = Precision.EXACT
    begins_attempt: bool = False
    at: datetime | None = None


class Entry(str, Enum):
    """What the process that opened a task finds."""

    START = "start"
    RESUME = "resume"
    RECORDED = "recorded"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """
    What opening a task does to its record.

    :param entry: ``start`` runs user code; ``resume`` comes back from a park; ``recorded`` finds the step
        succeeded already (its report was lost) and returns what is recorded; ``over`` finds it ended.
    :param record: the record after counters were set, before ``changes``.
    :param changes: transitions to append, in order.
    """

    entry: Entry
    record: TaskRecord
    changes: Sequence[Change]


def plan_opening(record: TaskRecord, claim: Claim, *, incarnation: int) -> Opening:
    """
    What happens when ``claim`` meets ``record``.

    :param record: the task as the ledger knows it; a fresh one where it does not.
    :param incarnation: that of the run.
    :raises Superseded: for an older attempt, or a resume whose nonce is not (or no longer) the stored one.
    """
    opening = _plan(record, claim, incarnation=incarnation)
    return opening if claim.fate is None else _fated(opening, claim.fate)


def _fated(opening: Opening, fate: Change) -> Opening:
    """The task ends where it would have started; whatever was found over stays as it is."""
    if opening.entry is not Entry.START:
        return opening
    before = list(opening.changes[:-1])
    if before and before[-1].trigger == "orchestrator:dependencies_resolved":
        # They never were.
        before.pop()
    return replace(opening, entry=Entry.OVER, changes=[*before, fate])


def _plan(record: TaskRecord, claim: Claim, *, incarnation: int) -> Opening:
    if incarnation < record.incarnation:
        raise Superseded(f"{record.key}: the run was deleted and made again; this process is of the old one")
    reborn = incarnation > record.incarnation
    if not reborn and claim.try_number < record.try_number:
        raise Superseded(
            f"{record.key}: try {record.try_number} has opened the task; this is try {claim.try_number}"
        )
    held = replace(
        record,
        incarnation=incarnation,
        session=record.session + 1,
        try_number=claim.try_number,
        max_tries=claim.max_tries,
        process=claim.process,
        nonce=None,
    )
    if claim.nonce is not None:
        if reborn or record.state is not TaskState.PAUSED or record.nonce != claim.nonce:
            raise Superseded(f"{record.key}: this resume was used already, or the task is not parked")
        return Opening(entry=Entry.RESUME, record=held, changes=())
    # Without a process of its own it was marked from outside, with no tries to compare.
    known = record.try_number > 0 or record.state.terminal
    # Nor has anybody cleared what is told once more that it does not run: the platform had it queued already.
    as_marked = record.try_number == 0 and claim.fate is not None and record.state is claim.fate.to
    cleared = known and not as_marked and claim.max_tries > record.max_tries
    # One that is paused in place has a process inside, and nothing that a resume would have to present.
    occupied = record.state in _OCCUPYING or (record.state is TaskState.PAUSED and record.nonce is None)
    if reborn:
        return _next_generation(held, "the run was deleted and made again")
    if cleared and not occupied:
        return _next_generation(held, None)
    if cleared:
        return _restart(held)
    if record.state is TaskState.PAUSED and claim.try_number == record.try_number:
        raise Superseded(f"{record.key}: it is parked, and this process does not resume it")
    return _continue(held)


def _restart(held: TaskRecord) -> Opening:
    """A running task that is cleared goes on in its generation, its attempts given back; none is lost."""
    reason = "it was cleared while it ran"
    if held.state is TaskState.RUNNING:
        change = Change(
            to=TaskState.QUEUED, trigger="executor:restarting", reason=reason, precision=Precision.BOUNDED
        )
    else:
        change = Change(
            to=TaskState.RETRY_WAIT,
            trigger="runtime:attempt_lost",
            reason=reason,
            precision=Precision.BOUNDED,
        )
    again = replace(held, failures=0, losses=0)
    return Opening(entry=Entry.START, record=again, changes=[change, *_to_starting(change.to)])


def _next_generation(held: TaskRecord, reason: str | None) -> Opening:
    fresh = replace(held, generation=held.generation + 1, attempt=0, failures=0, losses=0, failure_kind=None)
    changes = [
        Change(to=TaskState.PENDING, trigger="user:cleared", reason=reason, precision=Precision.BOUNDED),
        *_to_starting(TaskState.PENDING),
    ]
    return Opening(entry=Entry.START, record=fresh, changes=changes)


def _continue(held: TaskRecord) -> Opening:
    state = held.state
    if state is TaskState.SUCCEEDED:
        return Opening(entry=Entry.RECORDED, record=held, changes=())
    if state.terminal:
        return Opening(entry=Entry.OVER, record=held, changes=())
    if state in _OCCUPYING or state is TaskState.PAUSED:
        losses = held.losses + 1
        if losses > INFRASTRUCTURE_BUDGET:
            change = Change(
                to=TaskState.LOST,
                trigger="runtime:attempt_lost",
                reason=f"{losses} processes were lost",
                failure_kind=FailureKind.LOST,
                precision=Precision.BOUNDED,
            )
            return Opening(entry=Entry.OVER, record=replace(held, losses=losses), changes=[change])
        lost = Change(
            to=TaskState.RETRY_WAIT,
            trigger="runtime:attempt_lost",
            reason="its process ended without a word",
            precision=Precision.BOUNDED,
        )
        again = replace(held, losses=losses)
        return Opening(entry=Entry.START, record=again, changes=[lost, *_to_starting(TaskState.RETRY_WAIT)])
    # Blocked in an attempt that has begun, it waited for a resource: its code is still to be launched.
    anew = state is not TaskState.BLOCKED or held.attempt == 0
    return Opening(entry=Entry.START, record=held, changes=_to_starting(state, anew=anew))


def _to_starting(state: TaskState, *, anew: bool = True) -> list[Change]:
    changes = []
    if state in (TaskState.PENDING, TaskState.BLOCKED):
        # Airflow tells nobody when it queues a task: the time is known by its bounds alone.
        changes.append(
            Change(
                to=TaskState.QUEUED,
                trigger="orchestrator:dependencies_resolved",
                precision=Precision.BOUNDED,
            )
        )
    elif state is TaskState.RETRY_WAIT:
        changes.append(Change(to=TaskState.QUEUED, trigger="policy:retry_due", precision=Precision.BOUNDED))
    changes.append(Change(to=TaskState.STARTING, trigger="scheduler:dispatch", begins_attempt=anew))
    return changes


def apply_change(
    record: TaskRecord, change: Change, *, source: Source, now: datetime, side_version: int | None = None
) -> tuple[TaskRecord, TransitionRecord]:
    """
    The record after the change, and the row that tells of it.

    :param side_version: number in the side chain, for writers that do not hold the task.
    :raises IllegalTransition: where the table does not allow it.
    """
    transition(record.state, change.to, change.trigger)
    main = side_version is None
    counted = change.trigger in _COUNTED
    after = replace(
        record,
        version=record.version + 1 if main else record.version,
        state=change.to,
        attempt=record.attempt + 1 if change.begins_attempt else record.attempt,
        failures=record.failures + 1 if counted else record.failures,
        failure_kind=change.failure_kind,
        updated_at=now,
    )
    row = TransitionRecord(
        dag_id=record.dag_id,
        run_id=record.run_id,
        task_id=record.task_id,
        map_index=record.map_index,
        chain="main" if main else "side",
        version=after.version if side_version is None else side_version,
        generation=record.generation,
        attempt=after.attempt,
        from_state=record.state,
        to_state=change.to,
        at=change.at or now,
        trigger=change.trigger,
        actor=change.actor,
        reason=change.reason,
        source=source,
        precision=change.precision,
    )
    return after, row


def check_token(record: TaskRecord | None, token: Token) -> TaskRecord:
    """
    The record, if the token still holds it.

    :raises Superseded: where another process has opened the task since, or the task is gone.
    """
    if (
        record is None
        or record.incarnation != token.incarnation
        or record.session != token.session
        or record.try_number != token.try_number
    ):
        raise Superseded(f"{token.key}: another process has taken over (session {token.session} is over)")
    return record
