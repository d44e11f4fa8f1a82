"""
Carrying repairs out: each under the condition that what was seen is still so.

What became of it is said once, in the log and in the audit trail: a repair that has come about is not decided
again.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import singledispatchmethod

from airflow.exceptions import AirflowException
from airflow.models.dagbag import DBDagBag
from sqlalchemy.exc import DBAPIError

from louver.cascade import cancel
from louver.clock import Clock
from louver.closing import close_run
from louver.errors import IllegalTransition, LedgerUnavailable, LouverError, Superseded, describe
from louver.ledger.contract import Ledger
from louver.ledger.names import Token, Verb
from louver.ledger.records import CommandRecord
from louver.ledger.requests import RunStart
from louver.repairs import (
    CancelTask,
    CloseCommand,
    CloseRun,
    Compensate,
    Deliver,
    EndOnPlatform,
    Expire,
    Mark,
    PassAnswerOn,
    Repair,
    SetRunState,
    WakeExpired,
)
from louver.states import Source
from louver_provider.delivery import wake
from louver_provider.reconciler.acts import NOT_DONE, end_task, start_rescue, wake_expired
from louver_provider.reconciler.pools import MakePool, make_pool

__all__ = ["Carrying", "in_words", "name_of", "place_of"]

log = logging.getLogger(__name__)

_CLAIM = timedelta(seconds=60)


def name_of(repair: Repair | MakePool) -> str:
    """What kind of repair it is, in a stable word."""
    return _NAMES[type(repair)]


_NAMES = {
    Mark: "mark",
    EndOnPlatform: "end",
    CloseCommand: "close_command",
    Deliver: "deliver",
    PassAnswerOn: "pass_answer_on",
    CancelTask: "cancel",
    Expire: "expire",
    WakeExpired: "wake",
    SetRunState: "set_run_state",
    CloseRun: "close_run",
    Compensate: "compensate",
    MakePool: "make_pool",
}


def place_of(repair: Repair | MakePool) -> tuple[str | None, str | None, str | None, int]:
    """Dag, run, task and map index that it is about; no task where it is about a run, and none of a pool."""
    if isinstance(repair, MakePool):
        return None, None, None, -1
    if isinstance(repair, SetRunState | CloseRun):
        return repair.run.dag_id, repair.run.run_id, None, -1
    if isinstance(repair, Compensate):
        return repair.run.dag_id, repair.run.run_id, None, -1
    task = repair.task
    return task.dag_id, task.run_id, task.task_id, task.map_index


def in_words(repair: Repair | MakePool) -> str:
    """Its place, for people."""
    if isinstance(repair, MakePool):
        return repair.pool
    dag_id, run_id, task_id, map_index = place_of(repair)
    index = f"[{map_index}]" if map_index >= 0 else ""
    return "/".join(part for part in (dag_id, run_id, task_id) if part is not None) + index


class Carrying:
    """
    Carries repairs out, in a ledger and in this Airflow.

    :param process: names this process, for what it has to claim.
    :param deployed: tells which callbacks tasks have.
    """

    def __init__(self, *, ledger: Ledger, clock: Clock, process: str, deployed: DBDagBag) -> None:
        self._ledger = ledger
        self._clock = clock
        self._process = process
        self._deployed = deployed

    def __call__(self, repair: Repair | MakePool, start: RunStart | None) -> str | None:
        """
        Carry it out.

        :param start: of a run that the ledger does not know yet.
        :returns: why it did not come about; None where it did.
        :raises LedgerUnavailable: where the ledger cannot be reached: nothing else can be done then, either.
        """
        try:
            if start is not None:
                self._ledger.open_run(start, now=self._clock.now())
            why_not = self._do(repair)
        except LedgerUnavailable:
            raise
        except (LouverError, AirflowException) as error:
            why_not = describe(error)
        except (TypeError, ValueError, LookupError) as error:
            # Somebody filled a row with what no ledger writes; it must not keep others from being repaired.
            why_not = f"its rows cannot be read: {type(error).__name__}"
        except DBAPIError as error:
            # SQLite may not have given the lock for writing; then nothing of it was written.
            why_not = f"Airflow's database did not take it: {type(error.orig).__name__}"
        if why_not is None:
            _tell(repair)
        return why_not

    @singledispatchmethod
    def _do(self, repair: Repair | MakePool) -> str | None:
        raise TypeError(f"{type(repair).__name__} is no repair")

    @_do.register
    def _cancel(self, repair: CancelTask) -> str | None:
        done = cancel(repair, self._ledger, source=Source.RECONCILER, now=self._clock.now())
        return None if done else NOT_DONE

    @_do.register
    def _mark(self, repair: Mark) -> str | None:
        record = self._ledger.get_task(repair.task)
        if record != repair.seen:
            return NOT_DONE
        session = 0 if record is None else record.session
        try:
            for number, change in enumerate(repair.changes):
                row = self._ledger.mark(
                    repair.task,
                    change,
                    session=session + number,
                    source=Source.RECONCILER,
                    max_tries=repair.max_tries,
                    now=self._clock.now(),
                )
                if row is None:
                    return NOT_DONE
        except IllegalTransition:
            return NOT_DONE
        return None

    @_do.register
    def _end(self, repair: EndOnPlatform) -> str | None:
        return end_task(repair, self._deployed)

    @_do.register
    def _close_command(self, repair: CloseCommand) -> str | None:
        now = self._clock.now()
        if repair.carried_out:
            return self._complete(repair.command, repair.why)
        closed = self._ledger.refuse_command(repair.command, outcome=repair.why, now=now)
        return NOT_DONE if closed is None else None

    def _complete(self, command: CommandRecord, outcome: str) -> str | None:
        """The task was fenced when it was marked, so that nobody else can claim what it was asked for."""
        now = self._clock.now()
        record, run = self._ledger.get_task(command.task), self._ledger.get_run(command.task.run)
        if record is None or run is None:
            return NOT_DONE
        token = Token(
            key=command.task,
            incarnation=run.incarnation,
            generation=record.generation,
            attempt=record.attempt,
            try_number=record.try_number,
            session=record.session,
            process=self._process,
            source=Source.RECONCILER,
        )
        try:
            claimed = self._ledger.claim_commands(token, lease_until=now + _CLAIM, now=now)
        except Superseded:
            return NOT_DONE
        mine = {known.command_id: known for known in claimed}
        found = mine.pop(command.command_id, None)
        for other in mine.values():
            self._ledger.release_command(other, now=now)
        if found is None or self._ledger.complete_command(found, outcome=outcome, now=now) is None:
            return NOT_DONE
        return None

    @_do.register
    def _deliver(self, repair: Deliver) -> str | None:
        command = repair.command
        now = self._clock.now()
        delivery = wake(command.task, command.verb, by=command.actor, source=Source.RECONCILER, now=now)
        return None if delivery.woken else delivery.why

    @_do.register
    def _pass_answer_on(self, repair: PassAnswerOn) -> str | None:
        # What was answered already is passed on as it is, whatever the verb.
        now = self._clock.now()
        delivery = wake(repair.task, Verb.RESUME, by=None, source=Source.RECONCILER, now=now)
        return None if delivery.woken else delivery.why

    @_do.register
    def _expire(self, repair: Expire) -> str | None:
        self._ledger.expire_approval(repair.request_id, now=self._clock.now())
        return None

    @_do.register
    def _wake_expired(self, repair: WakeExpired) -> str | None:
        return wake_expired(repair.task, now=self._clock.now())

    @_do.register
    def _set_run_state(self, repair: SetRunState) -> str | None:
        self._ledger.set_run_state(repair.run, repair.state, reason=None, now=self._clock.now())
        return None

    @_do.register
    def _close_run(self, repair: CloseRun) -> str | None:
        close_run(repair.run, self._ledger, now=self._clock.now())
        return None

    @_do.register
    def _compensate(self, repair: Compensate) -> str | None:
        return start_rescue(repair)

    @_do.register
    def _make_pool(self, repair: MakePool) -> str | None:
        return None if make_pool(repair) else NOT_DONE


def _tell(repair: Repair | MakePool) -> None:
    what = in_words(repair)
    if isinstance(repair, Mark):
        what += f" {' -> '.join(str(change.to) for change in repair.changes)}"
    elif isinstance(repair, SetRunState | CloseRun):
        what += f" {repair.state}"
    # What a run is doing changes all the time; what had to be repaired does not.
    level = logging.DEBUG if isinstance(repair, SetRunState) else logging.WARNING
    log.log(level, "louver [reconcile.%s] %s: %s", name_of(repair), what, repair.why)
