"""Body of ``history``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.records import TransitionRecord
from louver.ledger.requests import RunFilter
from louver.platform_events import PlatformEvent
from louver_provider.cli.common import fail, louver_command, one_dag, show
from louver_provider.cli.views import history_rows
from louver_provider.hooks.ledger import get_ledger

__all__ = ["history"]

Row = dict[str, Any]

_NARROW = ("at", "precision", "step", "from", "to", "airflow", "trigger", "actor", "reason", "source")
"""What a table has room for; programs get all."""


@louver_command
def history(args: Namespace) -> None:
    """``airflow louver history RUN [TASK]``"""
    ledger = get_ledger()
    key = _find(ledger, args)
    if args.export is not None or args.anonymise:
        _export(ledger, key, args)
        return
    transitions = ledger.list_transitions(key, task_id=args.task_id)
    events = [] if args.stored else _events(ledger, key, transitions)
    wanted = [event for event in events if args.task_id in (None, event.task_id)]
    commands = [] if args.stored else ledger.list_commands(key, task_id=args.task_id)
    accepted = [] if ledger.get_run(key) is None else ledger.list_acceptances(key)
    accepted = [one for one in accepted if args.task_id in (None, one.task_id)]
    rows = history_rows(transitions, wanted, commands, accepted)
    if not rows and args.task_id is not None:
        fail(f"run {key.run_id!r} has no transitions of a step {args.task_id!r}")
    show(args, rows if args.output in ("json", "yaml") else [_narrow(row) for row in rows])


def _export(ledger: Ledger, key: RunKey, args: Namespace) -> None:
    """What the ledger holds of the run, as :mod:`louver.replay` reads it."""
    from louver.exports import export_run
    from louver.pseudonyms import anonymised

    if args.export is None:
        fail("--anonymise is for --export: name the file to write, or - for standard output")
    if args.task_id is not None:
        fail("a whole run is exported, and no single step: leave the step out")
    document = export_run(key, ledger)
    if args.anonymise:
        document = anonymised(document)
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if args.export == "-":
        sys.stdout.write(text)
        return
    try:
        Path(args.export).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{args.export} cannot be written: {error.strerror}")


def _find(ledger: Ledger, args: Namespace) -> RunKey:
    """The run that is meant; of one that never began, or was deleted, Airflow alone may know."""
    dags = [run.dag_id for run in ledger.list_runs(RunFilter(run_id=args.run_id, dag_id=args.dag_id))]
    if not dags and args.dag_id is not None:
        dags = [args.dag_id]
    if not dags and not args.stored:
        from louver_provider.adoption import dags_with_run

        dags = dags_with_run(args.run_id)
    if not dags:
        fail(f"run {args.run_id!r} is not in the ledger, nor known to Airflow: check the id")
    return RunKey(one_dag(dags, args.run_id), args.run_id)


def _events(ledger: Ledger, key: RunKey, transitions: list[TransitionRecord]) -> list[PlatformEvent]:
    """What Airflow's tables tell; nothing, and a word about it, where they cannot be read."""
    # Loaded here: with --stored the command does without Airflow's models.
    from louver_provider.airflow_events import events_of, rescue_events
    from louver_provider.airflow_history import read_rescues, read_run

    run = ledger.get_run(key)
    known = [row.at for row in transitions] + ([run.created_at] if run is not None else [])
    try:
        events = events_of(read_run(key, since=min(known, default=None)))
        for number, rescue in read_rescues(key).items():
            events += rescue_events(rescue, number=number)
        return events
    except SQLAlchemyError as error:
        print(
            f"airflow louver: Airflow's tables cannot be read ({type(error).__name__}); "
            "this is what the ledger holds alone",
            file=sys.stderr,
        )
        return []


def _narrow(row: Row) -> Row:
    narrow = {name: row[name] for name in _NARROW}
    if row["map_index"] >= 0:
        narrow["step"] = f"{row['step']}[{row['map_index']}]"
    # What the ledger does not hold is marked as such.
    narrow["recorded"] = row["recorded_by"] is not None
    return narrow
