"""
One run's recorded history as a document, without payloads: to be kept, handed on, and replayed.

``airflow louver history RUN --export FILE`` writes it; :mod:`louver.replay` reads it (row O14). It holds
definitions, transitions, effects, approvals and commands with ids, hashes, states and times, and no values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from louver import __version__
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import LedgerError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import Record
from louver.results import RunResults, choice_of
from louver.states import TaskState
from louver.timestamps import format_utc

__all__ = ["FORMAT", "export_run"]

FORMAT = 1
"""The version of the document."""

_RUN = (
    *(
        "dag_id",
        "run_id",
        "incarnation",
        "state",
        "reason",
        "requester",
        "created_at",
        "updated_at",
        "commits",
    ),
    "definition_fingerprint",
)
_TASK = (
    *("task_id", "map_index", "generation", "attempt", "failures", "losses", "version", "side_version"),
    *("state", "failure_kind"),
)
_TRANSITION = (
    *("task_id", "map_index", "chain", "version", "generation", "attempt", "from_state", "to_state", "at"),
    *("trigger", "actor", "reason", "source", "precision"),
)
_EFFECT = (
    *("scope", "key", "epoch", "name", "kind", "state", "intent_hash", "task_id", "map_index", "generation"),
    *("undo", "undoes", "on_unknown", "provider_idempotent", "approval_id", "commit_sequence", "started_at"),
    *("updated_at", "reason"),
)
_APPROVAL = (
    *("request_id", "sequence", "task_id", "map_index", "generation", "of", "definition_version"),
    *("definition_fingerprint", "payload_fingerprint", "ancestors", "state_version", "upstream_fingerprint"),
    *("approvers", "four_eyes", "requester", "requested_at", "expires_at", "decision", "decided_by"),
    *("decided_at", "consumed_by", "consumed_at"),
)
_COMMAND = (
    *("command_id", "task_id", "map_index", "generation", "verb", "actor", "reason", "source", "sent_at"),
    *("state", "outcome", "closed_at"),
)
_ACCEPTANCE = (
    *("number", "from_version", "from_fingerprint", "to_version", "to_fingerprint", "reason", "task_id"),
    *("map_index", "source", "accepted_at"),
)


def export_run(run: RunKey, ledger: Ledger) -> dict[str, Any]:
    """
    The run's history as a plain document; :func:`louver.pseudonyms.anonymised` takes people and ids out.

    :raises LedgerError: where the run is not in the ledger, or is at work at this very moment.
    """
    while True:
        record = ledger.get_run(run)
        if record is None:
            raise LedgerError(f"run {run.run_id} of {run.dag_id} is not in the ledger")
        tasks = ledger.list_tasks(run)
        accepted = ledger.list_acceptances(run)
        first = accepted[0].from_fingerprint if accepted else record.definition_fingerprint
        definitions = [first, *(one.to_fingerprint for one in accepted)]
        results = RunResults(_definition(definitions[-1], ledger), run, ledger, strict=False)
        document = {
            "louver_history": FORMAT,
            "written_by": __version__,
            "anonymised": False,
            "run": _plain(record, _RUN),
            "definitions": [
                {"fingerprint": name, "altered": False, "form": dict(ledger.load_definition(name))}
                for name in definitions
            ],
            "acceptances": _all(accepted, _ACCEPTANCE),
            "counts": dict(results.counts),
            "chosen": _choices(results, ledger),
            "tasks": _all(tasks, _TASK),
            "transitions": _all(ledger.list_transitions(run), _TRANSITION),
            "effects": _all(ledger.list_effects(run), _EFFECT),
            "approvals": _all(ledger.list_approvals(run), _APPROVAL),
            "commands": _all(ledger.list_commands(run), _COMMAND),
        }
        # Each is read by itself: where something was written between them, once more from the start.
        if (ledger.get_run(run), ledger.list_tasks(run)) == (record, tasks):
            return document


def _choices(results: RunResults, ledger: Ledger) -> dict[str, list[str]]:
    """Branch to the nodes that it chose, which are names and no values."""
    branches = [node.name for node in results.definition.nodes if node.branch]
    keys = [TaskKey(results.run.dag_id, results.run.run_id, name) for name in branches]
    return {
        key.task_id: list(choice_of(ledger.load_result(key)))
        for key in keys
        if key in results.tasks and results.tasks[key].state is TaskState.SUCCEEDED
    }


def _definition(fingerprint: str, ledger: Ledger) -> Definition:
    return read_definition_form(ledger.load_definition(fingerprint))


def _all(records: Iterable[Record], names: Iterable[str]) -> list[dict[str, Any]]:
    return [_plain(record, tuple(names)) for record in records]


def _plain(record: Record, names: Iterable[str]) -> dict[str, Any]:
    return {name: _value(getattr(record, name)) for name in names}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_utc(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value
