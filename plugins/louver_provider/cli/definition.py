"""Declarations of ``airflow louver``: every ``airflow`` command loads them, the bodies only when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

__all__ = ["get_louver_cli_commands"]

_EXIT_CODES = (
    "Exit codes: 0 done; 1 the command failed; 2 bad usage; 3 the command worked, but the run it is about "
    "has ended without success."
)

ARG_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
ARG_TASK = Arg(("task_id",), help="Only this step.", nargs="?")
ARG_DAG_OPTION = Arg(("--dag-id",), help="The Dag, where several have a run of this id.", metavar="DAG_ID")
ARG_DAG = Arg(("dag_id",), help="The Dag to start a run of; its definition must declare an event_type.")
ARG_EVENT = Arg(
    ("--event",), help="File with one CloudEvent as JSON; '-' reads standard input.", required=True
)
ARG_FILE = Arg(("file",), help="A definition, such as order.json.")


def _body(name: str) -> Callable[..., Any]:
    return lazy_load_command(f"louver_provider.cli.commands.{name}")


def get_louver_cli_commands() -> list[CLICommand]:
    """The ``louver`` group."""
    workflow = GroupCommand(
        name="workflow",
        help="Workflow definitions",
        subcommands=(
            ActionCommand(
                name="validate",
                help="Check a definition file; print its name, version and fingerprint",
                description="Reads the file as strictly as a Dag does, without importing its functions. The "
                "SHA-256 fingerprint tells one definition from another; it is no signature.",
                func=_body("workflow_validate"),
                args=(ARG_FILE, ARG_OUTPUT, ARG_VERBOSE),
                epilog=_EXIT_CODES,
            ),
        ),
    )
    database = GroupCommand(
        name="db",
        help="The ledger's schema",
        subcommands=(
            ActionCommand(
                name="upgrade",
                help="Bring the ledger's schema to this release",
                description="Runs the pending migrations on [louver] ledger_url. Safe to run twice.",
                func=_body("db_upgrade"),
                args=(ARG_VERBOSE,),
                epilog=_EXIT_CODES,
            ),
        ),
    )
    commands = (
        ActionCommand(
            name="submit",
            help="Start a run with an event, once",
            description="Checks the event, keeps it in the ledger and triggers a run that carries its id and "
            "fingerprint alone. The same event again answers with the same run and starts none; the same "
            "(source, id) with another payload is refused.",
            func=_body("submit"),
            args=(ARG_DAG, ARG_EVENT, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="status",
            help="What a run is doing, step by step",
            description="The run's state, recomputed from its steps and effects; each step with what it "
            "waits for; effects and approvals. Ids, hashes and states only.",
            func=_body("status"),
            args=(ARG_RUN, ARG_DAG_OPTION, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="history",
            help="The audit trail of a run, or of one step",
            description="Every transition: when, from, to, by which trigger, by whom, why, in which attempt.",
            func=_body("history"),
            args=(ARG_RUN, ARG_TASK, ARG_DAG_OPTION, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        workflow,
        database,
    )
    return [
        GroupCommand(
            name="louver", help="Sagas, effects, approvals and their audit trail", subcommands=commands
        )
    ]
