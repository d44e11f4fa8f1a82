"""
Opening a run in the ledger before its first step does, so that it can be told something.

What a run begins with (its definition, who started it) is what the Dag file says here and now, as its first
step would read it.
"""

from __future__ import annotations

from datetime import datetime

from airflow.models.dagrun import DagRun
from airflow.utils.cli import get_dag_by_file_location
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import select

from louver.definition import Definition
from louver.errors import LedgerError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.records import RunRecord
from louver.steps import run_start

__all__ = ["dags_with_run", "definition_in_dag", "open_from_airflow"]


def open_from_airflow(ledger: Ledger, key: RunKey, *, now: datetime) -> RunRecord:
    """
    Open the run, which Airflow knows and has not started yet.

    :raises LedgerError: where Airflow does not know it either, where it is over, or where the Dag is none of
        Louver's.
    """
    with create_session(scoped=False) as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == key.dag_id, DagRun.run_id == key.run_id))
        if run is None:
            raise LedgerError(f"neither the ledger nor Airflow knows a run {key.run_id!r} of {key.dag_id}")
        if run.state in State.finished_dr_states:
            raise LedgerError(f"run {key.run_id} of {key.dag_id} is over: Airflow holds it for {run.state}")
        marker, requester = run.run_after.isoformat(), run.triggering_user_name
    start = run_start(definition_in_dag(key.dag_id), key, marker=marker, requester=requester)
    return ledger.open_run(start, now=now)


def dags_with_run(run_id: str) -> list[str]:
    """The Dags that have a run of this id in Airflow."""
    with create_session(scoped=False) as session:
        return sorted(session.scalars(select(DagRun.dag_id).where(DagRun.run_id == run_id)))


def definition_in_dag(dag_id: str) -> Definition:
    """
    The definition that the Dag's file gives now.

    :raises LedgerError: where it does not parse, or is no Louver Dag.
    """
    # The operators' module loads the SDK's task side, which most commands do without.
    from louver_provider.operators.base import LouverOperator

    try:
        dag = get_dag_by_file_location(dag_id)
    except KeyError:
        raise LedgerError(
            f"Dag {dag_id!r} is known, but its file does not parse now; see airflow dags list-import-errors"
        ) from None
    for task in dag.tasks:
        if isinstance(task, LouverOperator):
            return task.workflow.definition
    raise LedgerError(f"{dag_id!r} is no Louver Dag")
