"""
Where the key of a Dag's runs is, by the Dag's own word: a tag, as ``bucket-key:customer.id``.

The scheduler and the API server see of a Dag only what Airflow serialized of it, and the cluster policy may
read nothing more; a tag is there wherever the Dag is, and people see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from louver.buckets.keys import KeyRule
from louver.errors import ConfigurationError

__all__ = ["declared_by", "declared_for", "tag_of"]

_PREFIX = "bucket-key:"

_MOST = 100
"""Characters of a tag in Airflow."""


def tag_of(path: str) -> str:
    """
    The tag that declares a path.

    :raises ConfigurationError: where it is no path, or too long a one.
    """
    KeyRule.parse(path)
    tag = f"{_PREFIX}{path}"
    if len(tag) > _MOST:
        raise ConfigurationError(f"a tag takes {_MOST} characters, so a path {_MOST - len(_PREFIX)}")
    return tag


def declared_by(tags: Iterable[str] | None) -> KeyRule | None:
    """What tags say; None where they say nothing of it, or what is no path."""
    for tag in tags or ():
        if tag.startswith(_PREFIX):
            return _rule(tag.removeprefix(_PREFIX))
    return None


@lru_cache(maxsize=1024)
def _rule(path: str) -> KeyRule | None:
    try:
        return KeyRule.parse(path)
    except ConfigurationError:
        return None


def declared_for(dag_id: str) -> KeyRule | None:
    """The same, of a Dag whose tags have to be read; not for the cluster policy."""
    from airflow.models.dag import DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session(scoped=False) as session:
        return declared_by(
            session.scalars(
                select(DagTag.name).where(DagTag.dag_id == dag_id, DagTag.name.startswith(_PREFIX))
            ).all()
        )
