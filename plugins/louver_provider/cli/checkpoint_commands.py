"""Body of ``checkpoints reset``."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from louver.ledger.names import TaskKey
from louver_provider.cli.common import BAD_USAGE, fail, find_run, louver_command, show
from louver_provider.hooks.ledger import get_ledger

__all__ = ["checkpoints_reset"]


@louver_command
def checkpoints_reset(args: Namespace) -> None:
    """``airflow louver checkpoints reset RUN TASK --dry-run | --yes``"""
    if args.dry_run == args.yes:
        fail("say --dry-run to see what the step has saved, or --yes to remove it", BAD_USAGE)
    ledger = get_ledger()
    run = find_run(ledger, args).key
    tasks = [task for task in ledger.list_tasks(run) if task.task_id == args.task_id]
    if args.map_index is not None:
        tasks = [task for task in tasks if task.map_index == args.map_index]
    if not tasks:
        index = "" if args.map_index is None else f" with index {args.map_index}"
        fail(
            f"no process has opened a step {args.task_id!r}{index} of run {run.run_id}: it has saved nothing"
        )
    touch = ledger.reset_states if args.yes else ledger.list_states
    # One that is over is refused; of a mapped step the others are emptied all the same.
    wanted = [task for task in tasks if args.map_index is not None or not task.state.terminal] or tasks[:1]
    show(args, [_row(task.key, touch(task.key), removed=args.yes) for task in wanted])


def _row(key: TaskKey, names: tuple[str, ...], *, removed: bool) -> dict[str, object]:
    return {**asdict(key), "states": ",".join(names), "removed": removed and bool(names)}
