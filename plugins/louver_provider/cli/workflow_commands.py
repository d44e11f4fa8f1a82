"""Bodies of ``workflow list``, ``workflow status`` and ``workflow resume``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from louver.ledger.contract import Ledger
from louver.ledger.requests import RunFilter
from louver.timestamps import to_utc_text
from louver_provider.cli.common import FAILED, find_anywhere, louver_command, show
from louver_provider.cli.reconcile_commands import outcome_row
from louver_provider.cli.status_command import show_run
from louver_provider.cli.views import workflow_view
from louver_provider.deployed import DeployedWorkflow, deployed_workflows
from louver_provider.hooks.ledger import get_ledger
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings

__all__ = ["workflow_list", "workflow_resume", "workflow_status"]

Row = dict[str, Any]


@louver_command
def workflow_list(args: Namespace) -> None:
    """``airflow louver workflow list``"""
    ledger = get_ledger()
    live = {
        dag_id: sum(states.values()) for dag_id, states in ledger.count_states(live=True).workflows.items()
    }
    show(
        args,
        [
            _row(workflow, ledger) | {"live_runs": live.get(workflow.dag_id, 0)}
            for workflow in deployed_workflows()
        ],
    )


def _row(workflow: DeployedWorkflow, ledger: Ledger) -> Row:
    definition = workflow.definition
    last = next(iter(ledger.list_runs(RunFilter(dag_id=workflow.dag_id, limit=1))), None)
    return {
        "workflow": workflow.dag_id,
        "version": definition.version,
        "fingerprint": definition.fingerprint,
        "nodes": len(definition.nodes),
        "paused": "yes" if workflow.paused else "no",
        "last_run": last.run_id if last else None,
        "last_state": str(last.state) if last else None,
        "last_started": to_utc_text(last.created_at) if last else None,
    }


@louver_command
def workflow_status(args: Namespace) -> None:
    """``airflow louver workflow status RUN``"""
    show_run(args, workflow_view)


@louver_command
def workflow_resume(args: Namespace) -> None:
    """``airflow louver workflow resume RUN``"""
    ledger = get_ledger()
    run = find_anywhere(ledger, args)
    outcomes = list(Reconciler(ledger, load_settings()).repair(run))
    show(args, [outcome_row(outcome) for outcome in outcomes])
    if any(outcome.done is False for outcome in outcomes):
        sys.exit(FAILED)
