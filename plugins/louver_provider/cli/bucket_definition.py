"""Declarations of the commands about buckets."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    lazy_load_command,
)

__all__ = ["bucket_commands"]

_WHAT = Arg(
    ("what",),
    help="list (the default) shows the buckets; apply makes their pools what is configured.",
    nargs="?",
    choices=("list", "apply"),
    default="list",
)
_BUSY = Arg(("--busy",), help="list: only buckets with tasks in them.", action="store_true")
_DRY_RUN = Arg(("--dry-run",), help="apply: show what would be done, and do nothing.", action="store_true")
_UNDRAIN = Arg(
    ("--undrain",), help="apply: give slots back to pools that were drained too.", action="store_true"
)


def bucket_commands() -> tuple[CLICommand, ...]:
    """All of them."""
    return (
        ActionCommand(
            name="buckets",
            help="What is going on in the buckets; make their pools",
            description="list: for each bucket its owner, the slots of its pool and how many are taken; "
            "tasks that run, are queued, wait for a slot, and are parked without one; and how long the one "
            "that waits longest has been waiting. apply: makes pools that are missing and gives others the "
            "slots of [louver] bucket_slots. It touches no pool but Louver's own.",
            func=lazy_load_command("louver_provider.cli.bucket_commands.buckets"),
            args=(_WHAT, _BUSY, _DRY_RUN, _UNDRAIN, ARG_OUTPUT, ARG_VERBOSE),
            epilog="Exit codes: 0 done; 1 the command failed, or a bucket's pool belongs to somebody else; "
            "2 bad usage.",
        ),
    )
