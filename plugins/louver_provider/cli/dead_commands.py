"""Bodies of ``dead list`` and ``dead retry``."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from louver.clock import SystemClock
from louver.closing import COMPENSATE
from louver.ledger.contract import Ledger
from louver.ledger.dead_letter_contract import DeadLetter, DeadLetterFilter
from louver.ledger.human_queue_contract import Word
from louver.states import FailureKind, Source
from louver.timestamps import TimestampError, parse_rfc3339, to_utc, to_utc_text
from louver_provider.cli.common import BAD_USAGE, fail, find_run, louver_command, named, show, user
from louver_provider.dead_steps import retry_dead
from louver_provider.hooks.ledger import get_ledger

__all__ = ["dead_list", "dead_retry"]

Row = dict[str, Any]

_PAGE = 500
_NO_NODES = (COMPENSATE,)
"""Closing tasks have a human queue of their own: ``compensations list``."""

_AGO = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@louver_command
def dead_list(args: Namespace) -> None:
    """``airflow louver dead list [RUN]``"""
    if args.limit < 0:
        fail(f"--limit takes a number from 0, not {args.limit}", BAD_USAGE)
    wanted = DeadLetterFilter(
        dag_id=args.dag_id,
        run_id=args.run_id,
        since=_since(args.since),
        kinds=named(args.kind, FailureKind, option="--kind"),
        retried=args.all,
        leave_out=_NO_NODES,
        limit=_PAGE,
    )
    rows: list[Row] = []
    for letter in _letters(get_ledger(), wanted):
        if args.limit and len(rows) == args.limit:
            print(
                f"airflow louver: only the newest {args.limit} are shown; see --limit, --since and --dag-id",
                file=sys.stderr,
            )
            break
        rows.append(_row(letter))
    show(args, rows)


def _letters(ledger: Ledger, wanted: DeadLetterFilter) -> Iterator[DeadLetter]:
    """All of them, by the page."""
    while True:
        page = ledger.list_dead_letters(wanted)
        yield from page
        if len(page) < wanted.limit:
            return
        wanted = replace(wanted, after=page[-1])


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    now = SystemClock().now()
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return to_utc(parse_rfc3339(text))
    except OverflowError:
        fail(f"--since {text!r} reaches back further than time does", BAD_USAGE)
    except TimestampError as error:
        fail(f"--since {text!r}: {error}; or say how long ago, as 90m, 12h or 2d", BAD_USAGE)


def _row(letter: DeadLetter) -> Row:
    end = letter.end
    return {
        "dag_id": end.dag_id,
        "run_id": end.run_id,
        "step": end.task_id,
        "map_index": end.map_index,
        "state": str(end.to_state),
        "kind": str(letter.kind) if letter.kind else None,
        "attempts": end.attempt,
        "generation": end.generation,
        "when": to_utc_text(end.at),
        "retried": "yes" if letter.retried else "no",
        "now": str(letter.task.state),
        "reason": end.reason,
    }


@louver_command
def dead_retry(args: Namespace) -> None:
    """``airflow louver dead retry RUN [STEP] --reason TEXT``"""
    if args.map_index is not None and args.task_id is None:
        fail("--map-index needs the step that it is an index of", BAD_USAGE)
    if not args.reason.strip():
        fail("--reason must say something: it is what the audit trail keeps", BAD_USAGE)
    ledger = get_ledger()
    run = find_run(ledger, args)
    wanted = DeadLetterFilter(dag_id=run.dag_id, run_id=run.run_id, leave_out=_NO_NODES, limit=_PAGE)
    found = [letter for letter in _letters(ledger, wanted) if _is_meant(letter, args)]
    if not found:
        _nothing_to_retry(ledger, args, replace(wanted, retried=True))
    word = Word(actor=user(), reason=args.reason, source=Source.CLI)
    again = retry_dead(ledger, run, found, word=word, upstream=args.upstream, clear=args.yes)
    became = "cleared" if args.yes else "would be cleared"
    show(
        args,
        [
            {
                "dag_id": one.task.dag_id,
                "run_id": one.task.run_id,
                "step": one.task.task_id,
                "map_index": one.task.map_index,
                "why": str(one.why),
                "became": became,
            }
            for one in again
        ],
    )
    if not args.yes and args.output in ("table", "plain"):
        print("Nothing was cleared; with --yes it is.")


def _is_meant(letter: DeadLetter, args: Namespace) -> bool:
    return args.task_id in (None, letter.end.task_id) and args.map_index in (None, letter.end.map_index)


def _nothing_to_retry(ledger: Ledger, args: Namespace, every: DeadLetterFilter) -> None:
    index = f"[{args.map_index}]" if args.map_index is not None else ""
    what = f"{args.task_id}{index}" if args.task_id is not None else "no step"
    before = next((letter for letter in _letters(ledger, every) if _is_meant(letter, args)), None)
    if args.task_id is None:
        fail(f"{what} of run {args.run_id} is dead; there is nothing to retry")
    if before is not None:
        fail(f"{what} of run {args.run_id} was retried already: it is {before.task.state} now")
    fail(f"{what} of run {args.run_id} is not dead; see airflow louver status {args.run_id}")
