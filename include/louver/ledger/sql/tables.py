"""
The tables, one for each record class, with a column for each of its fields.

There are no foreign keys: rows of one run are written by many processes in no fixed order, and the operations
check what they need. All names carry a prefix, so the ledger may live beside other tables.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, Table
from sqlalchemy import text as sql_text

from louver.ledger.names import CommandState, Decision, EffectKind, EffectState, OnUnknown, Verb
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    CommandRecord,
    EffectRecord,
    EventRecord,
    LeaseRecord,
    LineRecord,
    PayloadRecord,
    PermitRecord,
    PlaceRecord,
    Record,
    ResourceRecord,
    RetryBudgetRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TouchRecord,
    TransitionRecord,
)
from louver.ledger.sql.types import EnumText, TextTuple, UtcTime, binary, flag, number, real, text
from louver.semaphores import Stage
from louver.states import FailureKind, Precision, RunState, Source, TaskState

__all__ = ["METADATA", "PREFIX", "TABLES", "VERSION_TABLE"]

PREFIX = "louver_"
"""What every name of the ledger begins with."""

VERSION_TABLE = f"{PREFIX}alembic_version"
"""Where Alembic keeps the revision; its own, so that Airflow's migrations and these never meet."""

METADATA = MetaData()
"""All tables of the ledger."""

_run = Table(
    f"{PREFIX}run",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("incarnation", number(), nullable=False),
    Column("marker", text()),
    Column("definition_name", text(), nullable=False),
    Column("definition_version", text(), nullable=False),
    Column("definition_fingerprint", text(), nullable=False),
    Column("state", EnumText(RunState), nullable=False),
    Column("reason", text()),
    Column("requester", text()),
    Column("created_at", UtcTime(), nullable=False),
    Column("updated_at", UtcTime(), nullable=False),
    Column("commits", number(), nullable=False, server_default="0"),
    # One for each way to list runs page by page, the newest first.
    Index(f"{PREFIX}run_by_time", "created_at", "dag_id", "run_id"),
    Index(f"{PREFIX}run_by_dag", "dag_id", "created_at", "run_id"),
    Index(f"{PREFIX}run_by_state", "state", "created_at", "dag_id", "run_id"),
    Index(f"{PREFIX}run_by_id", "run_id"),
)

_task = Table(
    f"{PREFIX}task",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("task_id", text(), primary_key=True),
    Column("map_index", number(), primary_key=True),
    Column("incarnation", number(), nullable=False),
    Column("generation", number(), nullable=False),
    Column("attempt", number(), nullable=False),
    Column("failures", number(), nullable=False),
    Column("losses", number(), nullable=False),
    Column("version", number(), nullable=False),
    Column("state", EnumText(TaskState), nullable=False),
    Column("failure_kind", EnumText(FailureKind)),
    Column("session", number(), nullable=False),
    Column("try_number", number(), nullable=False),
    Column("max_tries", number(), nullable=False),
    Column("nonce", text()),
    Column("process", text()),
    Column("head", text(), nullable=False, server_default=""),
    Column("side_version", number(), nullable=False, server_default="0"),
    Column("side_head", text(), nullable=False, server_default=""),
    Column("updated_at", UtcTime(), nullable=False),
)

_transition = Table(
    f"{PREFIX}transition",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("task_id", text(), primary_key=True),
    Column("map_index", number(), primary_key=True),
    Column("chain", text(), primary_key=True),
    Column("version", number(), primary_key=True),
    Column("generation", number(), nullable=False),
    Column("attempt", number(), nullable=False),
    Column("from_state", EnumText(TaskState), nullable=False),
    Column("to_state", EnumText(TaskState), nullable=False),
    Column("at", UtcTime(), nullable=False),
    Column("trigger", text(), nullable=False),
    Column("actor", text()),
    Column("reason", text()),
    Column("source", EnumText(Source), nullable=False),
    Column("precision", EnumText(Precision), nullable=False),
    Column("key_id", text(), nullable=False, server_default=""),
    Column("mac", text(), nullable=False, server_default=""),
    # Tasks that failed for good, in the order of listing. Not on the tasks themselves: these change at every
    # step, and on Postgres each change would then write all indexes.
    Index(
        f"{PREFIX}transition_dead",
        *("at", "dag_id", "run_id", "task_id", "map_index", "chain", "version"),
        postgresql_where=sql_text("to_state IN ('failed', 'lost')"),
        sqlite_where=sql_text("to_state IN ('failed', 'lost')"),
    ),
)

_seal = Table(
    f"{PREFIX}seal",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("incarnation", number(), nullable=False),
    Column("envelope", binary(), nullable=False),
    Column("sealed_at", UtcTime(), nullable=False),
)

