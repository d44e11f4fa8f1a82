"""
Having Airflow run steps again that used up their retries, with all that comes after them.

What is cleared is what a person would clear in the UI: the steps, everything downstream of them as Airflow's
Dag has it, and with it the tasks that close the run. A run that was compensated has nothing left to build on:
steps whose effects are undone have to act again, too (case E08), whether they are upstream or beside: a run
must not end as succeeded while something that it did is undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from louver.clock import SystemClock
from louver.closing import COMPENSATE, OUTCOME, overview
from louver.errors import LedgerError, UpstreamUndone
from louver.ledger.contract import Ledger
from louver.ledger.dead_letter_contract import DeadLetter
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, EffectState, RunKey, TaskKey
from louver.ledger.records import RunRecord
from louver.sessions import Change
from louver.states import TaskState
from louver_provider.marks import Deed, carry_in, is_same_run
from louver_provider.operators.names import WITH_STATES
from louver_provider.own_acts import note_clear
from louver_provider.reconciler.sights import read_undoing

__all__ = ["Again", "Why", "retry_dead"]

_ASKED = "dead retry"

_BEFORE_WORK = (None, TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED)

Place = tuple[str, int]
"""Task id and map index."""


class Why(str, Enum):
    """Why a task is to run again."""

    DEAD = "dead"
    UNDONE = "its effects are undone"
    AFTER = "comes after"
    CLOSING = "closes the run"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A task that is to run again."""

    task: TaskKey
    why: Why


def retry_dead(
    ledger: Ledger, run: RunRecord, dead: Iterable[DeadLetter], *, word: Word, upstream: bool, clear: bool
) -> list[Again]:
    """
    Clear dead steps of one run.

    :param dead: of this run, as the ledger holds them now.
    :param word: who wants it and why; it stands in Airflow's audit log and in the ledger's trail.
    :param upstream: clear those whose effects are undone, too.
    :param clear: do it; otherwise only say what would be cleared.
    :returns: what was cleared, in Airflow's order of tasks.
    :raises UpstreamUndone: where effects are undone of steps that would not be cleared; it names them.
    :raises LedgerError: where Airflow does not have the run any more, or works on it, or an effect of it
        waits for a person.
    """
    wanted = {(letter.end.task_id, letter.end.map_index) for letter in dead}
    undone = _undone(ledger, run.key)
    if read_undoing(run.key).active:
        raise LedgerError(f"run {run.run_id} is being compensated; wait until that is over")
    with create_session(scoped=False) as session:
        dag_run = session.scalar(
            select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
        )
        if dag_run is None or not is_same_run(run.marker, dag_run.run_after):
            raise LedgerError(
                f"Airflow does not have run {run.run_id} of {run.dag_id} any more; nothing can run its steps "
                "again"
            )
        rows = _held(session, run.key)
        chosen = _chosen(session, dag_run, rows, wanted, undone, upstream=upstream)
        _check_idle(rows, chosen)
        again = [
            Again(task=TaskKey(run.dag_id, run.run_id, *place), why=chosen[place])
            for place in sorted(chosen, key=lambda place: _in_order(chosen[place], place))
        ]
        if not clear:
            session.rollback()
            return again
        now = SystemClock().now()
        for one in again:
            note_clear(
                session, one.task, asked=_ASKED, actor=word.actor, source=word.source, reason=word.reason
            )
        clear_task_instances([rows[place] for place in chosen], session, DagRunState.QUEUED)
        change = Change(
            to=TaskState.PENDING,
            trigger="user:cleared",
            actor=word.actor,
            reason=f"{_ASKED}: {word.reason}" if word.reason else _ASKED,
            at=now,
        )
        deeds = [
            Deed(
                task=one.task,
                change=change,
                run_after=dag_run.run_after,
                max_tries=rows[one.task.task_id, one.task.map_index].max_tries,
            )
            for one in again
            if rows[one.task.task_id, one.task.map_index].operator in WITH_STATES
        ]
    # Once Airflow has it. Should this process end here, the tasks' next processes find the clear themselves.
    carry_in(ledger, deeds, source=word.source)
    _reopen(ledger, run.key)
    return again


