"""What the listing commands show: plain rows of ids, hashes, states and times, over many runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from louver.control import is_pause
from louver.errors import IntegrityError
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, EffectState, TaskKey
from louver.ledger.records import (
    ApprovalRecord,
    CommandRecord,
    EffectRecord,
    RunRecord,
    TaskRecord,
    TouchRecord,
)
from louver.ledger.requests import RunFilter
from louver.states import RunState, TaskState
from louver.timestamps import to_utc_text

__all__ = [
    "LIVE",
    "age",
    "approval_row",
    "approval_rows",
    "command_row",
    "effect_row",
    "progress_of",
    "runs_of",
    "task_rows",
    "waiting_rows",
    "waits_for",
]

Row = dict[str, Any]

LIVE = tuple(state for state in RunState if not state.terminal)
"""States of runs that are not over."""

_PAGE = 500


def runs_of(
    ledger: Ledger, *, states: tuple[RunState, ...] = (), dag_id: str | None = None, run_id: str | None = None
) -> Iterator[list[RunRecord]]:
    """Runs by the page, the newest first."""
    after = None
    while True:
        wanted = RunFilter(states=states, dag_id=dag_id, run_id=run_id, after=after, limit=_PAGE)
        page = ledger.list_runs(wanted)
        if page:
            yield page
        if len(page) < _PAGE:
            return
        after = page[-1]


def task_rows(
    ledger: Ledger, runs: Iterable[list[RunRecord]], *, states: Collection[TaskState], now: datetime
) -> Iterator[Row]:
    """A row for each task in one of these states, and for each that was asked something before it began."""
    for page in runs:
        seen = ledger.survey(run.key for run in page)
        touches = {_place(touch): touch for touch in seen.touches}
        commands: dict[TaskKey, list[CommandRecord]] = {}
        for command in seen.commands:
            commands.setdefault(command.task, []).append(command)
        known = {task.key: task for task in seen.tasks}
        for key in sorted({*known, *commands}):
            task = known.get(key)
            if (task.state if task is not None else TaskState.PENDING) in states:
                yield _task_row(key, task, touches.get(key), commands.get(key, []), now=now)


def _task_row(
    key: TaskKey,
    task: TaskRecord | None,
    touch: TouchRecord | None,
    commands: list[CommandRecord],
    *,
    now: datetime,
) -> Row:
    if task is None or (touch is not None and touch.session != task.session):
        touch = None
    return {
        "dag_id": key.dag_id,
        "run_id": key.run_id,
        "step": key.task_id,
        "map_index": key.map_index,
        "state": str(task.state) if task is not None else str(TaskState.PENDING),
        "attempt": task.attempt if task is not None else 0,
        "since": to_utc_text(task.updated_at) if task is not None else None,
        "heartbeat": age(touch.heartbeat_at, now) if touch is not None else None,
        "progress": progress_of(touch),
        "commands": [str(command.verb) for command in commands],
        "waits_for": waits_for(task),
    }


def _place(touch: TouchRecord) -> TaskKey:
    return TaskKey(touch.dag_id, touch.run_id, touch.task_id, touch.map_index)


def waits_for(task: TaskRecord | None) -> str | None:
    """Which answer of a person the task waits for, if it does."""
    if task is None or task.state is not TaskState.PAUSED:
        return None
    return "resume" if is_pause(task) else "approval"


def progress_of(touch: TouchRecord | None) -> str | None:
    """How far the task is, as ``40/100 rows``."""
    if touch is None or touch.done is None:
        return None
    total = f"/{_number(touch.total)}" if touch.total is not None else ""
    unit = f" {touch.unit}" if touch.unit else ""
    return f"{_number(touch.done)}{total}{unit}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def age(moment: datetime, now: datetime) -> str:
    """How long ago that was, in the unit that people would use."""
    seconds = max(0, int((now - moment).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 120:
        return f"{minutes}m"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def command_row(command: CommandRecord) -> Row:
    """A command that somebody sent."""
    return {
        "command_id": command.command_id,
        "step": command.task_id,
        "map_index": command.map_index,
        "command": str(command.verb),
        "state": str(command.state),
        "asked_by": command.actor,
        "reason": command.reason,
        "sent": to_utc_text(command.sent_at),
    }


def approval_row(request: ApprovalRecord, *, now: datetime) -> Row:
    """A request for a decision."""
    return {
        "dag_id": request.dag_id,
        "run_id": request.run_id,
        "asked_by": request.task_id,
        "map_index": request.map_index,
        "of": request.of,
        "decision": str(request.decision),
        "decided_by": request.decided_by,
        "age": age(request.requested_at, now),
        "expires": to_utc_text(request.expires_at) if request.expires_at else None,
        "allowed": list(request.approvers) or ["anybody"],
        "four_eyes": request.four_eyes,
        "payload": request.payload_fingerprint,
        "request": request.request_id,
    }


def approval_rows(
    ledger: Ledger, runs: Iterable[list[RunRecord]], *, decided: bool, now: datetime, damaged: list[str]
) -> Iterator[Row]:
    """
    The requests of these runs.

    :param decided: those that were decided too.
    :param damaged: is told of runs with a request that does not match its signature; the others are shown.
    """
    for page in runs:
        if decided:
            found = [request for run in page for request in _requests(ledger, run, damaged)]
        else:
            found = list(ledger.survey(run.key for run in page).approvals)
        for request in sorted(found, key=lambda request: request.requested_at):
            yield approval_row(request, now=now)


def _requests(ledger: Ledger, run: RunRecord, damaged: list[str]) -> list[ApprovalRecord]:
    try:
        return ledger.list_approvals(run.key)
    except IntegrityError as error:
        damaged.append(f"run {run.key.dag_id}/{run.key.run_id}: {error}")
        return []


def effect_row(effect: EffectRecord) -> Row:
    """An effect, or an undo."""
    return {
        "dag_id": effect.dag_id,
        "run_id": effect.run_id,
        "step": effect.task_id,
        "map_index": effect.map_index,
        "effect": effect.provider_key,
        "scope": effect.scope,
        "kind": str(effect.kind),
        "state": str(effect.state),
        "committed_as": effect.commit_sequence,
        "since": to_utc_text(effect.updated_at),
        "intent": effect.intent_hash,
        "reason": effect.reason,
    }


def waiting_rows(effects: Iterable[EffectRecord], *, now: datetime) -> list[Row]:
    """The effects that wait for a person, with what is known of their undos."""
    found = list(effects)
    undos = {(undo.scope, undo.undoes): undo for undo in found if undo.kind is EffectKind.UNDO}
    rows = []
    for effect in found:
        waits = effect.state in (EffectState.UNKNOWN, EffectState.UNDO_FAILED)
        if effect.kind is EffectKind.UNDO or not waits:
            continue
        undo = undos.get((effect.scope, effect.reference))
        rows.append(
            {
                "dag_id": effect.dag_id,
                "run_id": effect.run_id,
                "step": effect.task_id,
                "effect": effect.reference,
                "scope": effect.scope,
                "state": str(effect.state),
                "undo": str(undo.state) if undo is not None else None,
                "age": age(effect.updated_at, now),
                "reason": effect.reason,
            }
        )
    return rows
