"""Declarations of the commands about workflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

__all__ = ["workflow_commands"]

_EXIT_CODES = "Exit codes: 0 done; 1 the command failed; 2 bad usage."

_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
_DAG = Arg(("--dag-id",), help="The Dag, where several have a run of this id.", metavar="DAG_ID")
_WATCH = Arg(
    ("--watch",),
    help="Show it again when it has changed, until the run is over or Ctrl-C.",
    action="store_true",
)
_FILE = Arg(("file",), help="A definition, such as order.json.")


def _body(name: str, *, module: str = "workflow_commands") -> Callable[..., Any]:
    return lazy_load_command(f"louver_provider.cli.{module}.{name}")


def workflow_commands() -> GroupCommand:
    """``airflow louver workflow``."""
    return GroupCommand(
        name="workflow",
        help="Workflows: their definitions and how their runs stand",
        subcommands=(
            ActionCommand(
                name="list",
                help="The workflows that Airflow knows",
                description="Each Louver Dag in its newest version, as Airflow keeps it; no Dag file is "
                "imported. Version and fingerprint of its definition, how many nodes it has, whether Airflow "
                "has paused it, its last run in the ledger, and how many of its runs are not over.",
                func=_body("workflow_list"),
                args=(ARG_OUTPUT, ARG_VERBOSE),
                epilog=_EXIT_CODES,
            ),
            ActionCommand(
                name="status",
                help="How the nodes of a run stand",
                description="The run's state, recomputed from its nodes; each node of the definition that "
                "the run began under with its state, its kind, what it depends on and by which join, its "
                "attempt, and of a mapped one how many of its indexes have succeeded.",
                func=_body("workflow_status"),
                args=(_RUN, _DAG, _WATCH, ARG_OUTPUT, ARG_VERBOSE),
                epilog=f"{_EXIT_CODES[:-1]}; 3 the command worked, but the run has ended without success.",
            ),
            ActionCommand(
                name="resume",
                help="Repair what one run missed, now",
                description="Does for this run what the reconciler would do: transitions, answers and "
                "commands that nobody passed on, lost tasks, the run's state and its seal. It needs no "
                "reconciler, and one that runs is not in its way. Shows what was done; called again, it has "
                "nothing to do.",
                func=_body("workflow_resume"),
                args=(_RUN, _DAG, ARG_OUTPUT, ARG_VERBOSE),
                epilog="Exit codes: 0 done, or nothing had to be; 1 the command failed, or a repair did not "
                "come about: the rows say why; 2 bad usage.",
            ),
            ActionCommand(
                name="validate",
                help="Check a definition file; print its name, version and fingerprint",
                description="Reads the file as strictly as a Dag does, without importing its functions. The "
                "SHA-256 fingerprint tells one definition from another; it is no signature.",
                func=_body("workflow_validate", module="commands"),
                args=(_FILE, ARG_OUTPUT, ARG_VERBOSE),
                epilog=_EXIT_CODES,
            ),
        ),
    )
