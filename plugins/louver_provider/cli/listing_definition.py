"""Declarations of the commands that list, and of those by which a person settles what waits for one."""

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

__all__ = ["listing_commands"]

_EXIT_CODES = "Exit codes: 0 done; 1 the command failed; 2 bad usage."

_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
_SOME_RUN = Arg(("run_id",), help="Only this run.", nargs="?")
_DAG = Arg(("--dag-id",), help="Only this Dag.", metavar="DAG_ID")
_KEY_OPTION = Arg(
    ("--key",), help="Only effects with this key; with #EPOCH at its end, only that epoch.", metavar="KEY"
)
_KEY = Arg(("key",), help="The effect's key, as status shows it; its newest epoch unless #EPOCH is added.")
_SCOPE = Arg(
    ("--scope",),
    help="Where several scopes use the key: dag:DAG_ID, run:DAG_ID:RUN_ID, or global.",
    metavar="SCOPE",
)
_ALL_TASKS = Arg(("--all",), help="Those that are over too.", action="store_true")
_ALL_REQUESTS = Arg(("--all",), help="Those that are decided too, of all runs.", action="store_true")
_BUCKET = Arg(
    ("--bucket",), help="Only tasks of runs in this bucket.", metavar="NUMBER", type=int, dest="bucket"
)
_MINE = Arg(
    ("--mine",),
    help="Only tasks of runs in buckets that this node owns: [louver] bucket_owners, by its host name.",
    action="store_true",
)
_TAG = Arg(
    ("--tag",),
    help="Only tasks of Dags with this tag; given several times, with all of them.",
    metavar="TAG",
    action="append",
)
_TASK_STATES = Arg(("--state",), help="Only these states, as running,paused.", metavar="STATE,...")
_EFFECT_STATES = Arg(("--state",), help="Only these states, as unknown,undo_failed.", metavar="STATE,...")
_KEPT = (
    "The audit trail keeps it, with your name; Airflow keeps the whole command line in its own audit log "
    "too, so name no secrets and no customers."
)
_REASON = Arg(("--reason",), help=f"Why. {_KEPT}", required=True, metavar="TEXT")
_SOME_REASON = Arg(("--reason",), help=f"Why. {_KEPT}", metavar="TEXT")
_NOTE = Arg(("--note",), help=f"What you found out or did. {_KEPT}", required=True, metavar="TEXT")
_SETTLED_AS = Arg(
    ("--as",),
    help="undone (the default): nothing of it is left, undone by hand or never done; its key may be used "
    "again. stands: it happened and is to stay; it is not undone any more.",
    choices=("undone", "stands"),
    default="undone",
    dest="settled_as",
)


def _body(name: str, *, module: str = "listing_commands") -> Callable[..., Any]:
    return lazy_load_command(f"louver_provider.cli.{module}.{name}")


def listing_commands() -> tuple[CLICommand, ...]:
    """All of them."""
    return (
        ActionCommand(
            name="ps",
            help="Tasks that are at work or wait, over all runs",
            description="A row for each task that has begun and is not over, and for each that was asked "
            "something before it began: its state since when, its last sign of life, how far it is, commands "
            "that nobody has carried out yet, and whether it waits for an approval or a resume.",
            func=_body("ps"),
            args=(_ALL_TASKS, _DAG, _TASK_STATES, _BUCKET, _MINE, _TAG, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="approvals",
            help="Requests for approval that wait for somebody",
            description="Of the runs that are not over: what is asked, for how long already and until when, "
            "and who may answer. Answer under Required Actions in the web UI.",
            func=_body("approvals"),
            args=(_SOME_RUN, _ALL_REQUESTS, _DAG, ARG_OUTPUT, ARG_VERBOSE),
            epilog=_EXIT_CODES,
        ),
        GroupCommand(
            name="effects",
            help="Effects: what was done to the world",
            subcommands=(
                ActionCommand(
                    name="list",
                    help="Effects and undos, of one run or of all",
                    description="Keys, states and hashes; never what was done with them.",
                    func=_body("effects_list"),
                    args=(_SOME_RUN, _EFFECT_STATES, _KEY_OPTION, _DAG, ARG_OUTPUT, ARG_VERBOSE),
                    epilog=_EXIT_CODES,
                ),
                ActionCommand(
                    name="renew",
                    help="Let a key that was used be used once more",
                    description="Opens the next epoch of a committed effect: whoever begins it next acts "
                    "again, with any intent. What was done before stays done, and is undone with the run "
                    "that did it.",
                    func=_body("effects_renew", module="settling_commands"),
                    args=(_KEY, _REASON, _SCOPE, ARG_OUTPUT, ARG_VERBOSE),
                    epilog=_EXIT_CODES,
                ),
            ),
        ),
        GroupCommand(
            name="compensations",
            help="What could not be undone without a person",
            subcommands=(
                ActionCommand(
                    name="list",
                    help="Effects that wait for a person",
                    description="Those of which nobody knows whether they happened (unknown), and those "
                    "whose undo used up its attempts (undo_failed).",
                    func=_body("compensations_list"),
                    args=(_DAG, ARG_OUTPUT, ARG_VERBOSE),
                    epilog=_EXIT_CODES,
                ),
                ActionCommand(
                    name="retry",
                    help="Undo again what could not be undone, of one run",
                    description="Has Airflow run the tasks again that close the run. An undo that may have "
                    "happened is tried again only where its effect says that the provider acts once per key.",
                    func=_body("compensations_retry", module="settling_commands"),
                    args=(_RUN, _DAG, _SOME_REASON, ARG_OUTPUT, ARG_VERBOSE),
                    epilog=_EXIT_CODES,
                ),
                ActionCommand(
                    name="resolve",
                    help="Say that an effect is settled",
                    description="For an effect that is unknown or undo_failed, once you have found out, or "
                    "undone it by hand. The run's state follows from it.",
                    func=_body("compensations_resolve", module="settling_commands"),
                    args=(_KEY, _NOTE, _SETTLED_AS, _SCOPE, ARG_OUTPUT, ARG_VERBOSE),
                    epilog=_EXIT_CODES,
                ),
            ),
        ),
    )
