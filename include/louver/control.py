"""
What people may ask of a task, given how it stands (semantics section 8).

:func:`judge_command` is the rule; :func:`send` asks it and writes the command down. Who carries commands out
is the process that holds the task, see :mod:`louver.supervision`; a task that nobody runs honours them at its
start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from louver.errors import CommandRefused
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, TaskKey, Verb
from louver.ledger.records import CommandRecord, TaskRecord
from louver.ledger.requests import CommandRequest
from louver.states import TaskState

__all__ = [
    "ENDING",
    "PAUSE_NONCE",
    "ROLLED_BACK",
    "TAKEN_BACK",
    "Ending",
    "Sent",
    "is_pause",
    "judge_command",
    "open_commands",
    "send",
    "standing_pause",
    "taken_back",
    "whole_step_commands",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """
    How a command that ends a task does so.

    :param to: the state it ends in.
    :param asked: the trigger that leads to ``stopping``, or at once to the end of a task without a process.
    :param confirmed: the trigger that leads from ``stopping`` to the end.
    :param done: what has become of the task, in a word.
    """

    to: TaskState
    asked: str
    confirmed: str
    done: str


ENDING: Mapping[Verb, Ending] = MappingProxyType(
    {
        Verb.STOP: Ending(
            to=TaskState.STOPPED, asked="user:stop", confirmed="runtime:stop_confirmed", done="stopped"
        ),
        Verb.CANCEL: Ending(
            to=TaskState.CANCELLED,
            asked="orchestrator:cascade",
            confirmed="runtime:cascade_confirmed",
            done="cancelled",
        ),
    }
)
"""The commands that end a task; a person's goes before the orchestration's."""


PAUSE_NONCE = "pause-"
"""What the nonce of a park begins with where a person paused the task; others wait for an approval."""

ROLLED_BACK = "rolled back"
"""What the outcome of a pause begins with that was not reached in time."""

TAKEN_BACK = "taken back"
"""What the outcome of a pause begins with that a resume came before; its own says the same."""

_LEAVING = (TaskState.STOPPING,)


def is_pause(record: TaskRecord | None) -> bool:
    """Whether the task is paused by a person, in place or with its slot given back."""
    if record is None or record.state is not TaskState.PAUSED:
        return False
    return record.nonce is None or record.nonce.startswith(PAUSE_NONCE)


def open_commands(commands: Sequence[CommandRecord], *, generation: int) -> list[CommandRecord]:
    """Those of this generation that are still to be carried out."""
    return [
        command
        for command in commands
        if command.generation == generation and command.state in (CommandState.PENDING, CommandState.CLAIMED)
    ]


def taken_back(actor: str | None) -> str:
    """The outcome of a pause that nobody had carried out yet, and that this person took back."""
    return f"{TAKEN_BACK} by {actor}" if actor else TAKEN_BACK


def standing_pause(record: TaskRecord, commands: Iterable[CommandRecord]) -> CommandRecord | None:
    """
    The pause that whoever begins the task anew has to keep; None where there is none, or it was taken back.

    A paused task is not run by another way to start it: a clear, or the death of the process it was paused in
    (case B08). Only a resume lets it go on. What came too late, for a task that is over, is no pause.

    :param record: the task as it was left.
    :param commands: to this task.
    """
    mine = [command for command in commands if command.generation == record.generation]
    pending = open_commands(mine, generation=record.generation)
    if record.state.terminal or any(command.verb is not Verb.PAUSE for command in pending):
        return None
    if not is_pause(record):
        return pending[0] if pending else None
    # By the session that left it so: an earlier one was resumed since, in whatever way.
    done = [
        command
        for command in mine
        if (command.verb, command.state, command.session) == (Verb.PAUSE, CommandState.DONE, record.session)
        and command.closed_at is not None
    ]
    return max(done, key=lambda command: (command.closed_at, command.command_id), default=None)


def whole_step_commands(
    commands: Iterable[CommandRecord],
    whole: TaskRecord | None,
    *,
    own: Iterable[CommandRecord] = (),
    since: datetime,
) -> list[CommandRecord]:
    """
    What an index of a mapped step has to meet when it is opened for the first time.

    Before a mapped step is expanded nobody knows its indexes, so it is asked as a whole. Each index meets
    that, and the command itself stays open for the others until all of them are over.

    :param commands: to the step as a whole (map index -1).
    :param whole: the step as a whole, where anything was ever written of it. Where it has ended, or was
        cleared since, what it was asked before is over.
    :param own: what this index was asked itself, which goes before.
    :param since: when its run began; what is older was meant for a deleted run of the same id.
    """
    if whole is not None and whole.state.terminal:
        return []
    generation = whole.generation if whole is not None else 1
    asked = {command.verb for command in own if command.closed_at is None}
    return [
        command
        for command in commands
        if command.closed_at is None
        and command.sent_at >= since
        and command.generation >= generation
        and command.verb not in asked
    ]


def judge_command(verb: Verb, record: TaskRecord | None, pending: Sequence[CommandRecord]) -> None:
    """
    Whether the command makes sense now.

    :param record: the task; None where it has not been opened yet.
    :param pending: its open commands.
    :raises CommandRefused: saying the current state, and why not.
    """
    state = record.state if record is not None else TaskState.PENDING
    asked = {command.verb for command in pending}
    if state.terminal:
        raise CommandRefused(f"it is {state}; {verb} comes too late", state=state)
    if asked & ENDING.keys() or state in _LEAVING:
        raise CommandRefused(f"it is {state} and is being stopped already", state=state)
    if verb is Verb.PAUSE:
        if is_pause(record):
            raise CommandRefused("it is paused already", state=state)
        if Verb.PAUSE in asked or state is TaskState.PAUSING:
            raise CommandRefused(f"it is {state} and a pause was asked for already", state=state)
    elif verb is Verb.RESUME:
        if Verb.RESUME in asked:
            raise CommandRefused(f"it is {state} and a resume was asked for already", state=state)
        if not is_pause(record) and Verb.PAUSE not in asked and state is not TaskState.PAUSING:
            waits = " for an approval" if state is TaskState.PAUSED else ""
            raise CommandRefused(f"it is {state}{waits} and not paused by anybody", state=state)


def _to_come(
    key: TaskKey, commands: Iterable[CommandRecord], own: Iterable[CommandRecord]
) -> list[CommandRecord]:
    """What an index will meet of what its step was told before; what it was told itself may answer that."""
    resumed = [one.sent_at for one in own if one.verb is Verb.RESUME]
    return [
        one
        for one in commands
        if one.task == replace(key, map_index=-1) != key
        and one.closed_at is None
        and not (one.verb is Verb.PAUSE and any(one.sent_at <= at for at in resumed))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    What became of a command that was asked for.

    :param command: as it was written down.
    :param cancelled: a pause that nobody had carried out yet, and that this resume took back instead.
    :param state: the task's state then.
    """

    command: CommandRecord | None
    cancelled: CommandRecord | None
    state: TaskState


