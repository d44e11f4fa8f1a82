"""Body of ``airflow louver reconcile``."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from typing import Any

from airflow.exceptions import AirflowException
from airflow.utils import cli as cli_utils
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from sqlalchemy.exc import DBAPIError

from louver.errors import LouverError
from louver.repairs import CloseRun, Mark, SetRunState
from louver_provider.cli.common import BAD_USAGE, FAILED, fail, louver_command, show
from louver_provider.hooks.ledger import get_ledger
from louver_provider.reconciler.carrying import name_of, place_of
from louver_provider.reconciler.keeper import PARENT, end_with_parent, is_orphan
from louver_provider.reconciler.pools import MakePool
from louver_provider.reconciler.rounds import Outcome
from louver_provider.reconciler.service import Reconciler, Service, until_told
from louver_provider.settings import load_settings

__all__ = ["outcome_row", "reconcile"]


def reconcile(args: Namespace) -> None:
    """``airflow louver reconcile``"""
    if args.watch and args.dry_run:
        fail("--watch and --dry-run exclude each other", BAD_USAGE)
    if args.watch:
        _watch(args)
    else:
        _once(args)


@louver_command
def _once(args: Namespace) -> None:
    reconciler = Reconciler(get_ledger(), load_settings(), dry_run=args.dry_run)
    if not args.dry_run and reconciler.take() is None:
        holder = reconciler.holder()
        who = f": {holder.owner}, until {holder.lease_until.isoformat()}" if holder is not None else ""
        fail(f"another process reconciles{who}; --dry-run shows what it has to do")
    try:
        outcomes = list(reconciler.round(go_on=lambda: args.dry_run or reconciler.take() is not None))
    except DBAPIError as error:
        fail(f"Airflow's database did not answer: {type(error.orig).__name__}")
    finally:
        if not args.dry_run:
            reconciler.give()
    show(args, [outcome_row(outcome) for outcome in outcomes])
    if any(outcome.done is False for outcome in outcomes):
        sys.exit(FAILED)


@cli_utils.action_cli(check_db=False)
@providers_configuration_loaded
def _watch(args: Namespace) -> None:
    # Not as other commands, which keep the log to themselves: it is what a service has to say.
    parent = os.environ.pop(PARENT, None)
    if parent is not None and not end_with_parent(int(parent)):
        return
    logging.getLogger("louver_provider").setLevel(logging.INFO)
    try:
        with until_told(also=lambda: parent is not None and is_orphan(int(parent))) as wait:
            Service(wait=wait).run()
    except (LouverError, AirflowException) as error:
        fail(str(error))


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """A repair, and what became of it."""
    repair = outcome.repair
    dag_id, run_id, task_id, map_index = place_of(repair)
    to = None
    if isinstance(repair, Mark):
        to = str(repair.changes[-1].to)
    elif isinstance(repair, SetRunState | CloseRun):
        to = str(repair.state)
    elif isinstance(repair, MakePool):
        to = repair.pool
    return {
        "dag_id": dag_id,
        "run_id": run_id,
        "step": task_id,
        "map_index": map_index,
        "repair": name_of(repair),
        "to": to,
        "done": "not tried" if outcome.done is None else "yes" if outcome.done else "no",
        "why": repair.why,
        "why_not": outcome.why_not,
    }
