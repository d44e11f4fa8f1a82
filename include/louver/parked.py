"""
How a task that was parked goes on, or ends: what was asked of people, and what they have answered.

The ledger tells; what woke the task is only what the platform says of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from louver.approvals import Answer
from louver.control import ENDING, PAUSE_NONCE
from louver.errors import (
    ApprovalClosed,
    ApprovalExpired,
    ApprovalRejected,
    ConfigurationError,
    TaskCancelled,
)
from louver.ledger.names import Decision, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord
from louver.lifecycle import Ended
from louver.ports import StepRuntime, tell_transition
from louver.sessions import Change
from louver.states import FailureKind, Precision, TaskState

__all__ = ["ParkAnswer", "go_on", "keep_to_the_answer", "newest_request"]

_CLAIM = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkAnswer:
    """
    What woke a parked task.

    :param verb: ``resume`` or ``stop``, where a person answered a pause.
    :param by: that person.

    :param request_id: which request was answered; ``None`` where the answer does not say.
    :param answer: what a person said; ``None`` to go by what the ledger holds.
    :param timed_out: the waiting time is over.
    """

    request_id: str | None = None
    answer: Answer | None = None
    timed_out: bool = False
    verb: Verb | None = None
    by: str | None = None


def go_on(runtime: StepRuntime, nonce: str | None, answer: ParkAnswer) -> None:
    """
    Decide how a parked task goes on: it runs again, or ends.

    :param nonce: what the resume presented; it tells a pause from a request for approval.
    :raises Ended: where it ends.
    """
    if nonce is not None and nonce.startswith(PAUSE_NONCE):
        _go_on_after_pause(runtime, answer)
    else:
        _go_on_after_asking(runtime, answer)


def newest_request(runtime: StepRuntime) -> ApprovalRecord | None:
    """What this generation of the task has asked last."""
    token = runtime.token
    asked = [
        record
        for record in runtime.ledger.list_approvals(token.key.run)
        if record.task == token.key and record.generation == token.generation
    ]
    return asked[-1] if asked else None


def keep_to_the_answer(runtime: StepRuntime) -> None:
    """A no is a no, even where the process that was to act on it has died: nobody is asked again."""
    # That process has used up the park's nonce, so this is another attempt.
    asked = newest_request(runtime) if runtime.token.attempt > 1 else None
    if asked is None:
        return
    record, _ = _settle(asked, ParkAnswer(), runtime)
    if record.decision is Decision.REJECTED:
        raise _rejected(record)
    if record.decision is Decision.STOPPED:
        raise _stopped(record)
    if record.decision is Decision.EXPIRED:
        raise _expired(record)


def _rejected(record: ApprovalRecord) -> ApprovalRejected:
    return ApprovalRejected(f"approval {record.request_id} was rejected")


def _expired(record: ApprovalRecord) -> ApprovalExpired:
    return ApprovalExpired(f"approval {record.request_id} expired; expiry never approves")


def _stopped(record: ApprovalRecord) -> Ended:
    reason = f"request {record.request_id}"
    change = Change(to=TaskState.STOPPED, trigger="user:stop", actor=record.decided_by, reason=reason)
    return Ended(change, TaskCancelled(f"stopped in answer to approval {record.request_id}"))


def _go_on_after_asking(runtime: StepRuntime, answer: ParkAnswer) -> None:
    """Decide how a parked task goes on: run again, or end."""
    _stop_instead(runtime)
    asked = newest_request(runtime)
    if asked is None:
        raise ConfigurationError(f"{runtime.token.key} was resumed, but it asked for nothing")
    record, why_open = _settle(asked, answer, runtime)
    runtime.log.tell("approval.answered", "approval %s: %s", record.request_id, record.decision)
    by = record.decided_by
    reason = f"request {record.request_id}"
    if record.decision is Decision.APPROVED:
        change = _queued("approval:granted", actor=by, reason=reason)
    elif record.decision is Decision.REJECTED:
        rejected = Change(
            to=TaskState.FAILED,
            trigger="approval:rejected",
            actor=by,
            reason=reason,
            failure_kind=FailureKind.APPROVAL_REJECTED,
        )
        raise Ended(rejected, _rejected(record))
    elif record.decision is Decision.STOPPED:
        raise _stopped(record)
    elif record.decision is Decision.EXPIRED:
        expired = Change(
            to=TaskState.FAILED,
            trigger="approval:expired",
            reason=reason,
            failure_kind=FailureKind.APPROVAL_EXPIRED,
        )
        raise Ended(expired, _expired(record))
    else:
        change = _queued("user:resume", actor=None, reason=f"{reason}: {why_open}")
    for row in runtime.ledger.advance(runtime.token, change, now=runtime.now()):
        tell_transition(runtime.log, row)


def _queued(trigger: str, *, actor: str | None, reason: str | None) -> Change:
    """It was queued when it was answered, before this process began, which cannot tell when that was."""
    return Change(
        to=TaskState.QUEUED, trigger=trigger, actor=actor, reason=reason, precision=Precision.BOUNDED
    )


def _go_on_after_pause(runtime: StepRuntime, answer: ParkAnswer) -> None:
    """A task that a person paused goes on, or ends: by a command, else by what was answered in the UI."""
    now = runtime.now()
    commands = list(runtime.ledger.claim_commands(runtime.token, lease_until=now + _CLAIM, now=now))
    asked = {command.verb for command in commands}
    # A cancel wakes the task by the option Stop, in its sender's name: that is no stop of a person's.
    cancels = any(command.verb is Verb.CANCEL and answer.by in (None, command.actor) for command in commands)
    if answer.verb is not None and not cancels:
        asked.add(answer.verb)
    verb = next((verb for verb in ENDING if verb in asked), Verb.RESUME)
    ending = ENDING.get(verb)
    command = next((command for command in commands if command.verb is verb), None)
    if command is not None:
        commands.remove(command)
        actor, reason = command.actor, command.reason
    else:
        actor, reason = answer.by, None if verb in asked else "woken without an answer"
    outcome = "resumed" if ending is None else f"{ending.done} while it was paused"
    if ending is not None:
        change = Change(to=ending.to, trigger=ending.asked, actor=actor, reason=reason)
    else:
        change = _queued("user:resume", actor=actor, reason=reason)
    _carry_out(runtime, command, change, outcome=outcome)
    for late in commands:
        # Asked for by several at once, or overruled; it must not be carried out later, out of the blue.
        runtime.ledger.refuse_command(late, outcome=f"it was {outcome.split()[0]} already", now=now)
    if ending is not None:
        raise Ended(None, TaskCancelled(outcome), state=ending.to)


def _stop_instead(runtime: StepRuntime) -> None:
    """A stop goes before whatever was answered to a request for approval."""
    now = runtime.now()
    for command in runtime.ledger.claim_commands(runtime.token, limit=1, lease_until=now + _CLAIM, now=now):
        ending = ENDING.get(command.verb)
        if ending is None:
            # To be carried out at the start that follows, or refused there.
            runtime.ledger.release_command(command, now=now)
            continue
        outcome = f"{ending.done} while it waited for an approval"
        change = Change(to=ending.to, trigger=ending.asked, actor=command.actor, reason=command.reason)
        _carry_out(runtime, command, change, outcome=outcome)
        raise Ended(None, TaskCancelled(outcome), state=ending.to)


def _carry_out(runtime: StepRuntime, command: CommandRecord | None, change: Change, *, outcome: str) -> None:
    now = runtime.now()
    if command is not None:
        rows = runtime.ledger.obey(runtime.token, command, change, outcome=outcome, now=now)
    else:
        rows = runtime.ledger.advance(runtime.token, change, now=now)
    for row in rows or ():
        tell_transition(runtime.log, row)


def _settle(asked: ApprovalRecord, answer: ParkAnswer, runtime: StepRuntime) -> tuple[ApprovalRecord, str]:
    """The request after the answer, and why it is open where it still is."""
    now = runtime.now()
    if asked.decision is not Decision.PENDING:
        return asked, "it is void"
    late = asked.expires_at is not None and now >= asked.expires_at
    if answer.timed_out or (late and answer.answer is None):
        return runtime.ledger.expire_approval(asked.request_id, now=now), ""
    if answer.answer is None:
        return asked, "nobody has answered"
    if answer.request_id not in (None, asked.request_id):
        return asked, "the answer was to another request"
    try:
        return runtime.ledger.decide_approval(asked.request_id, answer.answer, now=now), ""
    except ApprovalExpired:
        return runtime.ledger.expire_approval(asked.request_id, now=now), ""
    except ApprovalClosed as closed:
        return asked, str(closed)