_effect = Table(
    f"{PREFIX}effect",
    METADATA,
    Column("scope", text(), primary_key=True),
    Column("key", text(), primary_key=True),
    Column("epoch", number(), primary_key=True),
    Column("name", text(), nullable=False),
    Column("kind", EnumText(EffectKind), nullable=False),
    Column("state", EnumText(EffectState), nullable=False),
    Column("intent_hash", text(), nullable=False),
    Column("dag_id", text(), nullable=False),
    Column("run_id", text(), nullable=False),
    Column("task_id", text(), nullable=False),
    Column("map_index", number(), nullable=False),
    Column("incarnation", number(), nullable=False),
    Column("generation", number(), nullable=False),
    Column("session", number(), nullable=False),
    Column("process", text(), nullable=False),
    Column("ticket", text(), nullable=False, server_default=""),
    Column("undo", text()),
    Column("undoes", text()),
    Column("verify", text()),
    Column("on_unknown", EnumText(OnUnknown), nullable=False),
    Column("provider_idempotent", flag(), nullable=False),
    Column("approval_id", text()),
    Column("lease_until", UtcTime(), nullable=False),
    Column("quiesce_seconds", real(), nullable=False),
    Column("started_at", UtcTime(), nullable=False),
    Column("updated_at", UtcTime(), nullable=False),
    Column("commit_sequence", number()),
    Column("reason", text()),
    Index(f"{PREFIX}effect_by_run", "dag_id", "run_id"),
    # What waits for somebody, or failed, has a reason; what began and was committed never had one, so that
    # this index costs it nothing. The state must not stand in it: each commit would then write all indexes.
    Index(
        f"{PREFIX}effect_with_reason",
        "started_at",
        postgresql_where=sql_text("reason IS NOT NULL"),
        sqlite_where=sql_text("reason IS NOT NULL"),
    ),
)

_approval = Table(
    f"{PREFIX}approval",
    METADATA,
    Column("request_id", text(), primary_key=True),
    Column("sequence", number(), nullable=False),
    Column("dag_id", text(), nullable=False),
    Column("run_id", text(), nullable=False),
    Column("task_id", text(), nullable=False),
    Column("map_index", number(), nullable=False),
    Column("generation", number(), nullable=False),
    Column("of", text(), nullable=False),
    Column("definition_name", text(), nullable=False),
    Column("definition_version", text(), nullable=False),
    Column("definition_fingerprint", text(), nullable=False),
    Column("payload_fingerprint", text(), nullable=False),
    Column("ancestors", TextTuple(), nullable=False),
    Column("state_version", number(), nullable=False),
    Column("upstream_fingerprint", text(), nullable=False),
    Column("approvers", TextTuple(), nullable=False),
    Column("four_eyes", flag(), nullable=False),
    Column("requester", text()),
    Column("requested_at", UtcTime(), nullable=False),
    Column("expires_at", UtcTime()),
    Column("decision", EnumText(Decision), nullable=False),
    Column("decided_by", text()),
    Column("decided_at", UtcTime()),
    Column("consumed_by", text()),
    Column("consumed_at", UtcTime()),
    Column("key_id", text(), nullable=False, server_default=""),
    Column("mac", text(), nullable=False, server_default=""),
    # Its first two columns serve the questions about a run, all of them those about a task's open request.
    Index(f"{PREFIX}approval_by_task", "dag_id", "run_id", "task_id", "map_index", "decision"),
)

_checkpoint = Table(
    f"{PREFIX}checkpoint",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("task_id", text(), primary_key=True),
    Column("map_index", number(), primary_key=True),
    Column("generation", number(), primary_key=True),
    Column("name", text(), primary_key=True),
    Column("incarnation", number(), nullable=False),
    Column("digest", text(), nullable=False),
    Column("saved_at", UtcTime(), nullable=False),
)

_event = Table(
    f"{PREFIX}event",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("identity", text(), primary_key=True),
    Column("payload_fingerprint", text(), nullable=False),
    Column("run_id", text(), nullable=False),
    Column("accepted_at", UtcTime(), nullable=False),
    Column("triggered_at", UtcTime()),
    Index(f"{PREFIX}event_by_run", "run_id"),
)

_payload = Table(
    f"{PREFIX}payload",
    METADATA,
    Column("payload_id", text(), primary_key=True),
    Column("envelope", binary(), nullable=False),
    Column("saved_at", UtcTime(), nullable=False),
)

_command = Table(
    f"{PREFIX}command",
    METADATA,
    Column("command_id", text(), primary_key=True),
    Column("dag_id", text(), nullable=False),
    Column("run_id", text(), nullable=False),
    Column("task_id", text(), nullable=False),
    Column("map_index", number(), nullable=False),
    Column("generation", number(), nullable=False),
    Column("verb", EnumText(Verb), nullable=False),
    Column("actor", text()),
    Column("reason", text()),
    Column("source", EnumText(Source), nullable=False),
    Column("sent_at", UtcTime(), nullable=False),
    Column("state", EnumText(CommandState), nullable=False),
    Column("claimed_by", text()),
    Column("session", number()),
    Column("lease_until", UtcTime()),
    Column("outcome", text()),
    Column("closed_at", UtcTime()),
    Index(f"{PREFIX}command_by_task", "dag_id", "run_id", "task_id", "map_index", "state"),
)

