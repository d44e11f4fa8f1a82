"""Bodies of ``pause``, ``resume`` and ``stop``."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import timedelta

from louver.ledger.names import Verb
from louver.states import Source
from louver_provider.cli.common import BAD_USAGE, FAILED, fail, find_anywhere, louver_command, show, user
from louver_provider.hooks.ledger import get_ledger
from louver_provider.task_control import Reply, TaskControl

__all__ = ["pause", "resume", "stop"]


@louver_command
def pause(args: Namespace) -> None:
    """``airflow louver pause RUN [TASK]``"""
    _control(args, Verb.PAUSE)


@louver_command
def resume(args: Namespace) -> None:
    """``airflow louver resume RUN [TASK]``"""
    _control(args, Verb.RESUME)


@louver_command
def stop(args: Namespace) -> None:
    """``airflow louver stop RUN [TASK]``"""
    _control(args, Verb.STOP)


def _control(args: Namespace, verb: Verb) -> None:
    if args.map_index is not None and args.task_id is None:
        fail("--map-index needs the step that it is an index of", BAD_USAGE)
    if not 0 <= args.timeout <= _LONGEST:
        fail(f"--timeout takes 0 to {_LONGEST} seconds, not {args.timeout:g}", BAD_USAGE)
    ledger = get_ledger()
    run = find_anywhere(ledger, args)
    client = TaskControl(actor=user(), source=Source.CLI, ledger=ledger)
    replies = client.ask(
        verb,
        run,
        args.task_id,
        map_index=args.map_index,
        reason=args.reason or None,
        timeout=timedelta(seconds=args.timeout),
        wait=getattr(args, "wait", True),
    )
    if not replies:
        fail(f"every step of run {run.run_id} of {run.dag_id} is over; there is nothing to {verb}")
    show(args, [_row(reply) for reply in replies])
    if not any(reply.became.accepted for reply in replies):
        sys.exit(FAILED)


_LONGEST = 86_400


def _row(reply: Reply) -> dict[str, object]:
    return {
        "dag_id": reply.task.dag_id,
        "run_id": reply.task.run_id,
        "step": reply.task.task_id,
        "map_index": reply.task.map_index,
        "state": str(reply.state),
        "command": str(reply.verb),
        "became": str(reply.became),
        "detail": reply.detail,
        "command_id": reply.command_id,
    }
