"""
Requests that are signed, and effects that wait for somebody found without reading all of them.

Revision 0003, after 0002. Requests that are there are signed as they were found, under the key that signs
now.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from alembic import context, op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TOLD = (
    *("request_id", "sequence", "dag_id", "run_id", "task_id", "map_index", "generation", "of"),
    *("definition_name", "definition_version", "definition_fingerprint", "payload_fingerprint", "ancestors"),
    *("state_version", "upstream_fingerprint", "approvers", "four_eyes", "requester", "requested_at"),
    *("expires_at", "decision", "decided_by", "decided_at", "consumed_by", "consumed_at"),
)
_LISTS = ("ancestors", "approvers")


def upgrade() -> None:
    """Add what is new, and sign what is there."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    for name in ("key_id", "mac"):
        op.add_column("louver_approval", sa.Column(name, text, nullable=False, server_default=""))
    _sign()
    # A commit changes none of these columns, so it writes nothing into the index, and on Postgres it stays a
    # change within its page. Whatever waits for somebody, or failed, has a reason.
    op.create_index(
        "louver_effect_with_reason",
        "louver_effect",
        ["started_at"],
        postgresql_where=sa.text("reason IS NOT NULL"),
        sqlite_where=sa.text("reason IS NOT NULL"),
    )


def _sign() -> None:
    keys = context.config.attributes["keys"]
    connection = op.get_bind()
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    asked = sa.table(
        "louver_approval",
        *(sa.column(name, moment if name.endswith("_at") else None) for name in (*_TOLD, "key_id", "mac")),
    )
    rewrite = (
        sa.update(asked)
        .where(asked.c.request_id == sa.bindparam("the_request"))
        .values(key_id=keys.current, mac=sa.bindparam("the_mac"))
    )
    found = connection.execute(sa.select(*(asked.c[name] for name in _TOLD)))
    for values in found.mappings().all():
        told = ["approval", *(_plain(name, values[name]) for name in _TOLD)]
        mac = keys.mac(keys.current, json.dumps(told, separators=(",", ":")).encode("ascii"))
        connection.execute(rewrite, {"the_request": values["request_id"], "the_mac": mac})


def _plain(name: str, value: Any) -> Any:
    """A value as the signature tells it, however the database gives it."""
    if name in _LISTS:
        return json.loads(value)
    if name == "four_eyes":
        return bool(value)
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc).replace(tzinfo=None)
        return utc.isoformat(timespec="microseconds") + "Z"
    return value
