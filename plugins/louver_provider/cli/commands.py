"""Bodies of the ``airflow louver`` commands."""

from __future__ import annotations

import functools
import getpass
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from airflow.cli.simple_table import AirflowConsole
from airflow.exceptions import AirflowException
from airflow.utils import cli as cli_utils
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from louver.clock import SystemClock
from louver.cloudevents import MAX_EVENT_BYTES
from louver.definition import Definition
from louver.errors import LouverError
from louver.ledger.contract import Ledger
from louver.ledger.records import RunRecord
from louver.ledger.requests import EventOutcome, RunFilter
from louver_provider.cli.views import history_rows, run_view
from louver_provider.hooks.ledger import get_ledger

__all__ = ["db_upgrade", "history", "status", "submit", "workflow_validate"]

Command = Callable[[Namespace], None]

FAILED, BAD_USAGE, WITHOUT_SUCCESS = 1, 2, 3


def _fail(message: str, code: int = FAILED) -> NoReturn:
    print(f"airflow louver: {message}", file=sys.stderr)
    sys.exit(code)


def louver_command(body: Command) -> Command:
    """A command whose errors are one line and an exit code, never a traceback."""

    @functools.wraps(body)
    def command(args: Namespace) -> None:
        try:
            body(args)
        except (LouverError, AirflowException) as error:
            _fail(str(error))

    # Airflow logs to standard output, which belongs to what --output prints; --verbose shows it.
    quiet = cli_utils.suppress_logs_and_warning(providers_configuration_loaded(command))
    wrapped: Command = cli_utils.action_cli(check_db=False)(quiet)
    return wrapped


def _show(args: Namespace, data: list[dict[str, Any]]) -> None:
    AirflowConsole().print_as(data=data, output=args.output)


def _find_run(ledger: Ledger, args: Namespace) -> RunRecord:
    found = ledger.list_runs(RunFilter(run_id=args.run_id, dag_id=args.dag_id))
    if not found:
        _fail(f"run {args.run_id!r} is not in the ledger: check the id, or wait for its first step to start")
    if len(found) > 1:
        dags = ", ".join(sorted(run.dag_id for run in found))
        _fail(f"several Dags have a run {args.run_id!r}: {dags}; choose one with --dag-id", BAD_USAGE)
    return found[0]


@louver_command
def status(args: Namespace) -> None:
    """``airflow louver status RUN``"""
    ledger = get_ledger()
    seen, tables = run_view(ledger, _find_run(ledger, args))
    console = AirflowConsole()
    if args.output in ("json", "yaml"):
        # One document: the run, with its tables inside.
        document: Any = [tables.pop("run")[0] | tables]
        print_as = console.print_as_json if args.output == "json" else console.print_as_yaml
        print_as(document)
    else:
        for name, rows in tables.items():
            if rows:
                print(f"{name}:")
                console.print_as(data=rows, output=args.output)
    if seen.state.terminal and not seen.state.success:
        sys.exit(WITHOUT_SUCCESS)


@louver_command
def history(args: Namespace) -> None:
    """``airflow louver history RUN [TASK]``"""
    ledger = get_ledger()
    run = _find_run(ledger, args)
    rows = history_rows(ledger.list_transitions(run.key, task_id=args.task_id))
    if not rows and args.task_id is not None:
        _fail(f"run {run.run_id!r} has no transitions of a step {args.task_id!r}")
    _show(args, rows)


@louver_command
def submit(args: Namespace) -> None:
    """``airflow louver submit DAG --event FILE``"""
    raw = _read_event(args.event)
    intake = _intake_of(args.dag_id)
    ledger = get_ledger()
    now = SystemClock().now
    outcome, record = intake.submit(ledger, raw, now=now())
    # Whoever died between the row and the run left half of it: every redelivery completes it.
    made = record.triggered_at is None and _trigger(args.dag_id, record.run_id, intake.conf(record))
    if record.triggered_at is None:
        ledger.confirm_event(record, now=now())
    accepted = outcome is EventOutcome.ACCEPTED or made
    _show(
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
        _fail(f"event file {name!r} cannot be read: {error.strerror}", BAD_USAGE)


def _intake_of(dag_id: str) -> Any:
    """The intake that the Dag declares; its file is parsed here as a worker would."""
    from airflow.utils.cli import get_dag_by_file_location

    from louver_provider.operators.step import StepOperator

    try:
        dag = get_dag_by_file_location(dag_id)
    except KeyError:
        _fail(
            f"Dag {dag_id!r} is known, but its file does not parse now; see airflow dags list-import-errors"
        )
    for task in dag.tasks:
        if isinstance(task, StepOperator) and task.intake is not None:
            return task.intake
    _fail(f"Dag {dag_id!r} takes no events: its definition declares no event_type")


def _trigger(dag_id: str, run_id: str, conf: dict[str, Any]) -> bool:
    """Make the run; False where it exists already."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagRunAlreadyExists
    from airflow.utils.types import DagRunTriggeredByType
    from sqlalchemy.exc import IntegrityError

    try:
        trigger_dag(
            dag_id=dag_id,
            run_id=run_id,
            conf=conf,
            triggered_by=DagRunTriggeredByType.CLI,
            triggering_user_name=_user(),
        )
    except (DagRunAlreadyExists, IntegrityError):
        return False
    return True


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


@louver_command
def workflow_validate(args: Namespace) -> None:
    """``airflow louver workflow validate FILE``"""
    path = Path(args.file)
    try:
        raw = path.read_bytes()
    except OSError as error:
        _fail(f"definition file {args.file!r} cannot be read: {error.strerror}", BAD_USAGE)
    definition = Definition.from_json(raw, source=path.name)
    _show(
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
