"""What was asked of a task before the process that begins it now could be asked: it meets it all the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

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
    if before.version == 0 and before.side_version == 0:
        if before.map_index >= 0:
            _of_the_whole_step(rows, run, after)
        return
    if before.incarnation != after.incarnation:
        # What was wanted of a run that was deleted is not wanted of the one that has its name.
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
    for command in whole_step_commands(_commands(rows, after, -1), since=run.created_at):
        _ask_again(rows, command, after)


def _commands(rows: Rows, task: TaskRecord, map_index: int) -> Iterable[CommandRecord]:
    return rows.find(
        CommandRecord, dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id, map_index=map_index
    )


def _ask_again(rows: Rows, command: CommandRecord, task: TaskRecord) -> None:
    rows.insert(
        replace(
            command,
            # Of the task and the session that meet it: to do this once more does it once.
            command_id=f"{command.command_id.partition('.')[0]}.{task.map_index}.{task.session}",
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
