"""
The process that holds a task, carrying out what people ask of it and keeping its limits (semantics 1 and 8).

What is wanted is found out by :meth:`Supervision.poll`, by a thread of the process where there is one and at
checkpoints otherwise; the code of the step meets it at :meth:`Supervision.checkpoint`, which costs next to
nothing while nobody wants anything. Only the holder claims commands, so a command is carried out once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import RLock

from louver.clock import Clock
from louver.control import ENDING, PAUSE_NONCE, ROLLED_BACK
from louver.errors import IllegalTransition, LedgerUnavailable, Superseded, TaskCancelled, TimeoutReached
from louver.intentions import NOT_PAUSED, TAKEN_BACK, judge_intentions
from louver.ledger.contract import Ledger
from louver.ledger.names import Token, Verb
from louver.ledger.records import STATE, CommandRecord
from louver.ledger.requests import Progress
from louver.limits import Limits, SignsOfLife
from louver.ports import Parked, StepLog, tell_transition
from louver.sessions import Change
from louver.states import TaskState
from louver.timeouts import Overrun, Timeouts

__all__ = ["ControlSettings", "Supervision"]

_CLAIM = timedelta(seconds=60)


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
        watched: bool = False,
    ) -> None:
        self._on_overrun = on_overrun
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._log = log
        self._settings = settings
        self._watched = watched
        self._lock = RLock()
        self._limits = Limits(timeouts, ran_before=ran_before, now=clock.now())
        self._signs = SignsOfLife(
            ledger,
            token,
            clock,
            heartbeat_interval=settings.heartbeat_interval,
            progress_interval=settings.control_interval,
        )
        self._polled_at = clock.now()
        self._saved = False
        self._stop: CommandRecord | None = None
        self._stop_at: datetime | None = None
        self._pause: CommandRecord | None = None
        self._pause_at: datetime | None = None
        self._resume: CommandRecord | None = None
        self._in_place = False
        self._superseded: Superseded | None = None
        self._something = False

    # What is known

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop is not None

    @property
    def pause_requested(self) -> bool:
        """Whether a pause was asked for and is not reached yet."""
        return self._pause is not None and not self._in_place

    @property
    def overrun(self) -> Overrun | None:
        """The limit that was passed, if one was."""
        return self._limits.overrun

    @property
    def interrupted(self) -> bool:
        """Whether the step was ended from outside: by a stop, a limit or another process."""
        return self._something

    def give_up(self, why: str) -> None:
        """
        Record that the process is ended by force now.

        A limit that was passed decides what becomes of the task. A stop is confirmed by whoever finds the
        process gone: it cannot prove its own death.
        """
        with self._lock:
            overrun = self.overrun
            if overrun is None or self._on_overrun is None:
                return
            self._advance(self._on_overrun(overrun))

    def overdue(self, now: datetime) -> str | None:
        """Why this process should be ended by force, where asking it was in vain for the whole grace."""
        grace = self._settings.stop_grace
        if self._superseded is not None:
            return "another process has taken the task over"
        if self._stop_at is not None and now - self._stop_at >= grace:
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
            key, ledger = self._token.key, self._ledger
            found = judge_intentions(
                self._claim(), lambda: ledger.list_commands(key.run, task_id=key.task_id)
            )
            for one in found.settled:
                close = ledger.complete_command if one.done else ledger.refuse_command
                close(one.command, outcome=one.outcome, now=self._clock.now())
            if found.stop is not None:
                ending = ENDING[found.stop.verb]
                change = _change(ending.to, ending.asked, found.stop)
                if self._obey(found.stop, change, outcome=f"{ending.done} before it started"):
                    raise TaskCancelled(
                        f"a {found.stop.verb} was asked for before it started", state=ending.to
                    )
            elif found.pause is not None:
                nonce = _nonce()
                change = _change(TaskState.PAUSED, "user:pause", found.pause)
                if self._obey(found.pause, change, outcome="paused before it started", nonce=nonce):
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
            now = self._polled_at = self._clock.now()
            try:
                self._take_up(self._claim(), now)
                self._roll_back(now)
                self._signs.beat(now)
            except LedgerUnavailable:
                self._signs.persist_failures += 1
            except IllegalTransition:
                # The task has just ended by itself; there is nothing left to carry out.
                pass
            except Superseded as superseded:
                self._superseded = superseded
            passed = self._limits.look(now)
            if passed is not None:
                self._log.tell("timeout", "%s", passed)
            self._something = bool(self._stop or self._pause or self._superseded or self.overrun)

    def checkpoint(self) -> None:
        """
        Where the step may be interrupted.

        :raises Superseded: where this process has been replaced.
        :raises TaskCancelled: where a stop was asked for.
        :raises TimeoutReached: where a limit was passed.
        :raises Parked: where a pause was asked for and there is a state to go on from.
        """
        now = self._clock.now()
        if not self._watched and now - self._polled_at >= self._settings.control_interval:
            self.poll()
        # After the limits were looked at: what was late does not become early by this checkpoint.
        self._limits.checkpoint(now)
        if self._something:
            self._meet()

    def _meet(self) -> None:
        with self._lock:
            if self._superseded is not None:
                raise self._superseded
            if self._stop is not None:
                raise TaskCancelled(f"a {self._stop.verb} was asked for")
            if self.overrun is not None:
                raise TimeoutReached(str(self.overrun), overrun=self.overrun)
            if self._pause is None:
                return
            pause, self._pause = self._pause, None
            self._something = False
            change = _change(TaskState.PAUSED, "runtime:pause_reached", pause)
            self._signs.last_word()
            nonce = _nonce() if self._can_go_on_later() else None
            outcome = "paused in place" if nonce is None else "paused, slot given back"
            if not self._obey(pause, change, outcome=outcome, nonce=nonce):
                reason = "it was taken back"
                self._advance(
                    Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back", reason=reason)
                )
                return
            if nonce is not None:
                raise Parked(None, nonce, pause=pause)
            self._in_place = True
        self._stay()

    def _can_go_on_later(self) -> bool:
        """Whether a state was saved, by this session or an earlier one of the generation."""
        if not self._saved:
            nothing = object()
            self._saved = self._ledger.load_checkpoint(self._token, STATE, nothing) is not nothing
        return self._saved

    def _stay(self) -> None:
        """Wait where we are: there is no state to go on from, so the slot cannot be given back."""
        self._limits.held(self._clock.now())
        while True:
            self._clock.sleep(self._settings.control_interval)
            if not self._watched:
                self.poll()
            with self._lock:
                if self._resume is not None:
                    resume, self._resume = self._resume, None
                    self._in_place = False
                    change = _change(TaskState.RUNNING, "user:resume", resume)
                    self._obey(resume, change, outcome="resumed")
                    self.running()
                    return
                if self._stop is not None or self._superseded is not None:
                    self._in_place = False
                    self._something = True
                    break
        self._meet()

    def stopped(self) -> TaskState | None:
        """
        Record that the code has stopped: how the task ended, None where nobody had asked for it.

        :raises Superseded: where this process has been replaced.
        """
        with self._lock:
            stop, self._stop = self._stop, None
            self._signs.last_word()
            if stop is None:
                return None
            ending = ENDING[stop.verb]
            self._obey(stop, _change(ending.to, ending.confirmed, stop), outcome=ending.done)
            return ending.to

    def ended(self, how: str) -> None:
        """Close what was asked for and came too late, and tell the last word about progress."""
        with self._lock:
            self._signs.last_word()
            for command in (self._stop, self._pause, self._resume):
                if command is None:
                    continue
                try:
                    self._ledger.refuse_command(command, outcome=how, now=self._clock.now())
                except LedgerUnavailable:
                    self._signs.persist_failures += 1
            self._stop = self._pause = self._resume = None

    def tell_progress(self, progress: Progress) -> None:
        """Tell how far it is: at most once every interval, and never at the task's expense (row T8)."""
        self._signs.progress(progress)

    # How

    def _claim(self) -> tuple[CommandRecord, ...]:
        now = self._clock.now()
        return self._ledger.claim_commands(self._token, lease_until=now + _CLAIM, now=now)

    def _take_up(self, commands: tuple[CommandRecord, ...], now: datetime) -> None:
        for verb, ending in ENDING.items():
            held = self._stop
            if held is not None and held.verb is not verb:
                self._refuse(commands, verb, f"a {held.verb} was asked for already")
                continue
            stop = self._one_of(commands, verb, held=held)
            if stop is not None:
                self._stop = stop
                if held is None:
                    self._stop_at = now
                    self._advance(_change(TaskState.STOPPING, ending.asked, stop))
        pause = self._one_of(commands, Verb.PAUSE, held=self._pause)
        if pause is not None:
            if self._stop is not None or self._in_place:
                self._refuse((pause,), Verb.PAUSE, "it is being stopped" if self._stop else "it is paused")
            elif self._pause is not None:
                self._pause = pause
            else:
                self._pause, self._pause_at = pause, now
                self._advance(_change(TaskState.PAUSING, "user:pause", pause))
        resume = self._one_of(commands, Verb.RESUME, held=self._resume)
        if resume is None:
            return
        if self._in_place:
            self._resume = resume
        elif self._pause is not None:
            self._give_pause_up(resume, TAKEN_BACK, by=resume)
        else:
            self._refuse((resume,), Verb.RESUME, NOT_PAUSED)

    def _one_of(
        self, commands: tuple[CommandRecord, ...], verb: Verb, *, held: CommandRecord | None
    ) -> CommandRecord | None:
        """The one to carry out, of those that several have sent at once; the others are refused."""
        found = [command for command in commands if command.verb is verb]
        if held is None:
            mine = next(iter(found), None)
        else:
            mine = next((command for command in found if command.command_id == held.command_id), None)
        others = tuple(command for command in found if command is not mine)
        self._refuse(others, verb, f"a {verb} was asked for already")
        return mine

    def _roll_back(self, now: datetime) -> None:
        late = self._pause_at is not None and now - self._pause_at >= self._settings.pause_window
        if self._pause is not None and late:
            seconds = self._settings.pause_window.total_seconds()
            reason = f"no checkpoint within {seconds:.0f} s"
            self._give_pause_up(self._pause, f"{ROLLED_BACK}: {reason}", by=None, reason=reason)

    def _give_pause_up(
        self, obeyed: CommandRecord, outcome: str, *, by: CommandRecord | None, reason: str | None = None
    ) -> None:
        """Run on: the pause was taken back by a resume, or not reached in time."""
        pause, self._pause, self._pause_at = self._pause, None, None
        change = Change(
            to=TaskState.RUNNING,
            trigger="runtime:pause_rolled_back",
            actor=by.actor if by is not None else None,
            reason=reason or "a resume came before it was reached",
        )
        self._obey(obeyed, change, outcome=outcome)
        if by is not None and pause is not None:
            self._ledger.refuse_command(pause, outcome=outcome, now=self._clock.now())

    def _advance(self, change: Change) -> None:
        for row in self._ledger.advance(self._token, change, now=self._clock.now()):
            tell_transition(self._log, row)

    def _obey(
        self, command: CommandRecord, change: Change, *, outcome: str, nonce: str | None = None
    ) -> bool:
        rows = self._ledger.obey(
            self._token, command, change, outcome=outcome, nonce=nonce, now=self._clock.now()
        )
        for row in rows or ():
            tell_transition(self._log, row)
        self._log.tell("command", "%s of %s: %s", command.verb, command.actor or "nobody", outcome)
        return rows is not None

    def _refuse(self, commands: tuple[CommandRecord, ...], verb: Verb, outcome: str) -> None:
        for command in commands:
            if command.verb is verb:
                self._ledger.refuse_command(command, outcome=outcome, now=self._clock.now())


def _change(to: TaskState, trigger: str, command: CommandRecord) -> Change:
    return Change(to=to, trigger=trigger, actor=command.actor, reason=command.reason)


def _nonce() -> str:
    return f"{PAUSE_NONCE}{secrets.token_hex(16)}"
