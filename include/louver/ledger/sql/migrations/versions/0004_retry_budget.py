"""
Retry budgets of resources.

Revision 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    op.create_table(
        "louver_retry_budget",
        sa.Column("resource", text, nullable=False),
        sa.Column("rate", text, nullable=False),
        sa.Column("full_at", moment, nullable=False),
        sa.Column("drawn", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("resource"),
    )
