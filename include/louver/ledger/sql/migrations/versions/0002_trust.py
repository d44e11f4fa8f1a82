"""
Chains, seals, commands, signs of life and leases.

Revision 0002, after 0001. What the audit trail held before is chained here as it was found, under the key
that signs now, and what is over is sealed; so everything that is changed in it from now on is seen.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from louver.signing import seal

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TASK = ("dag_id", "run_id", "task_id", "map_index")
_OVER = (
    *("succeeded", "succeeded_with_failures", "failed", "failed_compensated", "compensation_failed"),
    *("cancelled", "stopped"),
)
_TOLD = (
    *_TASK,
    *("chain", "version", "generation", "attempt", "from_state", "to_state", "at"),
    *("trigger", "actor", "reason", "source", "precision"),
)


def upgrade() -> None:
    """Add what is new, and chain what is there."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    moment = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
    _alter(text)
    _create(text, moment)
    _chain(text, moment)
    _seal(moment)
    _count_commits()


def _alter(text: sa.types.TypeEngine[str]) -> None:
    def add(table: str, name: str, kind: Any, default: str) -> None:
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))

    add("louver_run", "commits", sa.BigInteger(), "0")
    add("louver_task", "head", text, "")
    add("louver_task", "side_version", sa.BigInteger(), "0")
    add("louver_task", "side_head", text, "")
    add("louver_transition", "key_id", text, "")
    add("louver_transition", "mac", text, "")
    add("louver_effect", "ticket", text, "")
    _order_by_code_points(text)
    op.drop_index("louver_run_by_state", "louver_run")
    op.create_index("louver_run_by_time", "louver_run", ["created_at", "dag_id", "run_id"])
    op.create_index("louver_run_by_dag", "louver_run", ["dag_id", "created_at", "run_id"])
    op.create_index("louver_run_by_state", "louver_run", ["state", "created_at", "dag_id", "run_id"])
    op.create_index("louver_run_by_id", "louver_run", ["run_id"])


def _order_by_code_points(text: sa.types.TypeEngine[str]) -> None:
    """
    Have the states ordered as all other text is.

    Three of them stand in indexes, which must not depend on how the system's C library sorts.
    """
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, columns in (
        ("louver_run", ("state",)),
        ("louver_task", ("state", "failure_kind")),
        ("louver_transition", ("from_state", "to_state", "source", "precision")),
        ("louver_effect", ("kind", "state", "on_unknown")),
        ("louver_approval", ("ancestors", "approvers", "decision")),
    ):
        for column in columns:
            op.alter_column(table, column, type_=text)


