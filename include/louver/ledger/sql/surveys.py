"""Rows of many runs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Text, and_, false, func, or_, select, type_coerce

from louver.ledger.names import EffectState, RunKey
from louver.ledger.records import EffectRecord, Record, RunRecord, TaskRecord
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

    def tally(self, kind: type[Record], name: str, /) -> Mapping[str, int]:
        """How many rows have each value of the field."""
        require_fields(kind, [name])
        # As the text that is stored, which may be none that a ledger writes.
        column = type_coerce(TABLES[kind].c[name], Text())
        found = self._connection.execute(select(column, func.count()).group_by(column))
        return {value: number for value, number in found}  # noqa: C416 - rows are no pairs to mypy

    def tally_runs(self, states: Collection[RunState] = ()) -> Mapping[tuple[str, str], int]:
        """How many runs each Dag has in each state; live ones have an index that is all this reads."""
        run = TABLES[RunRecord].c
        state = type_coerce(run.state, Text())
        query = select(run.dag_id, state, func.count()).group_by(run.dag_id, state)
        if states:
            query = query.where(run.state.in_(states))
        return {(dag_id, value): number for dag_id, value, number in self._connection.execute(query)}

    def tally_of_runs(
        self, kind: type[Record], name: str, /, *, states: Collection[RunState]
    ) -> Mapping[str, int]:
        """As :meth:`tally`, of runs in these states alone."""
        require_fields(kind, [name])
        run, row = TABLES[RunRecord], TABLES[kind]
        column = type_coerce(row.c[name], Text())
        same = [row.c.dag_id == run.c.dag_id, row.c.run_id == run.c.run_id]
        if kind is TaskRecord:
            # One of a run of this id that was deleted tells nothing of the run as it is now.
            same.append(row.c.incarnation == run.c.incarnation)
        query = select(column, func.count()).join_from(run, row, and_(*same)).group_by(column)
        found = self._connection.execute(query.where(run.c.state.in_(states)))
        return {value: number for value, number in found}  # noqa: C416 - rows are no pairs to mypy

    def effects_with_reason(self, states: Collection[EffectState]) -> list[EffectRecord]:
        """Effects in these states that have a reason, in order of their start; these have an index."""
        effect, names = TABLES[EffectRecord].c, FIELDS[EffectRecord]
        order = (effect.started_at, effect.scope, effect.key, effect.epoch)
        query = select(*(effect[name] for name in names))
        query = query.where(effect.reason.is_not(None), effect.state.in_(states)).order_by(*order)
        rows = self._connection.execute(query)
        return [EffectRecord(**dict(zip(names, row, strict=True))) for row in rows]
