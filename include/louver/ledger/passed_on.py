"""What was asked of a task before the process that begins it now could be asked: it meets it all the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from louver.canonical import fingerprint
from louver.control import is_pause, standing_pause, whole_step_commands
from louver.ledger.names import CommandState
from louver.ledger.records import CommandRecord, RunRecord, TaskRecord
from louver.ledger.rows import Rows

__all__ = ["pass_on"]

_KEPT = "kept for the step's next generation"


def pass_on(rows: Rows, run: RunRecord, before: TaskRecord, after: TaskRecord, *, now: datetime) -> None:
    """
    Have the process that begins the task meet these commands too, before any user code.

    A pause that is still in force, and what was asked of a mapped step as a whole, before it had indexes.

    :param before: the task as it was left; locked.
    :param after: as it was opened, to be begun.
    """
    made_again = before.incarnation != after.incarnation
    if made_again or (before.version == 0 and before.side_version == 0):
        # What was wanted of a task of a run that was deleted is not wanted of the one that has its name.
        if before.map_index >= 0:
            _of_the_whole_step(rows, run, after)
        return
    if is_pause(before) or before.generation != after.generation:
        _the_pause(rows, before, after, now=now)


def _the_pause(rows: Rows, before: TaskRecord, after: TaskRecord, *, now: datetime) -> None:
    pause = standing_pause(before, _commands(rows, before, before.map_index))
    if pause is None:
        return
    if pause.closed_at is None:
        # Locked and read again: it may be taken back at this moment.
        locked = rows.get(CommandRecord, pause.command_id)
        if locked is None or locked.closed_at is not None:
            return
        rows.update(replace(locked, state=CommandState.REFUSED, outcome=_KEPT, closed_at=now))
    _ask_again(rows, pause, after)


def _of_the_whole_step(rows: Rows, run: RunRecord, after: TaskRecord) -> None:
    commands = _commands(rows, after, -1)
    if not commands:
        # As for nearly every index of every mapped step: nothing more is asked.
        return
    whole = rows.peek(TaskRecord, after.dag_id, after.run_id, after.task_id, -1)
    if whole is not None and whole.incarnation != run.incarnation:
        whole = None
    own = _commands(rows, after, after.map_index)
    for command in whole_step_commands(commands, whole, own=own, since=run.created_at):
        # Locked and read again: it may be taken back at this moment.
        locked = rows.get(CommandRecord, command.command_id)
        if locked is not None and locked.closed_at is None:
            _ask_again(rows, locked, after)


def _commands(rows: Rows, task: TaskRecord, map_index: int) -> list[CommandRecord]:
    return rows.find(
        CommandRecord, dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id, map_index=map_index
    )


def _ask_again(rows: Rows, command: CommandRecord, task: TaskRecord) -> None:
    # Of the task and the session that meet it: to do this once more does it once.
    place = [task.dag_id, task.run_id, task.task_id, task.map_index, task.session]
    rows.insert(
        replace(
            command,
            command_id=fingerprint([command.command_id, *place])[:32],
            map_index=task.map_index,
            generation=task.generation,
            state=CommandState.PENDING,
            claimed_by=None,
            session=None,
            lease_until=None,
            outcome=None,
            closed_at=None,
        )
    )