def send(
    ledger: Ledger, request: CommandRequest, *, known: Iterable[CommandRecord] | None = None, now: datetime
) -> Sent:
    """
    Write the command down, if it makes sense.

    A resume before a pause was taken up takes that pause back; then nothing is left to be carried out.

    :param known: commands to the run, where they were read already; without it those to the task are read.
    :raises CommandRefused: where it makes none.
    :raises LedgerError: where the run is not in the ledger.
    """
    key = request.task
    record = ledger.get_task(key)
    generation = record.generation if record is not None else 1
    run = ledger.get_run(key.run) if record is not None else None
    if record is not None and run is not None and record.incarnation != run.incarnation:
        # Left by a run of this id that was deleted; the task that is meant nobody has opened yet.
        record, generation = None, generation + 1
    if known is None:
        known = ledger.list_commands(key.run, task_id=key.task_id)
    others = [command for command in known if command.command_id != request.command_id]
    pending = open_commands([one for one in others if one.task == key], generation=generation)
    to_come = _to_come(key, others, pending) if record is None else []
    judge_command(request.verb, record, [*pending, *to_come])
    state = record.state if record is not None else TaskState.PENDING
    if request.verb is Verb.RESUME:
        for pause in pending:
            if pause.verb is Verb.PAUSE and pause.state is CommandState.PENDING:
                cancelled = ledger.refuse_command(pause, outcome=taken_back(request.actor), now=now)
                if cancelled is not None:
                    return Sent(command=None, cancelled=cancelled, state=state)
    return Sent(command=ledger.send_command(request, now=now), cancelled=None, state=state)