_touch = Table(
    f"{PREFIX}touch",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("task_id", text(), primary_key=True),
    Column("map_index", number(), primary_key=True),
    Column("session", number(), nullable=False),
    Column("heartbeat_at", UtcTime(), nullable=False),
    Column("progress_at", UtcTime()),
    Column("done", real()),
    Column("total", real()),
    Column("unit", text()),
    Column("persist_failures", number(), nullable=False),
)

_lease = Table(
    f"{PREFIX}lease",
    METADATA,
    Column("name", text(), primary_key=True),
    Column("owner", text(), nullable=False),
    Column("term", number(), nullable=False),
    Column("acquired_at", UtcTime(), nullable=False),
    Column("lease_until", UtcTime(), nullable=False),
)

_retry_budget = Table(
    f"{PREFIX}retry_budget",
    METADATA,
    Column("resource", text(), primary_key=True),
    Column("rate", text(), nullable=False),
    Column("full_at", UtcTime(), nullable=False),
    Column("drawn", number(), nullable=False),
    Column("refused", number(), nullable=False),
    Column("updated_at", UtcTime(), nullable=False),
)

_resource = Table(
    f"{PREFIX}resource",
    METADATA,
    Column("resource", text(), primary_key=True),
    Column("capacity", number()),
    Column("rate", text()),
    Column("full_at", UtcTime(), nullable=False),
    Column("set_by", text()),
    Column("updated_at", UtcTime(), nullable=False),
)

_permit = Table(
    f"{PREFIX}permit",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("task_id", text(), primary_key=True),
    Column("map_index", number(), primary_key=True),
    Column("incarnation", number(), nullable=False),
    Column("session", number(), nullable=False),
    Column("process", text(), nullable=False),
    Column("needs", TextTuple(), nullable=False),
    Column("priority", number(), nullable=False),
    Column("sequence", number(), nullable=False),
    Column("stage", EnumText(Stage), nullable=False),
    Column("wanted_at", UtcTime(), nullable=False),
    Column("granted_at", UtcTime()),
    Column("until", UtcTime()),
    # Those who are inside are read at each decision, and those who wait are not.
    Index(f"{PREFIX}permit_by_stage", "stage"),
)
_place = Table(
    f"{PREFIX}place",
    METADATA,
    Column("resource", text(), primary_key=True),
    Column("rank", number(), primary_key=True),
    Column("sequence", number(), primary_key=True),
    Column("dag_id", text(), nullable=False),
    Column("run_id", text(), nullable=False),
    Column("task_id", text(), nullable=False),
    Column("map_index", number(), nullable=False),
    Column("needs", TextTuple(), nullable=False),
    # For a run that is cleaned away.
    Index(f"{PREFIX}place_by_run", "dag_id", "run_id"),
)

_line = Table(
    f"{PREFIX}line",
    METADATA,
    Column("name", text(), primary_key=True),
    Column("last", number(), nullable=False),
)

_acceptance = Table(
    f"{PREFIX}acceptance",
    METADATA,
    Column("dag_id", text(), primary_key=True),
    Column("run_id", text(), primary_key=True),
    Column("incarnation", number(), primary_key=True),
    Column("number", number(), primary_key=True),
    Column("from_version", text(), nullable=False),
    Column("from_fingerprint", text(), nullable=False),
    Column("to_version", text(), nullable=False),
    Column("to_fingerprint", text(), nullable=False),
    Column("reason", text(), nullable=False),
    Column("task_id", text(), nullable=False),
    Column("map_index", number(), nullable=False),
    Column("process", text(), nullable=False),
    Column("source", EnumText(Source), nullable=False),
    Column("accepted_at", UtcTime(), nullable=False),
    Column("key_id", text(), nullable=False),
    Column("mac", text(), nullable=False),
)

TABLES: dict[type[Record], Table] = {
    RunRecord: _run,
    TaskRecord: _task,
    TransitionRecord: _transition,
    SealRecord: _seal,
    AcceptanceRecord: _acceptance,
    EffectRecord: _effect,
    ApprovalRecord: _approval,
    CheckpointRecord: _checkpoint,
    EventRecord: _event,
    PayloadRecord: _payload,
    CommandRecord: _command,
    TouchRecord: _touch,
    LeaseRecord: _lease,
    RetryBudgetRecord: _retry_budget,
    ResourceRecord: _resource,
    PermitRecord: _permit,
    PlaceRecord: _place,
    LineRecord: _line,
}
"""Where each kind of row is kept."""
