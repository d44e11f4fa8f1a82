"""Declaration of the command that reconciles."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE, ActionCommand, Arg, lazy_load_command

__all__ = ["reconcile_command"]

_WATCH = Arg(
    ("--watch",),
    help="Go on, a round every [louver] reconcile_interval seconds, until Ctrl-C or SIGTERM.",
    action="store_true",
)
_DRY_RUN = Arg(("--dry-run",), help="Show what one round would do, and write nothing.", action="store_true")


def reconcile_command() -> ActionCommand:
    """``airflow louver reconcile``."""
    return ActionCommand(
        name="reconcile",
        help="Repair what no process could do itself",
        description="One round: lost tasks, starts that took too long, processes that do not react, runs "
        "that Airflow ended from outside, commands and answers that nobody passed on, expired approvals, "
        "runs without a seal. One process at a time reconciles; by default it is one that the scheduler "
        "brings with it, see [louver] reconciler. With --watch it waits while another one does; what it does "
        "then stands in its log.",
        func=lazy_load_command("louver_provider.cli.reconcile_commands.reconcile"),
        args=(_WATCH, _DRY_RUN, ARG_OUTPUT, ARG_VERBOSE),
        epilog="Exit codes: 0 done; 1 another process reconciles, or a repair did not come about: the rows "
        "say why; 2 bad usage.",
    )
