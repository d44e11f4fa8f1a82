"""
The process that holds a task, carrying out what people ask of it and keeping its limits (semantics 1 and 8).

What is wanted is found out by :meth:`Supervision.poll`, by a thread of the process where there is one and at
checkpoints otherwise; the code of the step meets it at :meth:`Supervision.checkpoint`, which costs next to
nothing while nobody wants anything. Only the holder claims commands, so a command is carried out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock, RLock
from typing import Any

from louver.clock import Clock
from louver.control import ENDING
from louver.errors import (
    IllegalTransition,
    LedgerError,
    LedgerUnavailable,
    Superseded,
    TaskCancelled,
    TimeoutReached,
)
from louver.intentions import judge_intentions
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.records import STATE, ApprovalRecord
from louver.ledger.requests import ApprovalRequest
from louver.limits import Limits, SignsOfLife
from louver.observations import Observations
from louver.ports import Parked, StepLog, tell_transition
from louver.sessions import Change
from louver.states import TaskState
from louver.taken_up import CLAIM, TakenUp, asked_change, pause_nonce
from louver.timeouts import Overrun, Timeouts

__all__ = ["ControlSettings", "Supervision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """
    How closely a task is supervised.

    :param control_interval: how often the ledger is asked what people want, at most.
    :param pause_window: how long a pause may take to be reached before it is rolled back.
    :param stop_grace: how long a stop may take to be reached before the process is ended.
    :param heartbeat_interval: how often the process says that it lives.
    """

    control_interval: timedelta = timedelta(seconds=1)
    pause_window: timedelta = timedelta(seconds=30)
    stop_grace: timedelta = timedelta(seconds=10)
    heartbeat_interval: timedelta = timedelta(seconds=5)


class Supervision:
    """
    Supervises one running task.

    :param token: by which this process holds it.
    :param timeouts: the limits of the step.
    :param ran_before: running time of this attempt in earlier sessions.
    :param on_overrun: what becomes of a task that passed a limit.
    :param takes_commands: people may pause and stop it.
    :param watched: a thread of this process polls; otherwise checkpoints do.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        token: Token,
        clock: Clock,
        log: StepLog,
        settings: ControlSettings,
        timeouts: Timeouts,
        ran_before: timedelta = timedelta(0),
        on_overrun: Callable[[Overrun], Change] | None = None,
        takes_commands: bool = True,
        watched: bool = False,
    ) -> None:
        self._on_overrun = on_overrun
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._log = log
        self._settings = settings
        self._takes_commands = takes_commands
        self._watched = watched
        self._lock = RLock()
        self.told = Observations(ledger=ledger, token=token, clock=clock, log=log)
        self._taken = TakenUp(
            ledger=ledger,
            token=token,
            clock=clock,
            log=log,
            told=self.told,
            pause_window=settings.pause_window,
        )
        self._limits = Limits(timeouts, ran_before=ran_before, now=clock.now())
        self._signs = SignsOfLife(
            ledger,
            token,
            clock,
            log=log,
            misses=self.told.misses,
            heartbeat_interval=settings.heartbeat_interval,
            progress_interval=settings.control_interval,
        )
        self._polled_at = clock.now()
        self._saved = False
        # Counted under a lock of its own: an act outside does not wait for a look at the ledger.
        self._acts = 0
        self._acts_lock = Lock()
        self._superseded: Superseded | None = None
        self._parked: Parked | None = None
        self._something = False

    # What is known

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._taken.stop is not None

    @property
    def pause_requested(self) -> bool:
        """Whether a pause was asked for and is not reached yet."""
        return self._taken.pause is not None

    @property
    def overrun(self) -> Overrun | None:
        """The limit that was passed, if one was."""
        return self._limits.overrun

    @property
    def interrupted(self) -> bool:
        """Whether the step was ended from outside: by a stop, a limit or another process."""
        return bool(self._taken.stop or self._superseded or self.overrun)

    @property
    def may_park(self) -> bool:
        """Whether the step can be gone on with later; not from the middle of an act on the world outside."""
        with self._acts_lock:
            return self._acts == 0

    @contextmanager
    def performing(self) -> Iterator[None]:
        """
        Around an act on the world outside, as ``perform`` of an effect.

        A process that ended in the middle of it would leave behind that nobody knows whether it happened. So
        a pause that is met inside keeps the slot.
        """
        with self._acts_lock:
            self._acts += 1
        try:
            yield
        finally:
            with self._acts_lock:
                self._acts -= 1

    def give_up(self, why: str) -> None:
        """
        Record that the process is ended by force now.

        A limit that was passed decides what becomes of the task. A stop is confirmed by whoever finds the
        process gone: it cannot prove its own death.
        """
        with self._lock:
            overrun = self.overrun
            if overrun is None or self._on_overrun is None or self.stop_requested or self._parked:
                return
            self.told.tell_all(self._on_overrun(overrun))

    def overdue(self, now: datetime) -> str | None:
        """Why this process should be ended by force, where asking it was in vain for the whole grace."""
        grace = self._settings.stop_grace
        if self._superseded is not None:
            return "another process has taken the task over"
        stop_at = self._taken.stop_at
        if stop_at is not None and now - stop_at >= grace:
            return "it was asked to stop and did not"
        if self._limits.overrun_at is not None and now - self._limits.overrun_at >= grace:
            return str(self.overrun)
        return None

    # The life of the task

    def honour_intentions(self) -> None:
        """
        Carry out, before any user code, what was asked for while nobody ran the task.

        :raises TaskCancelled: where it was stopped; the ledger has recorded that.
        :raises Parked: where it was paused; likewise.
        """
        with self._lock:
            if not self._takes_commands:
                return
            key, ledger = self._token.key, self._ledger
            found = judge_intentions(
                self._taken.claim(), lambda: ledger.list_commands(key.run, task_id=key.task_id)
            )
            for one in found.settled:
                close = ledger.complete_command if one.done else ledger.refuse_command
                close(one.command, outcome=one.outcome, now=self._clock.now())
            if found.stop is not None:
                ending = ENDING[found.stop.verb]
                change = asked_change(ending.to, ending.asked, found.stop)
                outcome = f"{ending.done} before it started"
                if self._taken.obey(found.stop, change, outcome=outcome):
                    raise TaskCancelled(
                        f"a {found.stop.verb} was asked for before it started", state=ending.to
                    )
            elif found.pause is not None:
                nonce = pause_nonce()
                change = asked_change(TaskState.PAUSED, "user:pause", found.pause)
                if self._taken.obey(found.pause, change, outcome="paused before it started", nonce=nonce):
                    raise Parked(None, nonce, pause=found.pause)

    def running(self) -> None:
        """User code begins now."""
        self._limits.running(self._clock.now())

    def saved(self) -> None:
        """There is a state to go on from."""
        self._saved = True

    def poll(self) -> None:
        """Ask what people want, say that the task lives, look at its limits; never fails it (row T13)."""
        with self._lock:
            if self._parked is not None:
                # What is asked from now on is for the process that goes on.
                return
            now = self._polled_at = self._clock.now()
            try:
                self.told.tell_all()
                if self._takes_commands:
                    self._taken.look(now)
                self._signs.beat(now)
            except Superseded as superseded:
                self._superseded = superseded
            except LedgerError:
                self.told.misses.count += 1
            except IllegalTransition as error:
                self._log.tell("control.failed", "what is asked of it cannot be taken up: %s", error)
            passed = self._limits.look(now)
            if passed is not None:
                self._log.tell("timeout", "%s", passed)
            self._something = self.interrupted or bool(self._taken.pause or self._taken.in_place)

    def checkpoint(self) -> None:
        """
        Where the step may be interrupted.

        :raises Superseded: where this process has been replaced.
        :raises TaskCancelled: where a stop was asked for.
        :raises TimeoutReached: where a limit was passed.
        :raises Parked: where a pause was asked for and there is a state to go on from.
        :raises LedgerUnavailable: where a pause could not be recorded for a minute.
        """
        now = self._clock.now()
        if not self._watched and now - self._polled_at >= self._settings.control_interval:
            self.poll()
        # After the limits were looked at: what was late does not become early by this checkpoint.
        self._limits.checkpoint(now)
        if self._something:
            self._meet()

    def _meet(self) -> None:
        deadline = self._clock.now() + CLAIM
        while True:
            with self._lock:
                self._raise_what_ends()
                taken = self._taken
                if taken.in_place:
                    break
                if taken.pause is None:
                    return
                try:
                    self._reach_pause()
                except LedgerUnavailable as error:
                    # It may be recorded already. To wait is what was asked for, so it is no harm.
                    self.told.misses.count += 1
                    if self._clock.now() >= deadline:
                        raise
                    self._log.tell("pause.waiting", "the pause could not be recorded yet: %s", error)
                else:
                    continue
            self._clock.sleep(self._settings.control_interval)
        self._stay()

    def _raise_what_ends(self) -> None:
        if self._parked is not None:
            raise self._parked
        if self._superseded is not None:
            raise self._superseded
        if self._taken.stop is not None:
            raise TaskCancelled(f"a {self._taken.stop.verb} was asked for")
        if self.overrun is not None:
            raise TimeoutReached(str(self.overrun), overrun=self.overrun)

    def _reach_pause(self) -> None:
        taken = self._taken
        pause = taken.pause
        self._signs.last_word()
        nonce = taken.reach_pause(go_on_later=self.may_park and self._can_go_on_later())
        if nonce is not None:
            self._park(Parked(None, nonce, pause=pause))

    def _can_go_on_later(self) -> bool:
        """Whether a state was saved, by this session or an earlier one of the generation."""
        if not self._saved:
            nothing = object()
            self._saved = self._ledger.load_checkpoint(self._token, STATE, nothing) is not nothing
        return self._saved

    def _park(self, parked: Parked) -> None:
        """It is recorded: what this process still does, and is asked, is of no account."""
        self._taken.close("it is parked", over=False)
        self._parked = parked
        self._something = True

    def _stay(self) -> None:
        """Wait where we are: the slot cannot be given back."""
        self._limits.held(self._clock.now())
        while True:
            self._clock.sleep(self._settings.control_interval)
            if not self._watched:
                self.poll()
            with self._lock:
                taken = self._taken
                if taken.stop is not None or self._superseded is not None:
                    taken.in_place = False
                if taken.in_place:
                    try:
                        if not taken.go_on():
                            continue
                    except LedgerUnavailable:
                        self.told.misses.count += 1
                        continue
                    self.running()
                self._raise_what_ends()
                return

    def ask(self, change: Change, *, nonce: str, request: ApprovalRequest) -> ApprovalRecord:
        """
        Record that the task parks to ask people for an approval; :class:`Parked` is to be raised then.

        A pause that was not reached waits until they have answered.

        :raises TaskCancelled: where a stop was asked for, and so on: as :meth:`checkpoint`.
        """
        while True:
            with self._lock:
                self._raise_what_ends()
                if not self._taken.in_place:
                    return self._ask(change, nonce=nonce, request=request)
            self._stay()

    def _ask(self, change: Change, *, nonce: str, request: ApprovalRequest) -> ApprovalRecord:
        self._signs.last_word()
        *before, change = self._taken.leading_to(change, why="it asks for an approval first")
        self.told.tell_all(*before)
        record, row = self._ledger.park(
            self._token, change, nonce=nonce, request=request, now=self._clock.now()
        )
        tell_transition(self._log, row)
        self._park(Parked(record, nonce))
        return record

    def leave(self) -> None:
        """
        The step's code has ended; but a park that it swallowed stands, and a pause in place lasts.

        :raises Parked: where it has parked.
        :raises TaskCancelled: where a stop came while another thread of the step was paused in place.
        """
        while True:
            with self._lock:
                if self._parked is not None:
                    raise self._parked
                if not self._taken.in_place:
                    return
            self._stay()

    # The end of the task

    def leading_to(self, change: Change) -> tuple[Change, ...]:
        """The change, after all that has to come before it where a pause was not reached yet."""
        with self._lock:
            return self._taken.leading_to(change, why="it ended first")

    def stopped(self) -> TaskState | None:
        """
        Record that the code has stopped: how the task ended, None where nobody had asked for it.

        :raises LedgerError: where the ledger fails, or another process has taken over.
        """
        with self._lock:
            self._signs.last_word()
            stop = self._taken.stop
            if stop is None:
                return None
            ending = ENDING[stop.verb]
            change = asked_change(ending.to, ending.confirmed, stop)
            if not self._taken.obey(stop, change, outcome=ending.done):
                self.told.tell_all(change)
            self._taken.stop = None
            self._taken.close(f"it was {ending.done}", over=True)
            return ending.to

    def ended(self, how: str, *, over: bool = True) -> None:
        """
        Close what was asked for and came too late, and tell the last word about progress.

        :param over: the task is over; otherwise its next process has to keep to a pause.
        """
        with self._lock:
            self._signs.last_word()
            self._taken.close(how, over=over)

    def tell_progress(self, done: Any, total: Any = None, unit: Any = None) -> None:
        """Tell how far it is: at most once every interval, and never at the task's expense (row T8)."""
        self._signs.progress(done, total, unit)
