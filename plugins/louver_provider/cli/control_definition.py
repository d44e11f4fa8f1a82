"""Declarations of the commands that control tasks: pause, resume, stop, and emptying what they have saved."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

__all__ = ["control_commands"]

_EXIT_CODES = (
    "Exit codes: 0 done, recorded, or not confirmed yet; 1 nothing of it was accepted, and the rows say why "
    "and in which state the tasks are; 2 bad usage."
)

_BECAME = (
    "Each row says what became of it. recorded: nobody runs the task; it is honoured at its start, before "
    "any user code. taken_back: a pause that nobody had taken up yet. done: the process that runs the task "
    "has acted; detail tells how. delivered: a parked task was woken and has not acted yet. unconfirmed: "
    "its process has not acted yet; the command stays pending, status shows it. rolled_back: no checkpoint "
    "came within [louver] pause_window. refused: it makes no sense in this state, or came too late."
)

_RUN = Arg(("run_id",), help="The run's id, as Airflow shows it.")
_TASK = Arg(("task_id",), help="Only this step; by default all unfinished ones.", nargs="?")
_STEP = Arg(("task_id",), help="The step.")
_MAP_INDEX = Arg(("--map-index",), help="Only this index of a mapped step.", type=int, metavar="N")
_DAG = Arg(("--dag-id",), help="The Dag, where several have a run of this id.", metavar="DAG_ID")
_REASON = Arg(
    ("--reason",),
    help="Why, for the audit trail and for who reads the paused task in the web UI. Airflow keeps the whole "
    "command line in its own audit log too, so name no secrets and no customers.",
    metavar="TEXT",
)
_TIMEOUT = Arg(
    ("--timeout",),
    help="Seconds to wait for the process that has to act, and for a task that has only just parked "
    "(default: 60); 0 does not wait.",
    type=float,
    default=60.0,
    metavar="S",
)
_DRY_RUN = Arg(("--dry-run",), help="Show under which names it has saved something.", action="store_true")
_YES = Arg(("--yes",), help="Remove it.", action="store_true")
_WAIT = Arg(
    ("--wait",),
    help="Wait, within --timeout, until each task has stopped; otherwise only until a parked one is woken.",
    action="store_true",
)

_ARGS = (_RUN, _TASK, _MAP_INDEX, _DAG, _REASON, _TIMEOUT, ARG_OUTPUT, ARG_VERBOSE)


def control_commands() -> tuple[CLICommand, ...]:
    """All of them."""
    return (
        ActionCommand(
            name="pause",
            help="Pause a step, or a whole run, at its next checkpoint",
            description="A step with a saved checkpoint gives its slot back and stands under Required "
            "Actions until it is resumed; one without pauses in place and keeps its slot. A step that does "
            f"not run yet parks before its code starts. {_BECAME}",
            func=lazy_load_command("louver_provider.cli.control_commands.pause"),
            args=_ARGS,
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="resume",
            help="Let a paused step, or all of a run, go on",
            description="A parked step is woken once Airflow is sure to have noticed the end of the process "
            "that parked it ([louver] resume_guard), and goes on at its checkpoint; one that is paused in "
            f"place just goes on. A pause that nobody has taken up yet is taken back. {_BECAME}",
            func=lazy_load_command("louver_provider.cli.control_commands.resume"),
            args=_ARGS,
            epilog=_EXIT_CODES,
        ),
        ActionCommand(
            name="stop",
            help="Stop a step, or a whole run; nothing is tried again",
            description="A running step sees it at its next checkpoint; one that does not react within "
            "[louver] stop_grace is ended by SIGTERM, then SIGKILL. A parked one is woken to be stopped; one "
            f"that does not run yet is stopped at its start. What the run has done is then undone. {_BECAME}",
            func=lazy_load_command("louver_provider.cli.control_commands.stop"),
            args=(*_ARGS[:-2], _WAIT, *_ARGS[-2:]),
            epilog=_EXIT_CODES,
        ),
        GroupCommand(
            name="checkpoints",
            help="What a step has saved to go on from",
            subcommands=(
                ActionCommand(
                    name="reset",
                    help="Let a step begin anew at its next start, without a state",
                    description="Removes what the step has saved since it was last cleared, so that the "
                    "ctx.restore() of its next process returns the default: for a state that a retry cannot "
                    "go on from. A process that is at work is left alone and may save again; pause or stop "
                    "it first. "
                    "Results and effects stay as they are. A step that is over is cleared instead.",
                    func=lazy_load_command("louver_provider.cli.checkpoint_commands.checkpoints_reset"),
                    args=(_RUN, _STEP, _MAP_INDEX, _DAG, _DRY_RUN, _YES, ARG_OUTPUT, ARG_VERBOSE),
                    epilog="Exit codes: 0 done; 1 the command failed; 2 bad usage.",
                ),
            ),
        ),
    )
