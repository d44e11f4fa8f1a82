"""What the bodies of all ``airflow louver`` commands share: errors in one line, exit codes, output."""

from __future__ import annotations

import functools
import getpass
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeVar

from airflow.cli.simple_table import AirflowConsole
from airflow.exceptions import AirflowException
from airflow.utils import cli as cli_utils
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from sqlalchemy.exc import DBAPIError

from louver.errors import LouverError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.records import RunRecord
from louver.ledger.requests import RunFilter

__all__ = [
    "BAD_USAGE",
    "FAILED",
    "WITHOUT_SUCCESS",
    "Command",
    "fail",
    "find_anywhere",
    "find_run",
    "louver_command",
    "named",
    "one_dag",
    "show",
    "show_tables",
    "user",
]

Command = Callable[[Namespace], None]

Row = dict[str, Any]

E = TypeVar("E", bound=Enum)

FAILED, BAD_USAGE, WITHOUT_SUCCESS = 1, 2, 3
"""Exit codes (row T18); 0 is done."""


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with one line on standard error."""
    print(f"airflow louver: {message}", file=sys.stderr)
    sys.exit(code)


def louver_command(body: Command) -> Command:
    """A command whose errors are one line and an exit code, never a traceback."""

    @functools.wraps(body)
    def command(args: Namespace) -> None:
        try:
            body(args)
        except (LouverError, AirflowException) as error:
            fail(str(error))
        except DBAPIError as error:
            # Not its text: statement and parameters stand in it.
            fail(f"Airflow's database did not answer: {type(error.orig).__name__}")

    # Airflow logs to standard output, which belongs to what --output prints; --verbose shows it.
    quiet = cli_utils.suppress_logs_and_warning(providers_configuration_loaded(command))
    wrapped: Command = cli_utils.action_cli(check_db=False)(quiet)
    return wrapped


def _console() -> AirflowConsole:
    # Keys and reasons are anybody's text: "[red]" and ":tada:" in them mean nothing.
    return AirflowConsole(markup=False, emoji=False)


def show(args: Namespace, data: Sequence[Row]) -> None:
    """Print rows as ``--output`` says."""
    _console().print_as(data=_for(args, data), output=args.output)


def _for(args: Namespace, rows: Sequence[Row]) -> list[Row]:
    """The rows; in a table what is not there is nothing, and not the word None."""
    if args.output != "table":
        return list(rows)
    return [{name: "" if value is None else value for name, value in row.items()} for row in rows]


def show_tables(args: Namespace, tables: dict[str, list[Row]], *, of: str) -> None:
    """
    Print several tables as ``--output`` says; for programs as one document, with the tables inside.

    :param of: the table of one row that the others belong to.
    """
    console = _console()
    if args.output in ("json", "yaml"):
        others = {name: rows for name, rows in tables.items() if name != of}
        document: Any = [tables[of][0] | others]
        print_as = console.print_as_json if args.output == "json" else console.print_as_yaml
        print_as(document)
        return
    for name, rows in tables.items():
        if rows:
            print(f"{name}:")
            console.print_as(data=_for(args, rows), output=args.output)


def named(text: str | None, kind: type[E], *, option: str) -> tuple[E, ...]:
    """What an option names of an enumeration, by commas; ends the command where it is none of it."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    known = {str(member): member for member in kind}
    for name in names:
        if name not in known:
            fail(f"{option}: {name!r} is not known; choose from {', '.join(known)}", BAD_USAGE)
    return tuple(known[name] for name in names)


def find_run(ledger: Ledger, args: Namespace) -> RunRecord:
    """The run that ``run_id`` and ``--dag-id`` name; ends the command where that is none, or several."""
    found = ledger.list_runs(RunFilter(run_id=args.run_id, dag_id=args.dag_id))
    if not found:
        fail(f"run {args.run_id!r} is not in the ledger: check the id, or wait for its first step to start")
    one_dag([run.dag_id for run in found], args.run_id)
    return found[0]


def find_anywhere(ledger: Ledger, args: Namespace) -> RunKey:
    """The run that is meant; one that Airflow has not started yet is not in the ledger."""
    # It asks Airflow's tables, which most commands do without.
    from louver_provider.adoption import dags_with_run

    dags = [run.dag_id for run in ledger.list_runs(RunFilter(run_id=args.run_id, dag_id=args.dag_id))]
    if not dags:
        dags = dags_with_run(args.run_id) if args.dag_id is None else [args.dag_id]
    if not dags:
        fail(f"neither the ledger nor Airflow knows a run {args.run_id!r}")
    return RunKey(one_dag(dags, args.run_id), args.run_id)


def one_dag(dag_ids: Sequence[str], run_id: str) -> str:
    """The only Dag of these that have a run of this id; ends the command where there are several."""
    if len(dag_ids) > 1:
        dags = ", ".join(sorted(dag_ids))
        fail(f"several Dags have a run {run_id!r}: {dags}; choose one with --dag-id", BAD_USAGE)
    return dag_ids[0]


def user() -> str | None:
    """Who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
