"""What the commands show of a run: plain rows of ids, hashes and states."""

from __future__ import annotations

from typing import Any

from louver.closing import RunOverview, overview
from louver.ledger.contract import Ledger
from louver.ledger.records import RunRecord, TransitionRecord
from louver.states import TaskState
from louver.timestamps import to_utc_text

__all__ = ["history_rows", "run_view"]

Row = dict[str, Any]


def run_view(ledger: Ledger, run: RunRecord) -> tuple[RunOverview, dict[str, list[Row]]]:
    """The run's overview, and its tables by name: ``run``, ``steps``, ``effects``, ``approvals``."""
    seen = overview(run.key, ledger)
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
        "effects": _effect_rows(ledger, run),
        "approvals": _approval_rows(ledger, run),
    }


def _step_rows(ledger: Ledger, run: RunRecord, seen: RunOverview) -> list[Row]:
    definition = seen.definition
    records = {record.task_id: record for record in ledger.list_tasks(run.key)}
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
                "waits_for": list(definition.node(name).upstream) if name in definition.names else [],
                "updated": to_utc_text(record.updated_at) if record else None,
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


def history_rows(transitions: list[TransitionRecord]) -> list[Row]:
    """The audit trail, in order of time."""
    return [
        {
            "at": to_utc_text(row.at),
            "step": row.task_id,
            "map_index": row.map_index,
            "from": str(row.from_state),
            "to": str(row.to_state),
            "trigger": row.trigger,
            "actor": row.actor,
            "reason": row.reason,
            "generation": row.generation,
            "attempt": row.attempt,
            "source": str(row.source),
            "precision": str(row.precision),
        }
        for row in transitions
    ]
