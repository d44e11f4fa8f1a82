"""
Opening a run in the ledger before its first step does, so that it can be told something.

What a run begins with (its definition, who started it) is what its first step would find. A run of a
versioned bundle stays with the version that it was made with, whatever is deployed since; for any other run
the Dag's file is read when a task of it starts.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
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
from louver_provider.deployed import deployed_definition
from louver_provider.reconciler.sights import read_deployed

__all__ = ["dags_with_run", "definition_in_dag", "definition_to_come", "open_from_airflow"]


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
        version = run.bundle_version
    definition = definition_to_come(key, bundle_version=version)
    return ledger.open_run(run_start(definition, key, marker=marker, requester=requester), now=now)


def dags_with_run(run_id: str) -> list[str]:
    """The Dags that have a run of this id in Airflow."""
    with create_session(scoped=False) as session:
        return sorted(session.scalars(select(DagRun.dag_id).where(DagRun.run_id == run_id)))


def definition_to_come(key: RunKey, *, bundle_version: str | None) -> Definition:
    """
    The definition that the first step of the run will begin with.

    :param bundle_version: the version that the run stays with; None where it stays with none.
    :raises LedgerError: where it cannot be known here, or the Dag is none of Louver's.
    """
    if bundle_version is None:
        return definition_in_dag(key.dag_id)
    definition = read_deployed(key, DBDagBag())
    if definition is None:
        # The file of today may say something else, and the run would then not begin.
        raise LedgerError(
            f"run {key.run_id} of {key.dag_id} stays with version {bundle_version} of its bundle, and what "
            "Airflow keeps of that version has no definition of Louver's: wait for its first step to start"
        )
    return definition


def definition_in_dag(dag_id: str) -> Definition:
    """
    The definition that the Dag's file gives now; what Airflow keeps of it, where the file is not here.

    :raises LedgerError: where the file does not parse, or where it is no Louver Dag.
    """
    # The operators' module loads the SDK's task side, which most commands do without.
    from louver_provider.operators.base import LouverOperator
    from louver_provider.plain_dags import steps_of, workflow_of

    try:
        dag = get_dag_by_file_location(dag_id)
    except KeyError:
        return _without_file(dag_id)
    for task in dag.tasks:
        if isinstance(task, LouverOperator):
            return task.workflow.definition
    if steps_of(dag):
        return workflow_of(dag).definition
    raise LedgerError(f"{dag_id!r} is no Louver Dag")


def _without_file(dag_id: str) -> Definition:
    model = DagModel.get_current(dag_id)
    place = model.fileloc if model is not None else None
    if not place or Path(place).exists():
        raise LedgerError(
            f"Dag {dag_id!r} is known, but its file does not parse now; see airflow dags list-import-errors"
        )
    definition = deployed_definition(dag_id)
    if definition is None:
        raise LedgerError(
            f"{dag_id!r} is no Louver Dag, as far as can be told here: its file {place} is not on this "
            "machine. Run the command where the Dag files are, or wait for the run's first step to start"
        )
    return definition