def _create(text: sa.types.TypeEngine[str], moment: sa.types.TypeEngine[Any]) -> None:
    op.create_table(
        "louver_seal",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id"),
    )
    op.create_table(
        "louver_command",
        sa.Column("command_id", text, nullable=False),
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("verb", text, nullable=False),
        sa.Column("actor", text, nullable=True),
        sa.Column("reason", text, nullable=True),
        sa.Column("source", text, nullable=False),
        sa.Column("sent_at", moment, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("claimed_by", text, nullable=True),
        sa.Column("session", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", moment, nullable=True),
        sa.Column("outcome", text, nullable=True),
        sa.Column("closed_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("command_id"),
    )
    op.create_index("louver_command_by_task", "louver_command", [*_TASK, "state"])
    op.create_table(
        "louver_touch",
        sa.Column("dag_id", text, nullable=False),
        sa.Column("run_id", text, nullable=False),
        sa.Column("task_id", text, nullable=False),
        sa.Column("map_index", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", moment, nullable=False),
        sa.Column("progress_at", moment, nullable=True),
        sa.Column("done", sa.Double(), nullable=True),
        sa.Column("total", sa.Double(), nullable=True),
        sa.Column("unit", text, nullable=True),
        sa.Column("persist_failures", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(*_TASK),
    )
    op.create_table(
        "louver_lease",
        sa.Column("name", text, nullable=False),
        sa.Column("owner", text, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("acquired_at", moment, nullable=False),
        sa.Column("lease_until", moment, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _chain(text: sa.types.TypeEngine[str], moment: sa.types.TypeEngine[Any]) -> None:
    """Chain the transitions of each task, and tell the task where its chains end."""
    keys = context.config.attributes["keys"]
    connection = op.get_bind()
    row = sa.table(
        "louver_transition",
        *(sa.column(name, moment if name == "at" else None) for name in (*_TOLD, "key_id", "mac")),
    )
    task = sa.table("louver_task", *map(sa.column, (*_TASK, "head", "side_version", "side_head")))
    place = (*_TASK, "chain", "version")
    rewrite = (
        sa.update(row)
        .where(*(row.c[name] == sa.bindparam(f"the_{name}") for name in place))
        .values(key_id=keys.current, mac=sa.bindparam("the_mac"))
    )
    found = connection.execute(
        sa.select(*(row.c[name] for name in _TOLD)).order_by(*(row.c[name] for name in place))
    )
    chain, mac = None, ""
    for values in found.mappings().all():
        here = tuple(values[name] for name in (*_TASK, "chain"))
        mac = mac if here == chain else ""
        chain = here
        told = [mac, *(_text(values[name]) for name in _TOLD)]
        mac = keys.mac(keys.current, json.dumps(told, separators=(",", ":")).encode("ascii"))
        connection.execute(rewrite, {f"the_{name}": values[name] for name in place} | {"the_mac": mac})
        ends = (
            {"head": mac}
            if values["chain"] == "main"
            else {
                "side_version": values["version"],
                "side_head": mac,
            }
        )
        connection.execute(
            sa.update(task).where(*(task.c[name] == values[name] for name in _TASK)).values(**ends)
        )


def _seal(moment: sa.types.TypeEngine[Any]) -> None:
    """Seal the runs that are over, with the ends of their chains."""
    keys = context.config.attributes["keys"]
    connection = op.get_bind()
    now = datetime.now(timezone.utc)
    sealed_at = now if connection.dialect.name == "postgresql" else _text(now)
    run = sa.table("louver_run", *map(sa.column, ("dag_id", "run_id", "incarnation", "state")))
    task = sa.table("louver_task", *map(sa.column, (*_TASK, "version", "head", "side_version", "side_head")))
    seal_table = sa.table(
        "louver_seal",
        *map(sa.column, ("dag_id", "run_id", "incarnation", "envelope")),
        sa.column("sealed_at", moment),
    )
    ends = (task.c[name] for name in ("task_id", "map_index", "version", "head", "side_version", "side_head"))
    of_run = (
        sa.select(*ends)
        .where(task.c.dag_id == sa.bindparam("the_dag"), task.c.run_id == sa.bindparam("the_run"))
        .order_by(task.c.task_id, task.c.map_index)
    )
    over = sa.select(run.c.dag_id, run.c.run_id, run.c.incarnation).where(run.c.state.in_(_OVER))
    for dag_id, run_id, incarnation in connection.execute(over).all():
        tasks = connection.execute(of_run, {"the_dag": dag_id, "the_run": run_id})
        envelope = seal(
            {"tasks": [list(values) for values in tasks]},
            binding={"kind": "seal", "dag_id": dag_id, "run_id": run_id, "incarnation": incarnation},
            keys=keys,
        )
        connection.execute(
            sa.insert(seal_table).values(
                dag_id=dag_id, run_id=run_id, incarnation=incarnation, envelope=envelope, sealed_at=sealed_at
            )
        )


def _text(value: Any) -> Any:
    """A moment as the chain tells it; SQLite has it so already."""
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc).replace(tzinfo=None)
        return utc.isoformat(timespec="microseconds") + "Z"
    return value


def _count_commits() -> None:
    run = sa.table("louver_run", *map(sa.column, ("dag_id", "run_id", "commits")))
    effect = sa.table("louver_effect", *map(sa.column, ("dag_id", "run_id", "commit_sequence")))
    newest = (
        sa.select(sa.func.coalesce(sa.func.max(effect.c.commit_sequence), 0))
        .where(effect.c.dag_id == run.c.dag_id, effect.c.run_id == run.c.run_id)
        .scalar_subquery()
    )
    op.execute(sa.update(run).values(commits=newest))
