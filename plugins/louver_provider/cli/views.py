"""What the commands show of a run: plain rows of ids, hashes and states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from louver.closing import RunOverview, overview
from louver.control import is_pause
from louver.definition import ApprovalNode, Node, Step
from louver.history import history
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, Verb
from louver.ledger.records import AcceptanceRecord, CommandRecord, RunRecord, TransitionRecord
from louver.platform_events import PlatformEvent
from louver.timestamps import to_utc_text
from louver_provider.cli.listings import command_row, progress_of
from louver_provider.cli.node_views import NodeView, node_views

__all__ = ["history_rows", "run_view", "workflow_view"]

Row = dict[str, Any]


def run_view(ledger: Ledger, run: RunRecord) -> tuple[RunOverview, dict[str, list[Row]]]:
    """
    The run's overview, and its tables by name: ``run``, ``steps``, ``commands`` that nobody has carried out
    yet, ``pauses``, ``effects``, ``approvals``.
    """
    seen = overview(run.key, ledger)
    commands = ledger.list_commands(run.key)
    return seen, {
        "run": [_run_row(run, seen)],
        "steps": _step_rows(node_views(ledger, run, seen)),
        "commands": [command_row(command) for command in commands if command.closed_at is None],
        "pauses": _pause_rows(ledger, run, commands),
        "effects": _effect_rows(ledger, run),
        "approvals": _approval_rows(ledger, run),
        **_versions(ledger, run),
    }


def _versions(ledger: Ledger, run: RunRecord) -> dict[str, list[Row]]:
    """Which definitions the run went on under; no table of a run that is under the one it began with."""
    rows = [
        {
            "from": one.from_version,
            "to": one.to_version,
            "fingerprint": one.to_fingerprint,
            "accepted": to_utc_text(one.accepted_at),
            "by": one.task_id,
            "reason": one.reason,
        }
        for one in ledger.list_acceptances(run.key)
    ]
    return {"versions": rows} if rows else {}


def _run_row(run: RunRecord, seen: RunOverview) -> Row:
    return {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "state": str(seen.state),
        "reason": run.reason,
        "definition": f"{run.definition_name} {run.definition_version}",
        "fingerprint": run.definition_fingerprint,
        "started": to_utc_text(run.created_at),
    }


def _step_rows(views: list[NodeView]) -> list[Row]:
    return [
        {
            "step": view.name,
            "state": str(view.state),
            "mapped": view.mapped,
            **_told_by_record(view),
            "reason": view.reason,
            "progress": progress_of(view.touch),
            "waits_for": list(view.waits_for),
            "updated": to_utc_text(view.record.updated_at) if view.record else None,
        }
        for view in views
    ]


def _told_by_record(view: NodeView) -> Row:
    record = view.record
    return {
        "attempt": record.attempt if record else 0,
        "generation": record.generation if record else 1,
        "try_number": record.try_number if record else 0,
        "failure_kind": str(record.failure_kind) if record and record.failure_kind else None,
    }


def workflow_view(ledger: Ledger, run: RunRecord) -> tuple[RunOverview, dict[str, list[Row]]]:
    """
    The run as its workflow has it: the tables ``run`` and ``nodes``.

    Each node with its state, what kind of node it is, what it waits for and how many of that it needs, and of
    a mapped one how many of its indexes have come how far.
    """
    seen = overview(run.key, ledger)
    nodes = [
        {
            "node": view.name,
            "state": str(view.state),
            "kind": _kind_of(view.node),
            "depends_on": list(view.waits_for),
            "join": view.node.join if view.node else None,
            "mapped": view.mapped,
            "attempt": view.record.attempt if view.record else 0,
            "failure_kind": _told_by_record(view)["failure_kind"],
            "on_failure": view.node.on_failure if isinstance(view.node, Step) else None,
        }
        for view in node_views(ledger, run, seen)
    ]
    row = _run_row(run, seen) | {"aggregation": seen.definition.aggregation}
    return seen, {"run": [row], "nodes": nodes}


def _kind_of(node: Node | None) -> str:
    if node is None:
        return "closing"
    if isinstance(node, ApprovalNode):
        return "approval"
    return "mapped step" if node.mapped else "branch" if node.branch else "step"


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
            "map_index": effect.map_index,
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
    acceptances: Iterable[AcceptanceRecord] = (),
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
        for row in history(transitions, events, commands, acceptances)
    ]
