"""
Places in the lines of resources, so that the first of a line is found without reading the line.

Revision 0008, after 0007. Who waits gets the places that its permit stands for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_OF_TASK = ("dag_id", "run_id", "task_id", "map_index", "sequence", "needs")


def upgrade() -> None:
    """Add the table and the index, and fill the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_index("louver_permit_by_stage", "louver_permit", ["stage"])
    place = op.create_table(
        "louver_place",
        sa.Column("resource", text, nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("needs", text, nullable=False),
        sa.PrimaryKeyConstraint("resource", "rank", "sequence"),
    )
    op.create_index("louver_place_by_run", "louver_place", ["dag_id", "run_id"])
    permit = sa.table("louver_permit", *(sa.column(name) for name in (*_OF_TASK, "priority", "stage")))
    waiting = op.get_bind().execute(sa.select(permit).where(permit.c.stage == "waiting")).mappings().all()
    rows = [row for known in waiting for row in _places(dict(known))]
    if rows:
        op.bulk_insert(place, rows)


def _places(permit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for need in json.loads(permit["needs"]):
        yield {
            "resource": need.rpartition("=")[0],
            "rank": -permit["priority"],
            **{name: permit[name] for name in _OF_TASK},
        }
