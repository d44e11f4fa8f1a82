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

from louver_provider.cli.bucket_definition import bucket_commands
from louver_provider.cli.control_definition import control_commands
from louver_provider.cli.dead_definition import dead_commands
from louver_provider.cli.doctor_definition import doctor_command
from louver_provider.cli.listing_definition import listing_commands
from louver_provider.cli.reconcile_definition import reconcile_command
from louver_provider.cli.resource_definition import resource_commands
from louver_provider.cli.stats_definition import stats_command
from louver_provider.cli.workflow_definition import workflow_commands

__all__ = ["get_louver_cli_commands"]

_EXIT_CODES = "Exit codes: 0 done; 1 the command failed; 2 bad usage."

ARG_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
ARG_TASK = Arg(("task_id",), help="Only this step.", nargs="?")
ARG_DAG_OPTION = Arg(("--dag-id",), help="The Dag, where several have a run of this id.", metavar="DAG_ID")
ARG_STORED = Arg(
    ("--stored",),
    help="Only what the ledger holds, which is signed; Airflow's tables are not read.",
    action="store_true",
)
ARG_EXPORT = Arg(
    ("--export",),
    metavar="FILE",
    help="Write the whole history, as the ledger holds it, to this file as JSON, without payloads; '-' is "
    "standard output. louver.replay reads it.",
)
ARG_ANONYMISE = Arg(
    ("--anonymise",),
    help="With --export: people, ids and texts are replaced, each by the same pseudonym wherever it stands, "
    "and all times are shifted.",
    action="store_true",
)
ARG_DAG = Arg(("dag_id",), help="The Dag to start a run of; its definition must declare an event_type.")
ARG_EVENT = Arg(
    ("--event",), help="File with one CloudEvent as JSON; '-' reads standard input.", required=True
)
ARG_WATCH = Arg(
    ("--watch",),
    help="Show it again when it has changed, until the run is over or Ctrl-C.",
    action="store_true",
)
ARG_SOME_RUN = Arg(("run_id",), help="Only the runs of this id.", nargs="?")
ARG_OF_DAG = Arg(("--dag-id",), help="Only runs and events of this Dag.", metavar="DAG_ID")
ARG_ALL_FINDINGS = Arg(("--all",), help="Go on after the first broken row.", action="store_true")
ARG_DRY_RUN = Arg(("--dry-run",), help="Show what would be removed, and remove nothing.", action="store_true")
ARG_YES = Arg(("--yes",), help="Remove it.", action="store_true")
ARG_OLDER_THAN = Arg(
    ("--older-than",), help="Leave younger payloads alone: 90m, 2d, ...; 1h by default.", default="1h"
)
ARG_BEFORE = Arg(
    ("--before",),
    help="Only what ended before this moment, in RFC 3339: 2026-01-31T00:00:00Z.",
    metavar="TIMESTAMP",
    required=True,
)
ARG_EFFECTS = Arg(
    ("--effects",),
    help="Remove effects too whose key is unique beyond their run; nothing keeps them from being done again "
    "after that.",
    action="store_true",
)


def _body(name: str, *, module: str = "commands") -> Callable[..., Any]:
    return lazy_load_command(f"louver_provider.cli.{module}.{name}")


def get_louver_cli_commands() -> list[CLICommand]:
    """The ``louver`` group."""
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
            description="The run's state, recomputed from its steps and effects; each step with how far it "
            "is and what it comes after; commands that nobody has carried out yet; who paused what, and "
            "whether Airflow has paused the Dag; effects and approvals. Ids, hashes and states only.",
            func=_body("status", module="status_command"),
            args=(ARG_RUN, ARG_DAG_OPTION, ARG_WATCH, ARG_OUTPUT, ARG_VERBOSE),
            epilog=f"{_EXIT_CODES[:-1]}; 3 the command worked, but the run has ended without success.",
        ),
        ActionCommand(
            name="history",
            help="What happened to a run, or to one step",
            description="Every transition in the ledger, and what Airflow's own tables know of it and beyond "
            "it: when, from, to, by which trigger, by whom, why, in which attempt, and how exactly the "
            "time is known. What Airflow has overwritten is shown as a gap. json and yaml tell more than a "
            "table has room for; see docs/history.md.",
            func=_body("history", module="history_command"),
            args=(
                ARG_RUN,
                ARG_TASK,
                ARG_DAG_OPTION,
                ARG_STORED,
                ARG_EXPORT,
                ARG_ANONYMISE,
                ARG_OUTPUT,
                ARG_VERBOSE,
            ),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="verify",
            help="Whether the ledger holds what was written into it",
            description="Checks the chains of transitions, the seals of finished runs and every signed "
            "payload, and that none of them is missing. Names the first broken row. What nothing vouches for "
            "is listed in docs/operations.md.",
            func=_body("verify", module="maintenance"),
            args=(ARG_SOME_RUN, ARG_OF_DAG, ARG_ALL_FINDINGS, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="gc",
            help="Find and remove payloads that no row refers to",
            description="Goes through all payloads by pages. One that is not what was signed is left alone: "
            "that is for verify to tell.",
            func=_body("gc", module="maintenance"),
            args=(ARG_DRY_RUN, ARG_YES, ARG_OLDER_THAN, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="clean",
            help="Remove finished runs from the ledger",
            description="Removes runs that are over, with all that belongs to them alone, and their events, "
            "each in a transaction of its own. Runs that are not over, and those with an effect that waits "
            "for a person, stay whatever their age.",
            func=_body("clean", module="maintenance"),
            args=(
                ARG_BEFORE,
                ARG_OF_DAG,
                ARG_EFFECTS,
                ARG_DRY_RUN,
                ARG_YES,
                ARG_OUTPUT,
                ARG_VERBOSE,
            ),
            epilog=_EXIT_CODES,
        ),
        *control_commands(),
        *listing_commands(),
        stats_command(),
        *bucket_commands(),
        *resource_commands(),
        doctor_command(),
        reconcile_command(),
        dead_commands(),
        workflow_commands(),
        database,
    )
    return [
        GroupCommand(
            name="louver", help="Sagas, effects, approvals and their audit trail", subcommands=commands
        )
    ]
