"""Dags by the tags that Airflow shows them under."""

from __future__ import annotations

from collections.abc import Collection

from airflow.models.dag import DagTag
from airflow.utils.session import create_session
from sqlalchemy import func, select

__all__ = ["dags_with_tags"]


def dags_with_tags(tags: Collection[str]) -> frozenset[str]:
    """The Dags that have all of these tags, as they were last parsed."""
    wanted = set(tags)
    query = (
        select(DagTag.dag_id)
        .where(DagTag.name.in_(wanted))
        .group_by(DagTag.dag_id)
        .having(func.count(DagTag.name.distinct()) == len(wanted))
    )
    with create_session(scoped=False) as session:
        return frozenset(session.scalars(query))
