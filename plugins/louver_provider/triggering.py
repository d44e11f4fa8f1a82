"""Starting the run of an event that was taken in."""

from __future__ import annotations

import re
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf as settings
from airflow.exceptions import DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import exists, select
from sqlalchemy.exc import IntegrityError

from louver.errors import ConfigurationError

__all__ = ["run_is_there", "trigger_once", "why_not_started"]


def trigger_once(
    dag_id: str, run_id: str, conf: dict[str, Any], *, by: str | None, through: DagRunTriggeredByType
) -> bool:
    """
    Make the run.

    :param by: who starts it.
    :returns: False where it exists already.
    :raises airflow.exceptions.DagNotFound: where there is no such Dag.
    :raises ConfigurationError: where Airflow is set up so that it does not start it.
    """
    try:
        trigger_dag(dag_id=dag_id, run_id=run_id, conf=conf, triggered_by=through, triggering_user_name=by)
    except DagRunAlreadyExists:
        return False
    except IntegrityError:
        # Somebody else has made it meanwhile; where there is none, it was refused for another reason.
        if not run_is_there(dag_id, run_id):
            raise
        return False
    except ValueError as refused:
        why = why_not_started(dag_id, run_id, refused)
        raise ConfigurationError(f"Airflow does not start run {run_id} of {dag_id}: {why}") from refused
    return True


def run_is_there(dag_id: str, run_id: str) -> bool:
    """Whether Airflow has such a run."""
    known = exists().where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    with create_session(scoped=False) as session:
        return bool(session.scalar(select(known)))


def why_not_started(dag_id: str, run_id: str, refused: ValueError) -> str:
    """
    What keeps Airflow from starting a run whose id Louver has made, and the way out.

    :param refused: what Airflow raised.
    """
    pattern = settings.get("scheduler", "allowed_run_id_pattern").strip()
    if not pattern or not re.match(pattern, run_id):
        return (
            f"[scheduler] allowed_run_id_pattern, which is {pattern!r}, does not admit {run_id!r}; "
            "let it admit ids that begin with evt- and undo-"
        )
    dag = DagModel.get_current(dag_id)
    kinds = dag.allowed_run_types if dag is not None else None
    if kinds is not None and DagRunType.MANUAL not in kinds:
        return (
            f"the Dag's allowed_run_types, which are {', '.join(map(str, kinds)) or 'none'}, exclude manual "
            f"runs, of which {run_id!r} would be one; add manual to them"
        )
    return f"{type(refused).__name__}: {refused}".splitlines()[0]
