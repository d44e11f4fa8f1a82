"""
Waking a parked task from outside the API server: what a command is good for once nobody runs its task.

Airflow's own way is the answer under Required Actions, over REST. A command is an answer too, given by who
runs it; it is recorded in the same place and takes the same way on, in one transaction that begins by holding
the task instance. So it does not matter who comes first, or whether several come at once: one of them wakes
the task, and the others find it awake.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models.hitl import HITLDetail, HITLUser
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import handle_event_submit
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from louver.ledger.names import TaskKey, Verb
from louver.states import Source
from louver_provider.approval_form import REQUEST_ID
from louver_provider.own_acts import Answer, note_answer
from louver_provider.parks import guard, place_of, read_park
from louver_provider.pause_form import option_of
from louver_provider.turns import turn

__all__ = ["Delivery", "wake"]

log = logging.getLogger(__name__)

_AGAIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """
    What became of an attempt to wake a task.

    :param woken: Airflow runs it on now.
    :param why: it does not, in words.
    :param retry_after: seconds after which another attempt is worth while; None where it is not.
    """

    woken: bool
    why: str = ""
    retry_after: float | None = None


def wake(key: TaskKey, verb: Verb, *, by: str | None, source: Source, now: datetime) -> Delivery:
    """
    Wake the task where it is parked and the resume guard lets it through; otherwise nothing is done.

    An answer that Airflow has recorded, and then not acted upon, is passed on as it was given.

    :param verb: ``resume``, ``stop`` or ``cancel``; the command itself is what the woken task goes by.
    :param by: who wants it; Airflow shows that name as the one who answered.
    :param source: by what way it comes here; Airflow's audit log keeps it.
    """
    try:
        park = read_park(key)
        if park is None:
            return Delivery(woken=False, why="Airflow has no such task instance")
        refusal = guard(park, now=now)
        if refusal is not None:
            return Delivery(woken=False, why=refusal.detail, retry_after=refusal.retry_after)
        with turn() as mine, create_session(scoped=False) as session:
            if not mine:
                return Delivery(woken=False, why="others are being answered", retry_after=_AGAIN)
            return _answer(session, key, verb, parked_at=park.parked_at, by=by, source=source, now=now)
    except DBAPIError as error:
        # SQLite may not have given the lock for writing; then nothing of it was written.
        log.warning("louver: Airflow's database did not take an answer: %s", type(error.orig).__name__)
        return Delivery(woken=False, why="Airflow's database is busy", retry_after=_AGAIN)


def _answer(
    session: Session,
    key: TaskKey,
    verb: Verb,
    *,
    parked_at: datetime,
    by: str | None,
    source: Source,
    now: datetime,
) -> Delivery:
    # Written first, though nothing changes: a database without row locks gives its one lock for that. The
    # time tells this park from a later one, whose process may still be ending.
    held: Any = session.execute(
        update(TaskInstance)
        .where(
            *place_of(key),
            TaskInstance.state == TaskInstanceState.AWAITING_INPUT,
            TaskInstance.updated_at == parked_at,
        )
        .values(updated_at=parked_at)
        .execution_options(synchronize_session=False)
    )
    if held.rowcount != 1:
        return Delivery(woken=False, why="it has just moved on", retry_after=_AGAIN)
    # In Airflow's own order: the task instance, then what it asks.
    ti = session.scalars(select(TaskInstance).where(*place_of(key)).with_for_update(of=TaskInstance)).one()
    asked = session.scalar(select(HITLDetail).where(HITLDetail.ti_id == ti.id).with_for_update(of=HITLDetail))
    if asked is None:
        return Delivery(woken=False, why="it asks nothing")
    if asked.response_received:
        note_answer(session, key, Answer.PASSED_ON, verb=None, actor=by, source=source)
    else:
        option = option_of(verb, asked.options)
        if option is None:
            return Delivery(woken=False, why=f"it waits for another answer than a {verb}")
        asked.responded_by = None if by is None else HITLUser(id=by, name=by)
        asked.responded_at = now
        asked.chosen_options = [option]
        asked.params_input = _given(asked.params)
        note_answer(session, key, Answer.GIVEN, verb=verb, actor=by, source=source)
    handle_event_submit(TriggerEvent(asked.as_resume_event_payload()), task_instance=ti, session=session)
    return Delivery(woken=True)


def _given(params: Any) -> dict[str, Any]:
    """The id that ties the answer to what is asked, as the form would send it."""
    asked = (params or {}).get(REQUEST_ID) or {}
    return {REQUEST_ID: asked["value"]} if "value" in asked else {}
