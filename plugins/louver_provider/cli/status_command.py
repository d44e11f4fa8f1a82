"""Body of ``status``, and how a run is shown and watched."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from louver.clock import SystemClock
from louver.closing import RunOverview
from louver.ledger.contract import Ledger
from louver.ledger.records import RunRecord
from louver_provider.cli.common import WITHOUT_SUCCESS, find_run, louver_command, show_tables
from louver_provider.cli.views import run_view
from louver_provider.hooks.ledger import get_ledger

__all__ = ["show_run", "status"]

_EVERY = timedelta(seconds=2)
_CLEAR = "\x1b[2J\x1b[H"

Tables = dict[str, list[dict[str, Any]]]
View = Callable[[Ledger, RunRecord], tuple[RunOverview, Tables]]
"""What is to be shown of a run: its overview, and tables of which ``run`` is one."""


@louver_command
def status(args: Namespace) -> None:
    """``airflow louver status RUN``"""
    show_run(args, run_view)


def show_run(args: Namespace, view: View) -> None:
    """
    Show a run as ``view`` has it; with ``--watch`` again whenever it has changed, until it is over.

    Ends the command with code 3 where the run has ended without success.
    """
    ledger = get_ledger()
    run = find_run(ledger, args)

    def look() -> tuple[RunOverview, Tables]:
        seen, tables = view(ledger, run)
        tables["run"][0]["dag_paused_in_airflow"] = _paused_in_airflow(run.dag_id)
        return seen, tables

    seen, tables = look()
    _show(args, tables)
    if args.watch:
        try:
            seen = _watch(args, look, seen, tables)
        except KeyboardInterrupt:
            # Whoever watches has seen enough; the run goes on.
            print(file=sys.stderr)
            return
    if seen.state.terminal and not seen.state.success:
        sys.exit(WITHOUT_SUCCESS)


def _watch(
    args: Namespace, look: Callable[[], tuple[RunOverview, Tables]], seen: RunOverview, shown: Tables
) -> RunOverview:
    """Show it again whenever it has changed, until the run is over."""
    clock = SystemClock()
    while not seen.state.terminal:
        clock.sleep(_EVERY)
        seen, tables = look()
        if tables != shown:
            if sys.stdout.isatty():
                print(_CLEAR, end="")
            _show(args, tables)
            shown = tables
    return seen


def _show(args: Namespace, tables: Tables) -> None:
    show_tables(args, tables, of="run")
    if tables["run"][0]["dag_paused_in_airflow"] and args.output in ("table", "plain"):
        dag_id = tables["run"][0]["dag_id"]
        print(
            f"Airflow has paused the Dag {dag_id}: none of its tasks starts, nor goes on after a park, until "
            f"`airflow dags unpause {dag_id}`."
        )
    sys.stdout.flush()


def _paused_in_airflow(dag_id: str) -> bool | None:
    """Airflow's own pause of the Dag, which is another than Louver's; None where Airflow cannot tell."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import DBAPIError

    try:
        with create_session(scoped=False) as session:
            paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id))
    except DBAPIError:
        return None
    return paused if paused is None else bool(paused)
