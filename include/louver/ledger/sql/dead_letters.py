"""The query for dead letters; its index holds the transitions by which tasks failed for good, no others."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, literal, literal_column, or_, select, tuple_

from louver.ledger.dead_letter_contract import BY_PEOPLE, DEAD, DeadLetter, DeadLetterFilter
from louver.ledger.records import RunRecord, TaskRecord, TransitionRecord
from louver.ledger.sql.pages import SqlPages
from louver.ledger.sql.tables import TABLES
from louver.ledger.storable import FIELDS, require_storable
from louver.states import FailureKind, TaskState

__all__ = ["SqlDeadLetters", "dead_letters"]

_ORDER = ("at", *TransitionRecord.PRIMARY)

# As literals: SQLite takes the index only where its condition stands in the query, word for word.
_DEAD: list[ColumnElement[str]] = [literal_column(f"'{state.value}'") for state in DEAD]

_END, _TASK, _RUN = (TABLES[kind] for kind in (TransitionRecord, TaskRecord, RunRecord))
_NEWER = _END.alias("newer")


class SqlDeadLetters(SqlPages):
    """The part of :class:`~louver.ledger.rows.Rows` that looks for dead letters."""

    def dead_letters(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters that meet the filter, the newest first; not locked."""
        for name in ("dag_id", "run_id"):
            require_storable(name, getattr(wanted, name))
        ends, tasks = FIELDS[TransitionRecord], FIELDS[TaskRecord]
        return [
            DeadLetter(
                end=TransitionRecord(**dict(zip(ends, row, strict=False))),
                task=TaskRecord(**dict(zip(tasks, row[len(ends) :], strict=False))),
                retried=not row[-1],
            )
            for row in self._connection.execute(dead_letters(wanted))
        ]


def dead_letters(wanted: DeadLetterFilter) -> Select[Any]:
    """The query for a page of them: the transition's columns, the task's, and whether it stands."""
    end, task, run = _END.c, _TASK.c, _RUN.c
    stands = and_(
        task.state == end.to_state, task.generation == end.generation, task.incarnation == run.incarnation
    )
    place = ("dag_id", "run_id", "task_id", "map_index")
    query = (
        select(
            *(end[name] for name in FIELDS[TransitionRecord]),
            *(task[name] for name in FIELDS[TaskRecord]),
            stands.label("stands"),
        )
        .join_from(_END, _TASK, and_(*(end[name] == task[name] for name in place)))
        .join(_RUN, and_(end.dag_id == run.dag_id, end.run_id == run.run_id))
        .where(
            end.to_state.in_(_DEAD),
            end.from_state != end.to_state,
            end.trigger.not_in(BY_PEOPLE),
            end.task_id.not_in(wanted.leave_out),
            ~_ended_again(),
        )
    )
    if not wanted.retried:
        query = query.where(stands)
    if wanted.dag_id is not None:
        # An expression where no run is named: SQLite would go through all transitions of the Dag instead.
        dag_id = end.dag_id if wanted.run_id is not None else end.dag_id.concat("")
        query = query.where(dag_id == wanted.dag_id)
    if wanted.run_id is not None:
        query = query.where(end.run_id == wanted.run_id)
    if wanted.since is not None:
        query = query.where(end.at >= wanted.since)
    if wanted.kinds:
        told = and_(~stands, or_(*map(_told_by_reason, wanted.kinds)))
        query = query.where(or_(and_(stands, task.failure_kind.in_(wanted.kinds)), told))
    order = [end[name] for name in _ORDER]
    if wanted.after is not None:
        # Each value as its column writes it: SQLite would compare another spelling of the time as text.
        last = (literal(getattr(wanted.after.end, column.name), type_=column.type) for column in order)
        query = query.where(tuple_(*order) < tuple_(*last))
    return query.order_by(*(column.desc() for column in order)).limit(wanted.limit)


def _ended_again() -> ColumnElement[bool]:
    """Whether the task came to such an end later, in the same generation: that one counts."""
    end, newer = _END.c, _NEWER.c
    same = ("dag_id", "run_id", "task_id", "map_index", "generation")
    then, now = ([columns[name] for name in ("at", "chain", "version")] for columns in (newer, end))
    return exists().where(
        *(newer[name] == end[name] for name in same),
        newer.to_state.in_(DEAD),
        newer.from_state != newer.to_state,
        tuple_(*then) > tuple_(*now),
    )


def _told_by_reason(kind: FailureKind) -> ColumnElement[bool]:
    """See :attr:`DeadLetter.kind`."""
    if kind is FailureKind.LOST:
        return _END.c.to_state == TaskState.LOST
    said = _END.c.reason.startswith(f"{kind.value}:", autoescape=True)
    return and_(said, _END.c.to_state != TaskState.LOST)