def _undone(ledger: Ledger, run: RunKey) -> set[Place]:
    """The tasks of which an effect of their present generation is undone."""
    generations = {(task.task_id, task.map_index): task.generation for task in ledger.list_tasks(run)}
    effects = [effect for effect in ledger.list_effects(run) if effect.kind is EffectKind.FORWARD]
    for effect in effects:
        if effect.state is EffectState.UNDO_FAILED:
            raise LedgerError(
                f"effect {effect.reference} of {effect.task_id} could not be undone and waits for a person; "
                "first settle it: airflow louver compensations retry, or resolve"
            )
    return {
        (effect.task_id, effect.map_index)
        for effect in effects
        if effect.state is EffectState.UNDONE
        and generations.get((effect.task_id, effect.map_index)) == effect.generation
    }


def _held(session: Session, run: RunKey) -> dict[Place, TaskInstance]:
    """The rows of the run's tasks, which nobody else can change until the transaction ends."""
    of_run = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    # Written as they are: SQLite has no locks on rows, and gives the right to write to one at a time.
    session.execute(
        update(TaskInstance)
        .where(*of_run)
        .values(updated_at=TaskInstance.updated_at)
        .execution_options(synchronize_session=False)
    )
    found = session.scalars(select(TaskInstance).where(*of_run).with_for_update(of=TaskInstance))
    return {(ti.task_id, ti.map_index): ti for ti in found}


def _chosen(
    session: Session,
    dag_run: DagRun,
    rows: Mapping[Place, TaskInstance],
    wanted: Collection[Place],
    undone: Collection[Place],
    *,
    upstream: bool,
) -> dict[Place, Why]:
    dag = DBDagBag(load_op_links=False).get_dag_for_run(dag_run=dag_run, session=session)
    first = dict.fromkeys(sorted(wanted), Why.DEAD)
    while True:
        _check_there(dag, dag_run, rows, first)
        below: set[str] = set()
        for task_id, _ in first:
            below |= dag.get_task(task_id).get_flat_relative_ids(upstream=False)
        after = {place: _why_after(place) for place in rows if place[0] in below and not _gone(rows[place])}
        chosen = after | first
        standing = sorted(set(undone) - set(chosen))
        if not standing:
            return chosen
        if not upstream:
            names = ", ".join(_shown(place) for place in standing)
            raise UpstreamUndone(
                f"run {dag_run.run_id} was compensated, and what {names} did is undone; a retry has nothing "
                "to build on. With --upstream these are cleared too, so that they act again"
            )
        first |= dict.fromkeys(standing, Why.UNDONE)


def _check_there(
    dag: Any, dag_run: DagRun, rows: Mapping[Place, TaskInstance], places: Iterable[Place]
) -> None:
    for place in places:
        if dag is None or not dag.has_task(place[0]) or place not in rows:
            raise LedgerError(
                f"Airflow does not have {_shown(place)} of run {dag_run.run_id} any more; it cannot run again"
            )


def _check_idle(rows: Mapping[Place, TaskInstance], chosen: Mapping[Place, Why]) -> None:
    """
    That Airflow does nothing about these tasks.

    :raises LedgerError: naming the first one that is not over, and was not merely waiting for its turn.
    """
    for place, why in chosen.items():
        state = rows[place].state
        if why is Why.DEAD and state not in State.failed_states:
            works = state not in State.finished
            raise LedgerError(
                f"Airflow {'works on' if works else 'holds'} {_shown(place)} "
                f"{'already: it is' if works else 'for'} {state or 'to be scheduled'}"
                f"{'' if works else '; clear it there'}"
            )
        if state in State.finished or state in _BEFORE_WORK:
            continue
        if place[0] == COMPENSATE:
            raise LedgerError(
                f"{COMPENSATE} is {state}: what can be undone is being undone; wait for its end"
            )
        raise LedgerError(f"{_shown(place)}, which comes after, is {state}; wait for its end, or stop it")


def _gone(ti: TaskInstance) -> bool:
    """Whether it is left over: of a longer list, or of another version of the Dag."""
    return bool(ti.state == TaskInstanceState.REMOVED)


def _why_after(place: Place) -> Why:
    return Why.CLOSING if place[0] in (COMPENSATE, OUTCOME) else Why.AFTER


def _in_order(why: Why, place: Place) -> tuple[int, Place]:
    return list(Why).index(why), place


def _shown(place: Place) -> str:
    task_id, map_index = place
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def _reopen(ledger: Ledger, run: RunKey) -> None:
    """The stored state of a run that goes on: the reconciler would write the same."""
    record, seen = ledger.get_run(run), overview(run, ledger)
    if record is not None and record.state.terminal and not seen.state.terminal:
        ledger.set_run_state(run, seen.state, reason=None, now=SystemClock().now())
