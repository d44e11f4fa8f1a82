"""What people and processes ask of each other: commands, signs of life, leases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import CommandState, TaskKey, Verb
from louver.ledger.records.base import Record
from louver.states import Source

__all__ = ["CommandRecord", "LeaseRecord", "TouchRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord(Record):
    """
    What somebody wants of a task (semantics section 8).

    :param command_id: given by the sender, so that sending twice is sending once.
    :param generation: of the task that was meant; another one is not touched by it.
    :param actor: who wants it; ``None`` where it is no person.
    :param claimed_by: the process that has taken it up.
    :param session: the session that process holds the task by.
    :param lease_until: until when nobody else may take it up.
    :param outcome: what came of it, once it is closed.
    """

    TABLE: ClassVar[str] = "command"
    PRIMARY: ClassVar[tuple[str, ...]] = ("command_id",)

    command_id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    generation: int
    verb: Verb
    actor: str | None
    reason: str | None
    source: Source
    sent_at: datetime
    state: CommandState = CommandState.PENDING
    claimed_by: str | None = None
    session: int | None = None
    lease_until: datetime | None = None
    outcome: str | None = None
    closed_at: datetime | None = None

    @property
    def task(self) -> TaskKey:
        """The task it is for."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchRecord(Record):
    """
    The newest sign of life of a task, apart from its snapshot: writing it never meets a decision.

    :param session: of the process that gave it.
    :param heartbeat_at: when it last said that it lives.
    :param progress_at: when it last told how far it is; ``None`` where it never did.
    :param done: how far, in ``unit``.
    :param persist_failures: observations that this session could not write at once (row T13).
    """

    TABLE: ClassVar[str] = "touch"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    session: int
    heartbeat_at: datetime
    progress_at: datetime | None = None
    done: float | None = None
    total: float | None = None
    unit: str | None = None
    persist_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord(Record):
    """
    Something that one owner at a time may do, such as reconciling.

    :param term: rises whenever the owner changes; a fencing token.
    """

    TABLE: ClassVar[str] = "lease"
    PRIMARY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    owner: str
    term: int
    acquired_at: datetime
    lease_until: datetime
