"""The workflows that Airflow knows, read from its serialized Dags: no Dag file is imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from louver.closing import OUTCOME
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import DefinitionError

__all__ = ["DeployedWorkflow", "deployed_definition", "deployed_workflows"]

_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedWorkflow:
    """
    A Louver Dag in its newest version.

    :param paused: whether Airflow has paused the Dag.
    """

    definition: Definition
    paused: bool

    @property
    def dag_id(self) -> str:
        """The Dag, which is named after its definition."""
        return self.definition.name


def deployed_workflows() -> Iterator[DeployedWorkflow]:
    """All of them whose file is still there, in order of their names."""
    with create_session(scoped=False) as session:
        known = session.execute(
            select(DagModel.dag_id, DagModel.is_paused)
            .where(DagModel.is_stale.is_(False))
            .order_by(DagModel.dag_id)
        )
        paused = {dag_id: bool(is_paused) for dag_id, is_paused in known}
        names = iter(paused)
        # By pages: a serialized Dag may be large.
        while page := list(islice(names, _PAGE)):
            rows = SerializedDagModel.get_latest_serialized_dags(dag_ids=page, session=session)
            for row in sorted(rows, key=lambda row: row.dag_id):
                definition = _definition_in(row.data, row.dag_id)
                if definition is not None:
                    yield DeployedWorkflow(definition=definition, paused=paused[row.dag_id])
            session.expunge_all()


def deployed_definition(dag_id: str) -> Definition | None:
    """The definition of one Dag in its newest version; None where it is none of Louver's."""
    with create_session(scoped=False) as session:
        found = SerializedDagModel.get(dag_id, session=session)
        return _definition_in(found.data if found is not None else None, dag_id)


def _definition_in(data: Any, dag_id: str) -> Definition | None:
    """What the closing task keeps as its docs; None where the Dag is none of Louver's."""
    for task in _tasks_in(data):
        if task.get("task_id") == OUTCOME and task.get("doc_json"):
            try:
                definition = read_definition_form(json.loads(task["doc_json"]))
            except (TypeError, ValueError, DefinitionError):
                # A task of somebody else's that has this name.
                return None
            return definition if definition.name == dag_id else None
    return None


def _tasks_in(data: Any) -> Iterator[Mapping[str, Any]]:
    tasks = data.get("dag", {}).get("tasks", ()) if isinstance(data, Mapping) else ()
    for task in tasks:
        # Wrapped in its type, as Airflow serializes what is no plain value.
        inner = task.get("__var", task) if isinstance(task, Mapping) else None
        if isinstance(inner, Mapping):
            yield inner
