"""
Dags that Louver needs itself. A file in the Dags folder has to call the factories: a package cannot put a Dag
anywhere, and people decide what runs on their Airflow::

    # airflow Dag
    from louver_provider.dags import compensation_dag

    louver_compensate = compensation_dag()
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from louver_provider.operators.rescue import RescueOperator
from louver_provider.reconciler.rescue import RESCUE_DAG

__all__ = ["compensation_dag"]

_DOC = """
Compensates a run that Airflow ended from outside, so that its own closing tasks did not run: its Dag run was
deleted or ran into a time-out, its tasks were removed or marked. The reconciler starts it, once for each such
run. Clear its task to try again what could not be undone.
"""


def compensation_dag(**dag_arguments: Any) -> DAG:
    """
    The Dag that the reconciler starts to compensate a run from outside (semantics section 4).

    It has to find the functions that undo effects by import, as the run's own tasks do.

    :param dag_arguments: handed on to :class:`~airflow.sdk.DAG`, as ``tags`` or ``max_active_runs``.
    """
    settings = {
        "schedule": None,
        "catchup": False,
        "tags": ["louver"],
        # It is there for accidents: whoever unpauses Dags by hand would not know it in time.
        "is_paused_upon_creation": False,
        "description": "Undoes what a run did that was ended from outside.",
        "doc_md": _DOC,
        **dag_arguments,
    }
    with DAG(dag_id=RESCUE_DAG, **settings) as dag:
        RescueOperator()
    return dag
