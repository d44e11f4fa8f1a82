"""Declaration of the command that looks for trouble."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE, ActionCommand, Arg, lazy_load_command

__all__ = ["doctor_command"]

_ALL = Arg(("--all",), help="What is in order too.", action="store_true")


def doctor_command() -> ActionCommand:
    """``airflow louver doctor``."""
    return ActionCommand(
        name="doctor",
        help="What is wrong with this installation, and how to mend it",
        description="Looks at the options, the ledger, the cluster policy in this command and, by what they "
        "said when they started, in every scheduler and API server; at settings that differ between "
        "components, clocks, pools that are missing or smaller than a task, owners of buckets, and queues "
        "that nobody serves. Changes nothing.",
        func=lazy_load_command("louver_provider.cli.doctor_command.doctor"),
        args=(_ALL, ARG_OUTPUT, ARG_VERBOSE),
        epilog="Exit codes: 0 nothing is wrong, though there may be warnings; 1 the command failed; "
        "2 bad usage; 3 something is wrong.",
    )
