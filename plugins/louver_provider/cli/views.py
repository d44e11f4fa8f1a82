"""What the commands show of a run: plain rows of ids, hashes and states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from louver.closing import RunOverview, overview
from louver.control import is_pause
from louver.history import history
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, Verb
from louver.ledger.records import CommandRecord, RunRecord, TransitionRecord
from louver.platform_events import PlatformEvent
from louver.states import TaskState
from louver.timestamps import to_utc_text
from louver_provider.cli.listings import command_row, progress_of

__all__ = ["history_rows", "run_view"]

Row = dict[str, Any]

_EXPLAINED = (TaskState.BLOCKED, TaskState.RETRY_WAIT, TaskState.FAILED, TaskState.LOST)


def run_view(ledger: Ledger, run: RunRecord) -> tuple[RunOverview, dict[str, list[Row]]]:
    """
    The run's overview, and its tables by name: ``run``, ``steps``, ``commands`` that nobody has carried out
    yet, ``pauses``, ``effects``, ``approvals``.
    """
    seen = overview(run.key, ledger)
    commands = ledger.list_commands(run.key)
    return seen, {
        "run": [
            {
                "dag_id": run.dag_id,
                "run_id": run.run_id,
                "state": str(seen.state),
                "reason": run.reason,
                "definition": f"{run.definition_name} {run.definition_version}",
                "fingerprint": run.definition_fingerprint,
                "started": to_utc_text(run.created_at),
            }
        ],
        "steps": _step_rows(ledger, run, seen),
        "commands": [command_row(command) for command in commands if command.closed_at is None],
        "pauses": _pause_rows(ledger, run, commands),
        "effects": _effect_rows(ledger, run),
        "approvals": _approval_rows(ledger, run),
    }


def _step_rows(ledger: Ledger, run: RunRecord, seen: RunOverview) -> list[Row]:
    definition = seen.definition
    records = {record.task_id: record for record in ledger.list_tasks(run.key)}
    touches = {touch.task_id: touch for touch in ledger.list_touches(run.key)}
    # By time, so that the newest of each step and state stays.
    reasons = {(row.task_id, row.to_state): row.reason for row in ledger.list_transitions(run.key)}
    rows = []
    for name in [*definition.names, *(name for name in records if name not in definition.names)]:
        record = records.get(name)
        state = seen.evaluation.states.get(name) or (record.state if record else TaskState.PENDING)
        rows.append(
            {
                "step": name,
                "state": str(state),
                "attempt": record.attempt if record else 0,
                "generation": record.generation if record else 1,
                "try_number": record.try_number if record else 0,
                "failure_kind": str(record.failure_kind) if record and record.failure_kind else None,
                "reason": reasons.get((name, state)) if state in _EXPLAINED else None,
                "progress": progress_of(touches.get(name)),
                "waits_for": list(definition.node(name).upstream) if name in definition.names else [],
                "updated": to_utc_text(record.updated_at) if record else None,
            }
        )
    return rows


def _pause_rows(ledger: Ledger, run: RunRecord, commands: list[CommandRecord]) -> list[Row]:
    """Who paused what; a task that waits for an approval is not paused."""
    rows = []
    for task in ledger.list_tasks(run.key):
        if not is_pause(task):
            continue
        reached = [
            command
            for command in commands
            if command.task == task.key and command.verb is Verb.PAUSE and command.state is CommandState.DONE
        ]
        pause = max(reached, key=lambda command: command.closed_at or command.sent_at, default=None)
        rows.append(
            {
                "step": task.task_id,
                "map_index": task.map_index,
                "paused_by": pause.actor if pause else None,
                "reason": pause.reason if pause else None,
                "since": to_utc_text(task.updated_at),
                "slot": "kept" if task.nonce is None else "given back",
            }
        )
    return rows


def _effect_rows(ledger: Ledger, run: RunRecord) -> list[Row]:
    return [
        {
            "effect": effect.provider_key,
            "step": effect.task_id,
            "kind": str(effect.kind),
            "state": str(effect.state),
            "committed_as": effect.commit_sequence,
            "intent": effect.intent_hash,
            "reason": effect.reason,
        }
        for effect in ledger.list_effects(run.key)
    ]


def _approval_rows(ledger: Ledger, run: RunRecord) -> list[Row]:
    return [
        {
            "request": request.request_id,
            "asked_by": request.task_id,
            "of": request.of,
            "decision": str(request.decision),
            "decided_by": request.decided_by,
            "expires": to_utc_text(request.expires_at) if request.expires_at else None,
            "payload": request.payload_fingerprint,
            "used_by": request.consumed_by,
        }
        for request in ledger.list_approvals(run.key)
    ]


def history_rows(
    transitions: Iterable[TransitionRecord],
    events: Iterable[PlatformEvent] = (),
    commands: Iterable[CommandRecord] = (),
) -> list[Row]:
    """The audit trail, in order of time; see :class:`louver.history.HistoryRow`."""
    return [
        {
            "at": to_utc_text(row.at),
            "since": to_utc_text(row.since) if row.since else None,
            "precision": str(row.precision),
            "step": row.task_id,
            "map_index": row.map_index,
            "from": str(row.from_state) if row.from_state else None,
            "to": str(row.to_state) if row.to_state else None,
            "airflow": row.said,
            "airflow_at": to_utc_text(row.said_at) if row.said_at else None,
            "trigger": row.trigger,
            "actor": row.actor,
            "reason": row.reason,
            "generation": row.generation,
            "attempt": row.attempt,
            "try_number": row.try_number,
            "source": row.source,
            "recorded_by": row.recorded_by,
            "recorded_at": to_utc_text(row.recorded_at) if row.recorded_at else None,
        }
        for row in history(transitions, events, commands)
    ]
