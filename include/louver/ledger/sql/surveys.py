"""Rows of many runs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeVar

from sqlalchemy import and_, false, or_, select

from louver.ledger.names import RunKey
from louver.ledger.records import Record
from louver.ledger.sql.pages import SqlPages
from louver.ledger.sql.tables import TABLES
from louver.ledger.storable import FIELDS, require_fields, require_storable
from louver.states import RunState

__all__ = ["SqlSurveys"]

T = TypeVar("T", bound=Record)

_OVER = tuple(state for state in RunState if state.terminal)


class SqlSurveys(SqlPages):
    """The part of :class:`~louver.ledger.rows.Rows` that looks at many runs."""

    def of_runs(self, kind: type[T], runs: Iterable[RunKey], /, **equal: Any) -> list[T]:
        """Rows of these runs with these field values, in order of their primary key; not locked."""
        columns = TABLES[kind].c
        require_fields(kind, equal)
        by_dag: dict[str, list[str]] = defaultdict(list)
        for run in runs:
            by_dag[run.dag_id].append(run.run_id)
        # Not as pairs: SQLite would read the whole table for a list of pairs.
        of_these = [and_(columns.dag_id == dag, columns.run_id.in_(ids)) for dag, ids in by_dag.items()]
        query = select(*(columns[name] for name in FIELDS[kind])).where(or_(false(), *of_these))
        for name, value in equal.items():
            require_storable(name, value)
            query = query.where(columns[name].is_(None) if value is None else columns[name] == value)
        names = FIELDS[kind]
        rows = self._connection.execute(query.order_by(*(columns[name] for name in kind.PRIMARY)))
        return [kind(**dict(zip(names, row, strict=True))) for row in rows]
