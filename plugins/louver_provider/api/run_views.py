"""What the REST interface says of a run: read from the ledger, and from Airflow's row of it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from louver.canonical import encode
from louver.closing import definition_of, overview
from louver.history import history
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import TaskRecord, TransitionRecord
from louver.platform_events import PlatformEvent
from louver.results import NodeResult, RunResults
from louver.states import TaskState
from louver_provider.airflow_events import events_of, rescue_events
from louver_provider.airflow_history import read_rescues, read_run
from louver_provider.api import datamodels
from louver_provider.api.datamodels import Form

__all__ = ["InAirflow", "look_up", "results_json", "run_history", "run_status"]

_EXPLAINED = (TaskState.BLOCKED, TaskState.RETRY_WAIT, TaskState.FAILED, TaskState.LOST, TaskState.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class InAirflow:
    """
    What Airflow has of a run.

    :param state: of the run; None where Airflow has no such run.
    :param dag_paused: None where it has no such Dag.
    """

    state: str | None
    dag_paused: bool | None


def look_up(key: RunKey) -> InAirflow:
    """What Airflow has of a run."""
    with create_session(scoped=False) as session:
        state = session.scalar(select(DagRun.state).filter_by(dag_id=key.dag_id, run_id=key.run_id))
        paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == key.dag_id))
    return InAirflow(
        state=None if state is None else str(getattr(state, "value", state)),
        dag_paused=None if paused is None else bool(paused),
    )


def run_status(key: RunKey, ledger: Ledger) -> datamodels.RunStatus | None:
    """What is true of a run; None where neither the ledger nor Airflow knows it."""
    run, airflow = ledger.get_run(key), look_up(key)
    if run is None and airflow.state is None:
        return None
    seen: dict[str, Any] = {"state": None, "over": False, "nodes": []}
    if run is not None:
        whole = overview(key, ledger)
        results = RunResults(whole.definition, key, ledger, strict=False)
        seen = {
            "state": str(whole.state),
            "over": whole.state.terminal,
            "reason": run.reason,
            "workflow": datamodels.Workflow(
                name=run.definition_name,
                version=run.definition_version,
                fingerprint=run.definition_fingerprint,
            ),
            "sink": whole.definition.result_node,
            "started_at": run.created_at,
            "nodes": _nodes(results, whole.evaluation.states, ledger.list_transitions(key)),
        }
    return datamodels.RunStatus(
        dag_id=key.dag_id,
        run_id=key.run_id,
        airflow_state=airflow.state,
        dag_paused=airflow.dag_paused,
        **seen,
    )


def _nodes(
    results: RunResults, states: Mapping[str, TaskState], trail: Collection[TransitionRecord]
) -> list[datamodels.NodeState]:
    # By time, so that the newest of each task and state stays.
    reasons = {(row.task, row.to_state): row.reason for row in trail}
    nodes = []
    for node in results.definition.nodes:
        tasks = [record for key, record in results.tasks.items() if key.task_id == node.name]
        mapped = [record for record in tasks if record.map_index >= 0]
        state = states.get(node.name, TaskState.PENDING)
        telling = _telling(tasks, state)
        place = telling.key if telling else TaskKey(results.run.dag_id, results.run.run_id, node.name)
        nodes.append(
            datamodels.NodeState(
                node=node.name,
                state=str(state),
                attempt=max((record.attempt for record in tasks), default=0),
                generation=max((record.generation for record in tasks), default=1),
                try_number=max((record.try_number for record in tasks), default=0),
                failure_kind=str(telling.failure_kind) if telling and telling.failure_kind else None,
                reason=reasons.get((place, state)) if state in _EXPLAINED else None,
                waits_for=list(node.upstream),
                mapped=dict(Counter(str(record.state) for record in mapped)) if node.mapped else None,
                expected=results.counts.get(node.name) if node.mapped else None,
                updated_at=max((record.updated_at for record in tasks), default=None),
            )
        )
    return nodes


def _telling(tasks: Collection[TaskRecord], state: TaskState) -> TaskRecord | None:
    """The task that the node's state is that of."""
    return next((record for record in tasks if record.state is state), None)


def results_json(key: RunKey, ledger: Ledger, *, form: Form, only: Collection[str] = ()) -> str:
    """
    The results of a run as JSON of :class:`~louver_provider.api.datamodels.RunResults`.

    Written by hand: a model would copy every value, and gives up on nested ones that are legal.

    :param only: these nodes; empty for all.
    :raises KeyError: where one of them is none.
    :raises LedgerError: where the ledger does not know the run.
    """
    definition = definition_of(key, ledger)
    unknown = [name for name in only if name not in definition.names]
    if unknown:
        raise KeyError(f"{', '.join(map(repr, unknown))}; it has {', '.join(definition.names)}")
    results = RunResults(definition, key, ledger)
    write = encode if form is Form.TYPED else _plain
    nodes: dict[str, Any] = {}
    for name in definition.names:
        if not only or name in only:
            found = results.of(name)
            nodes[name] = (
                [_result(each, write) for each in found] if isinstance(found, list) else _result(found, write)
            )
    document = {
        "dag_id": key.dag_id,
        "run_id": key.run_id,
        "form": form.value,
        "sink": definition.result_node,
        "nodes": nodes,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _result(result: NodeResult, write: Any) -> dict[str, Any]:
    error = result.error
    return {
        "map_index": result.map_index,
        "state": str(result.state),
        "tag": result.tag,
        "value": write(result.value) if result.ok else None,
        "error": None if error is None else {"kind": error.kind, "reason": error.reason},
    }


def _plain(value: Any) -> Any:
    """For people to read; what types there were is lost."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def run_history(
    key: RunKey, ledger: Ledger, *, node: str | None, stored: bool
) -> datamodels.RunHistory | None:
    """
    The audit trail; None where nobody knows the run.

    :param node: of that one alone.
    :param stored: what the ledger holds alone, without what Airflow's tables tell.
    """
    run = ledger.get_run(key)
    if run is None and look_up(key).state is None:
        return None
    transitions = ledger.list_transitions(key, task_id=node)
    events: list[PlatformEvent] = []
    if not stored:
        known = [row.at for row in transitions] + ([run.created_at] if run is not None else [])
        events = events_of(read_run(key, since=min(known, default=None)))
        for number, rescue in read_rescues(key).items():
            events += rescue_events(rescue, number=number)
        events = [event for event in events if node in (None, event.task_id)]
    commands = [] if stored else ledger.list_commands(key, task_id=node)
    acceptances = ledger.list_acceptances(key) if node is None else []
    rows = [
        datamodels.TrailRow(
            at=row.at,
            since=row.since,
            precision=str(row.precision),
            node=row.task_id,
            map_index=row.map_index,
            from_state=str(row.from_state) if row.from_state else None,
            to_state=str(row.to_state) if row.to_state else None,
            airflow=row.said,
            trigger=row.trigger,
            actor=row.actor,
            reason=row.reason,
            generation=row.generation,
            attempt=row.attempt,
            try_number=row.try_number,
            source=row.source,
            recorded_by=row.recorded_by,
        )
        for row in history(transitions, events, commands, acceptances)
    ]
    return datamodels.RunHistory(dag_id=key.dag_id, run_id=key.run_id, rows=rows)
