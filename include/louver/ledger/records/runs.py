"""Runs, their tasks, and how these changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records.base import Record
from louver.states import FailureKind, Precision, RunState, Source, TaskState

__all__ = ["RunRecord", "SealRecord", "TaskRecord", "TransitionRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Record):
    """
    One run.

    :param incarnation: rises when a run is deleted and made again under the same id.
    :param marker: what tells one incarnation from the next (Airflow's ``run_after``, as text).
    :param requester: the user who started it, for four-eyes; ``None`` where nobody did.
    :param commits: how many effects of the run were committed so far; gives each its place.
    """

    TABLE: ClassVar[str] = "run"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id")

    dag_id: str
    run_id: str
    incarnation: int
    marker: str | None
    definition_name: str
    definition_version: str
    definition_fingerprint: str
    state: RunState
    reason: str | None
    requester: str | None
    created_at: datetime
    updated_at: datetime
    commits: int = 0

    @property
    def key(self) -> RunKey:
        """Names the run."""
        return RunKey(self.dag_id, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord(Record):
    """
    What is true of a task now: the snapshot beside its transitions.

    :param generation: rises at a clear; a retry continues it.
    :param attempt: how often user code was launched in this generation.
    :param failures: failures of this generation that the retry policy counts.
    :param losses: processes lost in this generation, counted apart.
    :param version: number of the newest transition; without gaps.
    :param session: number of the process that holds the task.
    :param nonce: what a resume must present, once; ``None`` where the task is not parked.
    :param process: host, process id and start time of the holder, to prove its death by.
    :param head: MAC of the newest row of the main chain; empty where it has none.
    :param side_version: number of the newest row of the side chain; without gaps.
    :param side_head: its MAC.
    """

    TABLE: ClassVar[str] = "task"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    incarnation: int = 1
    generation: int = 1
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    version: int = 0
    state: TaskState = TaskState.PENDING
    failure_kind: FailureKind | None = None
    session: int = 0
    try_number: int = 0
    max_tries: int = 0
    nonce: str | None = None
    process: str | None = None
    head: str = ""
    side_version: int = 0
    side_head: str = ""
    updated_at: datetime

    @property
    def key(self) -> TaskKey:
        """Names the task."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRecord(Record):
    """
    One change of state; never updated.

    Chained to the row before it in the same chain of the same task, see :mod:`louver.audit`.

    :param chain: ``main`` for the session that holds the task, ``side`` for everybody else (section 1).
    :param version: position in that chain, from 1, without gaps.
    :param key_id: which key signed it.
    :param mac: over the row and the MAC of the row before it.
    """

    TABLE: ClassVar[str] = "transition"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index", "chain", "version")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    chain: str
    version: int
    generation: int
    attempt: int
    from_state: TaskState
    to_state: TaskState
    at: datetime
    trigger: str
    actor: str | None
    reason: str | None
    source: Source
    precision: Precision
    key_id: str = ""
    mac: str = ""

    @property
    def task(self) -> TaskKey:
        """The task it tells of."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRecord(Record):
    """
    What the chains of a finished run ended with, so that a tail cut off afterwards is found.

    :param envelope: signed; for each task the version and MAC of the newest row of both chains.
    """

    TABLE: ClassVar[str] = "seal"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id")

    dag_id: str
    run_id: str
    incarnation: int
    envelope: bytes = field(repr=False)
    sealed_at: datetime
