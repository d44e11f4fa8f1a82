"""Declaration of the command that counts."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE, ActionCommand, Arg, lazy_load_command

__all__ = ["SECTIONS", "stats_command"]

SECTIONS = ("tasks", "runs", "workflows", "effects", "approvals", "commands", "retries", "observations")
"""What is counted, in the order in which it is shown."""

_SECTION = Arg(
    ("section",),
    help=f"Only this section: {', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}.",
    nargs="?",
    choices=SECTIONS,
    metavar="SECTION",
)
_ALL = Arg(("--all",), help="What belongs to runs that are over, too.", action="store_true")


def stats_command() -> ActionCommand:
    """``airflow louver stats``."""
    return ActionCommand(
        name="stats",
        help="How much there is of what, by state",
        description="Tasks, runs, runs of each workflow, effects, approvals and commands of the runs that "
        "are not over, by their states; effects that wait for a person whatever became of their run; retries "
        "that budgets let through; and how many observations running tasks could not write at once "
        "(persist_failures). The counts are the ledger's.",
        func=lazy_load_command("louver_provider.cli.stats_command.stats"),
        args=(_SECTION, _ALL, ARG_OUTPUT, ARG_VERBOSE),
        epilog="Exit codes: 0 done; 1 the command failed; 2 bad usage.",
    )
