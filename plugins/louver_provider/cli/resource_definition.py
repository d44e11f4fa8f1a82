"""Declarations of the commands about resources."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    lazy_load_command,
)

__all__ = ["resource_commands"]

_WHAT = Arg(
    ("what",),
    help="list (the default) shows the resources; permits who has something of them and who waits; set and "
    "unset change the limits of one.",
    nargs="?",
    choices=("list", "permits", "set", "unset"),
    default="list",
)
_NAME = Arg(("resource",), help="The resource; for set and unset, and to show only this one.", nargs="?")
_LIMIT = Arg(("--limit",), help="set: units in use at a time; 0 closes it.", type=int, metavar="N")
_RATE = Arg(("--rate",), help="set: units that may begin in a time, as 50/min.", metavar="N/UNIT")


def resource_commands() -> tuple[CLICommand, ...]:
    """All of them."""
    return (
        ActionCommand(
            name="resources",
            help="What resources take, who has something of them, and who waits",
            description="list: for each resource its limits, who set them, how much is in use and how many "
            "steps wait. permits: each step that has something or waits, in the order in which they are "
            "served. set: limits that hold at once, for everybody, whatever is configured; fewer than are in "
            "use drain. unset: what is configured holds again.",
            func=lazy_load_command("louver_provider.cli.resource_commands.resources"),
            args=(_WHAT, _NAME, _LIMIT, _RATE, ARG_OUTPUT, ARG_VERBOSE),
            epilog="Exit codes: 0 done; 1 the command failed, or there was nothing to unset; 2 bad usage.",
        ),
    )
