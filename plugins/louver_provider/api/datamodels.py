"""What Louver's REST interface takes and gives, as people find it in its OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "MOST_WAIT",
    "Accepted",
    "CommandReply",
    "ControlBody",
    "Form",
    "NodeState",
    "ResultError",
    "RunHistory",
    "RunResults",
    "RunStatus",
    "TaskResult",
    "TrailRow",
    "Workflow",
]

MOST_WAIT = 20.0
"""Seconds that one request may wait for what it asked for."""


class Workflow(BaseModel):
    """The definition that a run began under."""

    name: str
    version: str
    fingerprint: str = Field(description="SHA-256.")


class NodeState(BaseModel):
    """What is true of a node of a run; of a mapped one, of all of its indexes together."""

    node: str = Field(description="Its name, which is also the id of its Airflow task.")
    state: str = Field(description="One of the 15 states.")
    attempt: int = Field(description="How often its code was begun; 0 where it was not.")
    generation: int = Field(description="Rises when it is cleared.")
    try_number: int = Field(description="Airflow's own count.")
    failure_kind: str | None = None
    reason: str | None = Field(None, description="Why it waits or failed; ids and states alone.")
    waits_for: list[str] = Field(description="The nodes it depends on.")
    mapped: dict[str, int] | None = Field(
        None, description="Of a mapped node: how many indexes are in which state."
    )
    expected: int | None = Field(None, description="Of a mapped node: how many indexes there will be.")
    updated_at: datetime | None = None


class RunStatus(BaseModel):
    """What is true of a run."""

    dag_id: str
    run_id: str
    state: str | None = Field(description="Louver's state of it; null until its first step begins.")
    over: bool = Field(description="Whether that state is a last one.")
    reason: str | None = None
    airflow_state: str | None = Field(description="Airflow's word; null where the run was deleted there.")
    dag_paused: bool | None = Field(description="Whether Airflow has paused the Dag, so that nothing starts.")
    workflow: Workflow | None = None
    sink: str | None = Field(None, description="The node whose result is the run's.")
    started_at: datetime | None = None
    nodes: list[NodeState]


class Form(str, Enum):
    """
    How results are written.

    ``typed``: tagged, so that every type comes back as what it was. ``plain``: for people; dates, decimals,
    UUIDs and bytes (Base64) become text, tuples and sets lists.
    """

    TYPED = "typed"
    PLAIN = "plain"


class ResultError(BaseModel):
    """Why there is no value."""

    kind: str | None = None
    reason: str | None = None


class TaskResult(BaseModel):
    """What one task came to."""

    map_index: int = Field(description="-1 where the node is not mapped.")
    state: str
    tag: str = Field(description="`ok`, `failed`, `skipped` or `open`.")
    value: Any = Field(None, description="Where the tag is `ok`; a null is a value too.")
    error: ResultError | None = None


class RunResults(BaseModel):
    """What the nodes of a run came to, in declared order."""

    dag_id: str
    run_id: str
    form: Form
    sink: str
    nodes: dict[str, TaskResult | list[TaskResult]] = Field(
        description="By name; of a mapped node a list by index, none missing."
    )


class TrailRow(BaseModel):
    """One row of the audit trail; a null state is no change of Louver's, but something Airflow knows."""

    at: datetime
    since: datetime | None = Field(None, description="Where only bounds are known, the earlier one.")
    precision: str
    node: str | None
    map_index: int
    from_state: str | None
    to_state: str | None
    airflow: str | None = Field(None, description="Airflow's word for it.")
    trigger: str
    actor: str | None
    reason: str | None
    generation: int | None
    attempt: int | None
    try_number: int | None
    source: str
    recorded_by: str | None = Field(None, description="Who wrote it into the ledger; null where nobody did.")


class RunHistory(BaseModel):
    """The audit trail of a run, in order of time."""

    dag_id: str
    run_id: str
    rows: list[TrailRow]


class ControlBody(BaseModel):
    """What to pause, resume or stop."""

    model_config = ConfigDict(extra="forbid")

    node: str | None = Field(None, description="Null for every unfinished one.")
    map_index: int | None = Field(None, ge=0, description="Of a mapped node; null for all.")
    reason: str | None = Field(
        None, max_length=500, description="Kept in the audit trail; name no secrets and no customers."
    )
    wait_seconds: float = Field(
        10.0, ge=0, le=MOST_WAIT, description="How long to wait for the processes that have to act."
    )


class CommandReply(BaseModel):
    """What became of a command to one task."""

    node: str
    map_index: int
    state: str
    command: str
    became: str = Field(
        description="`recorded`, `taken_back`, `done`, `delivered`, `unconfirmed`, `rolled_back`, `refused`."
    )
    accepted: bool = Field(description="Whether what was asked for has happened, or still will.")
    detail: str | None = None
    command_id: str | None = None


class Accepted(BaseModel):
    """An event that was taken in, and its run."""

    dag_id: str
    run_id: str
    outcome: str = Field(description="`accepted`, or `duplicate` where it was taken in before.")
    identity: str = Field(description="SHA-256 of source and id.")
    payload_fingerprint: str
