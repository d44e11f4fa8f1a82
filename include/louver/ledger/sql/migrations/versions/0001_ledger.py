"""
The first schema: runs, tasks, transitions, effects, approvals, checkpoints, events, payloads.

Revision 0001, from nothing. Written out and never changed again: it must not follow later releases' tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    # Ordered by code points on every store; SQLite does so anyway.
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    # Without a type for moments, SQLite keeps ISO text.
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")

    op.create_table(
        "louver_run",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("marker", text, nullable=True),
        sa.Column("definition_name", text, nullable=False),
        sa.Column("definition_version", text, nullable=False),
        sa.Column("definition_fingerprint", text, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", text, nullable=True),
        sa.Column("requester", text, nullable=True),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id"),
    )
    op.create_index("louver_run_by_state", "louver_run", ["state", "updated_at"])

    op.create_table(
        "louver_task",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("losses", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("try_number", sa.BigInteger(), nullable=False),
        sa.Column("max_tries", sa.BigInteger(), nullable=False),
        sa.Column("nonce", text, nullable=True),
        sa.Column("process", text, nullable=True),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task_id", "map_index"),
    )

    op.create_table(
        "louver_transition",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("chain", text, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=False),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("trigger", text, nullable=False),
        sa.Column("actor", text, nullable=True),
        sa.Column("reason", text, nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("precision", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task_id", "map_index", "chain", "version"),
    )

    op.create_table(
        "louver_effect",
        sa.Column("scope", text, nullable=False),
        sa.Column("key", text, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("intent_hash", text, nullable=False),
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("process", text, nullable=False),
        sa.Column("undo", text, nullable=True),
        sa.Column("undoes", text, nullable=True),
        sa.Column("verify", text, nullable=True),
        sa.Column("on_unknown", sa.Text(), nullable=False),
        sa.Column("provider_idempotent", sa.Boolean(), nullable=False),
        sa.Column("approval_id", text, nullable=True),
        sa.Column("lease_until", moment, nullable=False),
        sa.Column("quiesce_seconds", sa.Double(), nullable=False),
        sa.Column("started_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.Column("commit_sequence", sa.BigInteger(), nullable=True),
        sa.Column("reason", text, nullable=True),
        sa.PrimaryKeyConstraint("scope", "key", "epoch"),
    )
    op.create_index("louver_effect_by_run", "louver_effect", ["dag_id", "run_id"])

    op.create_table(
        "louver_approval",
        sa.Column("request_id", text, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("of", text, nullable=False),
        sa.Column("definition_name", text, nullable=False),
        sa.Column("definition_version", text, nullable=False),
        sa.Column("definition_fingerprint", text, nullable=False),
        sa.Column("payload_fingerprint", text, nullable=False),
        sa.Column("ancestors", sa.Text(), nullable=False),
        sa.Column("state_version", sa.BigInteger(), nullable=False),
        sa.Column("upstream_fingerprint", text, nullable=False),
        sa.Column("approvers", sa.Text(), nullable=False),
        sa.Column("four_eyes", sa.Boolean(), nullable=False),
        sa.Column("requester", text, nullable=True),
        sa.Column("requested_at", moment, nullable=False),
        sa.Column("expires_at", moment, nullable=True),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", text, nullable=True),
        sa.Column("decided_at", moment, nullable=True),
        sa.Column("consumed_by", text, nullable=True),
        sa.Column("consumed_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(
        "louver_approval_by_task", "louver_approval", ["dag_id", "run_id", "task_id", "map_index", "decision"]
    )

    op.create_table(
        "louver_checkpoint",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("saved_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task_id", "map_index", "generation", "name"),
    )

    op.create_table(
        "louver_event",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("identity", text, nullable=False),
        sa.Column("payload_fingerprint", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("accepted_at", moment, nullable=False),
        sa.Column("triggered_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("dag_id", "identity"),
    )
    op.create_index("louver_event_by_run", "louver_event", ["run_id"])

    op.create_table(
        "louver_payload",
        sa.Column("payload_id", text, nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("saved_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("payload_id"),
    )


def downgrade() -> None:
    """Drop the tables, and all that the ledger knows."""
    op.drop_table("louver_payload")
    op.drop_table("louver_event")
    op.drop_table("louver_checkpoint")
    op.drop_table("louver_approval")
    op.drop_table("louver_effect")
    op.drop_table("louver_transition")
    op.drop_table("louver_task")
    op.drop_table("louver_run")
