"""The Dags that Airflow knows, as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from sqlalchemy import select

__all__ = ["known_dags"]

_PAGE = 50


def known_dags() -> Iterator[Any]:
    """All whose file is still there, in their newest versions; Airflow keeps those that are gone, too."""
    with create_session(scoped=False) as session:
        names = iter(session.scalars(select(DagModel.dag_id).where(DagModel.is_stale.is_(False))).all())
        # By pages: a serialized Dag may be large.
        while page := list(islice(names, _PAGE)):
            for row in SerializedDagModel.get_latest_serialized_dags(dag_ids=page, session=session):
                yield row.dag
            session.expunge_all()
