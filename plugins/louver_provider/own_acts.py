"""
What Louver itself does to Airflow's rows, written down in Airflow's audit log in the same transaction.

Airflow logs what people ask its API for, and what task processes report. What a command or the reconciler
changes by itself would stand there as nobody's doing; so each act leaves a row of its own, which says who
wanted it and why. :mod:`louver_provider.airflow_events` reads it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from airflow.models.log import Log
from sqlalchemy.orm import Session

from louver.ledger.names import TaskKey, Verb
from louver.platform_events import PlatformEvent
from louver.states import Source
from louver_provider.airflow_rows import LogRow

__all__ = [
    "ANSWERED",
    "BUCKET_KEY_REFUSED",
    "BUCKET_NOT_OWNED",
    "CLEARED",
    "EVENT_CONFLICT",
    "POOL_MADE",
    "RECONCILED",
    "Answer",
    "answer_told_by",
    "bucket_told_by",
    "note_answer",
    "note_clear",
    "note_event_conflict",
    "note_pool",
    "note_state",
    "source_of",
]

RECONCILED = "louver_reconciler"
"""The event under which the reconciler writes down what it has set a task to, and why."""

CLEARED = "louver_clear"
"""The event of a command that cleared a task."""

ANSWERED = "louver_answer"
"""The event of whoever woke a parked task from outside the API server."""


BUCKET_KEY_REFUSED = "louver_bucket_key_refused"
"""The run has a bucket key that cannot be used; its tasks keep their own pools."""

BUCKET_NOT_OWNED = "louver_bucket_not_owned"
"""Nobody owns the run's bucket; its tasks keep their own queues."""

EVENT_CONFLICT = "louver_event_conflict"
"""An event was refused: one of its source and id had started the run before, with another payload."""

POOL_MADE = "louver_pool_made"
"""The reconciler has made the pool of a bucket again; of no run."""


class Answer(str, Enum):
    """How a parked task was woken: by an answer, by one that Airflow had recorded already, or as too late."""

    GIVEN = "answered"
    PASSED_ON = "answer passed on"
    EXPIRED = "expired"

    def __str__(self) -> str:
        return self.value


def note_state(session: Session, task_instance: Any, *, state: str, reason: str) -> None:
    """The reconciler has set the task to that state, or will in this transaction."""
    extra = _text(source=Source.RECONCILER, state=state, reason=reason)
    session.add(Log(event=RECONCILED, task_instance=task_instance, extra=extra))


def note_clear(
    session: Session, key: TaskKey, *, asked: str, actor: str | None, source: Source, reason: str | None
) -> None:
    """
    Somebody clears the task by a command; to be called before it is done.

    :param asked: the command.
    """
    _note(session, CLEARED, key, actor, source=source, asked=asked, reason=reason)


def note_answer(
    session: Session, key: TaskKey, how: Answer, *, verb: Verb | None, actor: str | None, source: Source
) -> None:
    """
    The task is woken.

    :param actor: who wants it; None where it is nobody but the reconciler.
    """
    _note(session, ANSWERED, key, actor, source=source, how=how, verb=verb)


def note_event_conflict(session: Session, dag_id: str, run_id: str, *, actor: str) -> None:
    """An event is refused that has the identity of the run's, and another payload (case I05)."""
    session.add(Log(event=EVENT_CONFLICT, dag_id=dag_id, run_id=run_id, owner=actor))


def note_pool(session: Session, pool: str, *, slots: int, reason: str) -> None:
    """The reconciler makes the pool of a bucket in this transaction."""
    extra = json.dumps({"pool": pool, "slots": slots, "reason": reason})
    session.add(Log(event=POOL_MADE, owner="louver", extra=extra))


def source_of(extra: Mapping[str, Any]) -> Source:
    """By what way it was asked for."""
    return next((source for source in Source if source.value == extra.get("source")), Source.CLI)


def answer_told_by(row: LogRow) -> PlatformEvent:
    """What a row of :data:`ANSWERED` tells."""
    # Another version's word is an answer all the same.
    how = next((answer for answer in Answer if answer.value == row.extra.get("how")), Answer.GIVEN)
    return PlatformEvent(
        said=str(how),
        at=row.at,
        trigger=_TRIGGERS[how],
        actor=row.owner,
        source=str(source_of(row.extra)),
        reason=str(row.extra["verb"]) if row.extra.get("verb") else None,
        task_id=row.task_id,
        map_index=-1 if row.map_index is None else row.map_index,
    )


def bucket_told_by(row: LogRow) -> PlatformEvent | None:
    """What a row says that was written because a run could not go where its bucket key would send it."""
    if row.event == BUCKET_KEY_REFUSED:
        reason = f"{row.extra.get('reason')}; its tasks keep their own pools"
        return _of_run(row, said="bucket key refused", trigger="louver:bucket_key_refused", reason=reason)
    if row.event == BUCKET_NOT_OWNED:
        reason = f"nobody owns bucket {row.extra.get('bucket')}; its tasks keep their own queues"
        return _of_run(row, said="bucket not owned", trigger="louver:bucket_not_owned", reason=reason)
    return None


def _of_run(row: LogRow, *, said: str, trigger: str, reason: str) -> PlatformEvent:
    return PlatformEvent(said=said, at=row.at, trigger=trigger, reason=reason)


_TRIGGERS = {
    Answer.GIVEN: "user:answered",
    Answer.PASSED_ON: "louver:answer_passed_on",
    Answer.EXPIRED: "louver:expired",
}


def _note(session: Session, event: str, key: TaskKey, actor: str | None, **said: object) -> None:
    session.add(
        Log(
            event=event,
            dag_id=key.dag_id,
            run_id=key.run_id,
            task_id=key.task_id,
            map_index=key.map_index,
            owner=actor,
            extra=_text(**said),
        )
    )


def _text(**said: object) -> str:
    return json.dumps({name: str(value) for name, value in said.items() if value is not None})
