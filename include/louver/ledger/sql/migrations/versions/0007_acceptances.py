"""
Definitions that runs have accepted after those that they began with.

Revision 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    op.create_table(
        "louver_acceptance",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("from_version", text, nullable=False),
        sa.Column("from_fingerprint", text, nullable=False),
        sa.Column("to_version", text, nullable=False),
        sa.Column("to_fingerprint", text, nullable=False),
        sa.Column("reason", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("process", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("accepted_at", moment, nullable=False),
        sa.Column("key_id", text, nullable=False),
        sa.Column("mac", text, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "incarnation", "number"),
    )
