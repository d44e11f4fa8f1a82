"""Starting the run of an event that was taken in."""

from __future__ import annotations

from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagRunAlreadyExists
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy.exc import IntegrityError

__all__ = ["trigger_once"]


def trigger_once(
    dag_id: str, run_id: str, conf: dict[str, Any], *, by: str | None, through: DagRunTriggeredByType
) -> bool:
    """
    Make the run.

    :param by: who starts it.
    :returns: False where it exists already.
    :raises airflow.exceptions.DagNotFound: where there is no such Dag.
    :raises ValueError: where the Dag does not take runs that people start.
    """
    try:
        trigger_dag(dag_id=dag_id, run_id=run_id, conf=conf, triggered_by=through, triggering_user_name=by)
    except (DagRunAlreadyExists, IntegrityError):
        return False
    return True
