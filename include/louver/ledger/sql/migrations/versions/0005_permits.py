"""
Resources with limits, and the permits of tasks.

Revision 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    op.create_table(
        "louver_resource",
        sa.Column("resource", text, nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=True),
        sa.Column("rate", text, nullable=True),
        sa.Column("full_at", moment, nullable=False),
        sa.Column("set_by", text, nullable=True),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("resource"),
    )
    op.create_table(
        "louver_permit",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("process", text, nullable=False),
        sa.Column("needs", text, nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("stage", text, nullable=False),
        sa.Column("wanted_at", moment, nullable=False),
        sa.Column("granted_at", moment, nullable=True),
        sa.Column("until", moment, nullable=True),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task_id", "map_index"),
    )
    op.create_table(
        "louver_line",
        sa.Column("name", text, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
