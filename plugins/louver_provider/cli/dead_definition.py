"""Declarations of the commands about dead letters."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

__all__ = ["dead_commands"]

_EXIT_CODES = "Exit codes: 0 done; 1 the command failed, or nothing can be retried; 2 bad usage."

_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
_SOME_RUN = Arg(("run_id",), help="Only the runs of this id.", nargs="?")
_STEP = Arg(("task_id",), help="Only this step; all dead ones of the run otherwise.", nargs="?")
_DAG = Arg(("--dag-id",), help="Only this Dag.", metavar="DAG_ID")
_DAG_OF_RUN = Arg(("--dag-id",), help="The Dag, where several have a run of this id.", metavar="DAG_ID")
_MAP_INDEX = Arg(("--map-index",), help="Only this index of a mapped step.", type=int, metavar="INDEX")
_SINCE = Arg(
    ("--since",),
    help="Only what failed since then: a moment in RFC 3339, or how long ago, as 90m, 12h or 2d.",
    metavar="WHEN",
)
_KIND = Arg(("--kind",), help="Only these failure kinds, as timeout_attempt,lost.", metavar="KIND,...")
_ALL = Arg(("--all",), help="Those that were retried since, too.", action="store_true")
_LIMIT = Arg(
    ("--limit",),
    help="The newest so many; 1000 by default, 0 shows all.",
    type=int,
    default=1000,
    metavar="N",
)
_REASON = Arg(
    ("--reason",),
    help="Why. The audit trail keeps it, with your name; Airflow keeps the whole command line in its own "
    "audit log too, so name no secrets and no customers.",
    required=True,
    metavar="TEXT",
)
_UPSTREAM = Arg(
    ("--upstream",),
    help="Where the run was compensated: clear the steps whose effects are undone too; they act again then.",
    action="store_true",
)
_YES = Arg(("--yes",), help="Do it. Without it the command shows what it would clear.", action="store_true")


def dead_commands() -> GroupCommand:
    """``airflow louver dead``."""
    return GroupCommand(
        name="dead",
        help="Dead letters: steps that used up their retries",
        subcommands=(
            ActionCommand(
                name="list",
                help="Steps that failed for good or were lost, over all runs",
                description="The newest first, each index of a mapped step by itself: failure kind, "
                "attempts, when, and why. One that was retried, cleared or marked since is none any more. "
                "What a person ended, by a rejection or by hand, is none.",
                func=lazy_load_command("louver_provider.cli.dead_commands.dead_list"),
                args=(_SOME_RUN, _DAG, _SINCE, _KIND, _ALL, _LIMIT, ARG_OUTPUT, ARG_VERBOSE),
                epilog="Exit codes: 0 done; 1 the command failed; 2 bad usage.",
            ),
            ActionCommand(
                name="retry",
                help="Have Airflow run dead steps of a run again",
                description="Clears them with all that comes after them and the tasks that close the run, as "
                "a person would in the web UI: they run as their next generation, with all their attempts. "
                "Refused where Airflow still works on them or does not have the run any more, and where "
                "steps whose effects are undone would stay as they are: see --upstream.",
                func=lazy_load_command("louver_provider.cli.dead_commands.dead_retry"),
                args=(
                    _RUN,
                    _STEP,
                    _MAP_INDEX,
                    _DAG_OF_RUN,
                    _REASON,
                    _UPSTREAM,
                    _YES,
                    ARG_OUTPUT,
                    ARG_VERBOSE,
                ),
                epilog=_EXIT_CODES,
            ),
        ),
    )
