"""Bodies of the ``airflow louver`` commands."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from louver.clock import SystemClock
from louver.cloudevents import MAX_EVENT_BYTES, parse_event
from louver.definition import Definition
from louver.ledger.requests import EventOutcome
from louver_provider.buckets.intake import submitted_conf
from louver_provider.cli.common import BAD_USAGE, fail, louver_command, show, user
from louver_provider.hooks.ledger import get_ledger

__all__ = ["db_upgrade", "submit", "workflow_validate"]


@louver_command
def submit(args: Namespace) -> None:
    """``airflow louver submit DAG --event FILE``"""
    raw = _read_event(args.event)
    intake = _intake_of(args.dag_id)
    now = SystemClock().now
    # Before anything is kept: what is refused leaves nothing.
    routed = submitted_conf(args.dag_id, parse_event(raw).data, now=now())
    ledger = get_ledger()
    outcome, record = intake.submit(ledger, raw, now=now())
    # Whoever died between the row and the run left half of it: every redelivery completes it.
    made = record.triggered_at is None and _trigger(args.dag_id, record.run_id, intake.conf(record) | routed)
    if record.triggered_at is None:
        ledger.confirm_event(record, now=now())
    accepted = outcome is EventOutcome.ACCEPTED or made
    show(
        args,
        [
            {
                "dag_id": args.dag_id,
                "run_id": record.run_id,
                "outcome": "accepted" if accepted else "duplicate",
                "event": record.identity,
                "payload": record.payload_fingerprint,
            }
        ],
    )


def _read_event(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_EVENT_BYTES + 1)
    except OSError as error:
        fail(f"event file {name!r} cannot be read: {error.strerror}", BAD_USAGE)


def _intake_of(dag_id: str) -> Any:
    """The intake that the Dag declares; its file is parsed here as a worker would."""
    from airflow.utils.cli import get_dag_by_file_location

    from louver_provider.operators.step import StepOperator

    try:
        dag = get_dag_by_file_location(dag_id)
    except KeyError:
        fail(f"Dag {dag_id!r} is known, but its file does not parse now; see airflow dags list-import-errors")
    for task in dag.tasks:
        if isinstance(task, StepOperator) and task.intake is not None:
            return task.intake
    return fail(f"Dag {dag_id!r} takes no events: its definition declares no event_type")


def _trigger(dag_id: str, run_id: str, conf: dict[str, Any]) -> bool:
    """Make the run; False where it exists already."""
    from airflow.utils.types import DagRunTriggeredByType

    from louver_provider.triggering import trigger_once

    return trigger_once(dag_id, run_id, conf, by=user(), through=DagRunTriggeredByType.CLI)


@louver_command
def workflow_validate(args: Namespace) -> None:
    """``airflow louver workflow validate FILE``"""
    path = Path(args.file)
    try:
        raw = path.read_bytes()
    except OSError as error:
        fail(f"definition file {args.file!r} cannot be read: {error.strerror}", BAD_USAGE)
    definition = Definition.from_json(raw, source=path.name)
    show(
        args,
        [
            {
                "name": definition.name,
                "version": definition.version,
                "steps": len(definition.nodes),
                "fingerprint": definition.fingerprint,
            }
        ],
    )


@louver_command
def db_upgrade(args: Namespace) -> None:
    """``airflow louver db upgrade``"""
    from louver.ledger.sql.schema import upgrade
    from louver_provider.settings import load_settings, load_signing_keys

    upgrade(load_settings().ledger_url, keys=load_signing_keys())
    print("The ledger's schema is the one of this release.")
