"""
The reconciler's part in permits: what dead processes hold, turns that nobody took, tasks that nobody wakes.

A triggerer wakes the tasks that wait; where none runs, or it is late, the reconciler does. Then a turn takes
as long as its rounds are apart, instead of a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger, handle_event_submit
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select, update

from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.ledger.permit_contract import Settled
from louver.ledger.records import PermitRecord, TaskRecord
from louver.permit_repairs import decide_permits
from louver.permits import PermitSettings
from louver_provider.parks import place_of

__all__ = ["TRIGGER", "PermitKeeper"]

log = logging.getLogger(__name__)

TRIGGER = "louver_provider.triggers.permits.PermitTrigger"
"""What those who wait for a resource are deferred by, as Airflow's table has it."""

_PAGE = 200
_TRIGGERERS_FIRST = timedelta(seconds=10)
"""For so long a task that has just been deferred is left to the triggerer."""


class PermitKeeper:
    """
    Looks after the permits of one ledger and this Airflow.

    :param proves_dead: whether it is certain that a process acts no more.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: PermitSettings,
        *,
        proves_dead: Callable[[str], bool],
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._proves_dead = proves_dead

    def keep(self, *, now: datetime) -> None:
        """
        Free what nobody gives back, grant what is free, wake whom nobody has woken.

        :raises LedgerUnavailable: where the ledger cannot be reached.
        """
        self._settle(now)
        permits = self._ledger.list_permits()
        for free in decide_permits(permits, self._tasks(permits), proves_dead=self._proves_dead):
            permit = free.permit
            freed = self._ledger.release_permit(
                permit.task, session=permit.session, terms=self._settings.terms, now=now
            )
            if freed is not None:
                log.info("louver [permit.freed] %s: %s", permit.task, free.why)
        self._wake(now)

    def _settle(self, now: datetime) -> None:
        ledger, settings = self._ledger, self._settings
        known = {row.resource: row for row in ledger.list_resources()}
        news = any(
            name not in known or (known[name].set_by is None and known[name].limit != limit)
            for name, limit in settings.limits.items()
        )
        if news or ledger.plan_permits(now=now).changes:
            _tell(ledger.settle_permits(limits=settings.limits, terms=settings.terms, now=now))

    def _tasks(self, permits: Sequence[PermitRecord]) -> dict[TaskKey, TaskRecord]:
        runs = iter(sorted({permit.task.run for permit in permits}))
        found = {}
        while page := list(islice(runs, _PAGE)):
            found.update({task.key: task for task in self._ledger.survey(page).tasks})
        return found

    def _wake(self, now: datetime) -> None:
        for keys in _deferred(before=now - _TRIGGERERS_FIRST):
            for watch in self._ledger.list_permit_watches(keys):
                if watch.wake and _resume(watch.task):
                    log.info("louver [permit.woken] %s: no triggerer has woken it", watch.task)


def _deferred(*, before: datetime) -> Iterator[list[TaskKey]]:
    """Tasks that have waited for a resource since then, in pages."""
    query = (
        select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
        .join(Trigger, Trigger.id == TaskInstance.trigger_id)
        .where(
            TaskInstance.state == TaskInstanceState.DEFERRED,
            TaskInstance.updated_at <= before,
            Trigger.classpath == TRIGGER,
        )
    )
    with create_session(scoped=False) as session:
        keys = iter([TaskKey(*row) for row in session.execute(query)])
    while page := list(islice(keys, _PAGE)):
        yield page


def _resume(key: TaskKey) -> bool:
    """Have Airflow run the task on, as an event of its trigger would; False where it has moved on."""
    with create_session(scoped=False) as session:
        held = session.execute(
            update(TaskInstance)
            .where(*place_of(key), TaskInstance.state == TaskInstanceState.DEFERRED)
            .values(updated_at=TaskInstance.updated_at)
            .execution_options(synchronize_session=False)
        )
        if held.rowcount != 1:
            return False
        ti = session.scalars(
            select(TaskInstance).where(*place_of(key)).with_for_update(of=TaskInstance)
        ).one()
        handle_event_submit(TriggerEvent({"louver": "woken"}), task_instance=ti, session=session)
    return True


def _tell(settled: Settled) -> None:
    for permit in settled.expired:
        log.info("louver [permit.expired] %s: %s until %s", permit.task, permit.stage, permit.until)
    for permit in settled.refused:
        log.info("louver [permit.refused] %s needs more than there can be", permit.task)
