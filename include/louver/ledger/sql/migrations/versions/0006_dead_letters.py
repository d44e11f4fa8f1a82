"""
Tasks that failed for good are found without reading all transitions.

Revision 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index: transitions are never changed, and those that go well are not in it."""
    failed = sa.text("to_state IN ('failed', 'lost')")
    op.create_index(
        "louver_transition_dead",
        "louver_transition",
        ["at", "dag_id", "run_id", "task_id", "map_index", "chain", "version"],
        postgresql_where=failed,
        sqlite_where=failed,
    )
