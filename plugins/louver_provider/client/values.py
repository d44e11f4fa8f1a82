"""What the client gives: plain values, read from the server's JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from louver.canonical import load_bytes
from louver.results import NodeError, NodeResult
from louver.states import RunState, TaskState

__all__ = ["CommandReply", "NodeFailure", "NodeState", "RunStatus", "TrailRow", "read_results"]

_BLAMED = (TaskState.FAILED, TaskState.LOST, TaskState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """
    What is true of a node of a run; of a mapped one, of all of its indexes together.

    :param node: its name, which is also the id of its Airflow task.
    :param attempt: how often its code was begun.
    :param generation: rises when it is cleared.
    :param try_number: Airflow's own count.
    :param failure_kind: a :class:`~louver.states.FailureKind`, as text.
    :param waits_for: the nodes it depends on.
    :param mapped: of a mapped node, how many indexes are in which state.
    :param expected: of a mapped node, how many indexes there will be, as soon as that is known.
    """

    node: str
    state: TaskState
    attempt: int
    generation: int
    try_number: int
    failure_kind: str | None
    reason: str | None
    waits_for: tuple[str, ...]
    mapped: Mapping[str, int] | None
    expected: int | None
    updated_at: datetime | None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> NodeState:
        """From the server's JSON."""
        return cls(
            **_named(body, "node", "attempt", "generation", "try_number", "failure_kind", "reason"),
            **_named(body, "mapped", "expected"),
            state=TaskState(body["state"]),
            waits_for=tuple(body["waits_for"]),
            updated_at=_moment(body["updated_at"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that is to blame for what became of its run."""

    node: str
    state: TaskState
    kind: str | None
    reason: str | None

    def __str__(self) -> str:
        words = f"{self.node} {self.state}"
        return f"{words} ({self.kind})" if self.kind else words


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """
    What is true of a run.

    :param state: None until its first step begins.
    :param airflow_state: Airflow's word; None where the run was deleted there.
    :param dag_paused: whether Airflow has paused the Dag, so that nothing of it starts.
    :param workflow: name and version of the definition that it began under.
    :param sink: the node whose result is the run's.
    :param nodes: by name, in declared order; empty until its first step begins.
    """

    dag_id: str
    run_id: str
    state: RunState | None
    reason: str | None
    airflow_state: str | None
    dag_paused: bool | None
    workflow: str | None
    fingerprint: str | None
    sink: str | None
    started_at: datetime | None
    nodes: Mapping[str, NodeState]

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> RunStatus:
        """From the server's JSON."""
        workflow = body["workflow"]
        return cls(
            **_named(body, "dag_id", "run_id", "reason", "airflow_state", "dag_paused", "sink"),
            state=None if body["state"] is None else RunState(body["state"]),
            workflow=f"{workflow['name']} {workflow['version']}" if workflow else None,
            fingerprint=workflow["fingerprint"] if workflow else None,
            started_at=_moment(body["started_at"]),
            nodes={node["node"]: NodeState.read(node) for node in body["nodes"]},
        )

    @property
    def over(self) -> bool:
        """Whether the run has come to its end, its compensation included."""
        return self.state is not None and self.state.terminal

    @property
    def over_in_airflow(self) -> bool:
        """Whether Airflow holds the run for over, or has none."""
        return self.airflow_state in (None, "success", "failed")

    @property
    def failures(self) -> tuple[NodeFailure, ...]:
        """The nodes that failed, were lost or stopped, in declared order."""
        return tuple(
            NodeFailure(node=node.node, state=node.state, kind=node.failure_kind, reason=node.reason)
            for node in self.nodes.values()
            if node.state in _BLAMED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """
    What became of a command to one task.

    :param became: ``recorded``, ``taken_back``, ``done``, ``delivered``, ``unconfirmed``, ``rolled_back`` or
        ``refused``; see ``docs/control.md``.
    :param accepted: whether what was asked for has happened, or still will.
    """

    node: str
    map_index: int
    state: TaskState
    command: str
    became: str
    accepted: bool
    detail: str | None
    command_id: str | None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> CommandReply:
        """From the server's JSON."""
        names = ("node", "map_index", "command", "became", "accepted", "detail", "command_id")
        return cls(**_named(body, *names), state=TaskState(body["state"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailRow:
    """
    One row of the audit trail.

    :param since: where only bounds are known, the earlier one; ``at`` is the later one then.
    :param from_state: None, like ``to_state``, for what is no change of Louver's.
    :param airflow: Airflow's word for it.
    :param recorded_by: who wrote it into the ledger; None where only Airflow knows of it.
    """

    at: datetime
    since: datetime | None
    precision: str
    node: str | None
    map_index: int
    from_state: TaskState | None
    to_state: TaskState | None
    airflow: str | None
    trigger: str
    actor: str | None
    reason: str | None = field(repr=False)
    generation: int | None
    attempt: int | None
    try_number: int | None
    source: str
    recorded_by: str | None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> TrailRow:
        """From the server's JSON."""
        at = _moment(body["at"])
        if at is None:
            raise KeyError("at")
        return cls(
            **_named(body, "precision", "node", "map_index", "airflow", "trigger", "actor", "reason"),
            **_named(body, "generation", "attempt", "try_number", "source", "recorded_by"),
            at=at,
            since=_moment(body["since"]),
            from_state=TaskState(body["from_state"]) if body["from_state"] else None,
            to_state=TaskState(body["to_state"]) if body["to_state"] else None,
        )


def read_results(body: Mapping[str, Any]) -> dict[str, NodeResult | list[NodeResult]]:
    """
    Results by node, each value of the type that it was.

    :raises IntegrityError: where a value is not in the typed form.
    """
    return {
        name: [_result(name, each) for each in found] if isinstance(found, list) else _result(name, found)
        for name, found in body["nodes"].items()
    }


def _result(name: str, body: Mapping[str, Any]) -> NodeResult:
    state, error = TaskState(body["state"]), body["error"]
    value = None
    if state is TaskState.SUCCEEDED:
        # As the server wrote it: members keep their order on the way, and text its form.
        raw = json.dumps(body["value"], ensure_ascii=False, separators=(",", ":"))
        value = load_bytes(raw.encode("utf-8"))
    return NodeResult(
        node=name,
        map_index=body["map_index"],
        state=state,
        value=value,
        error=None if error is None else NodeError(kind=error["kind"], reason=error["reason"]),
    )


def _named(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: body[name] for name in names}


def _moment(text: str | None) -> datetime | None:
    # Python 3.10 does not read the "Z".
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
