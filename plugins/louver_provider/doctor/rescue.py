"""Whether runs that Airflow ends from outside would be compensated: the Dag ``louver_compensate``."""

from __future__ import annotations

from collections.abc import Iterator

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from louver_provider.doctor.findings import Finding, some
from louver_provider.doctor.known_dags import known_dags
from louver_provider.operators.names import WITH_STATES
from louver_provider.reconciler.rescue import RESCUE_DAG

__all__ = ["check_rescue"]

_CHECK = "compensation"

_LOST = "what a run did that is deleted, marked or timed out is not undone, nor is it in Dags without close()"
_MEND = (
    "copy dags/louver_system.py to the Dags folder, or call louver_provider.dags.compensation_dag() in a "
    "file there"
)


def check_rescue() -> Iterator[Finding]:
    """Where Dags have Louver's steps, the Dag is there, parses, and is not paused (semantics section 4)."""
    with create_session(scoped=False) as session:
        found = session.scalar(
            select(DagModel).where(DagModel.dag_id == RESCUE_DAG, DagModel.is_stale.is_(False))
        )
        session.expunge_all()
    if found is not None and not found.is_paused and not found.has_import_errors:
        yield Finding.fine(_CHECK, f"{RESCUE_DAG} is there for runs that are ended from outside")
        return
    needing = _dags_with_steps()
    if not needing:
        yield Finding.fine(_CHECK, f"no Dag has steps of Louver's, so none needs {RESCUE_DAG}")
    elif found is None:
        what = f"there is no Dag {RESCUE_DAG}, and {some(needing)} may need it: {_LOST}"
        yield Finding.error(_CHECK, what, mend=_MEND)
    elif found.has_import_errors:
        yield Finding.error(
            _CHECK, f"{RESCUE_DAG} has import errors: {_LOST}", mend="airflow dags list-import-errors"
        )
    else:
        yield Finding.error(
            _CHECK, f"{RESCUE_DAG} is paused: {_LOST}", mend=f"airflow dags unpause {RESCUE_DAG}"
        )


def _dags_with_steps() -> set[str]:
    return {
        dag.dag_id
        for dag in known_dags()
        if dag.dag_id != RESCUE_DAG and any(task.task_type in WITH_STATES for task in dag.task_dict.values())
    }
