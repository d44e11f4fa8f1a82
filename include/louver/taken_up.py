"""
What the process that holds a task has taken up of what people want, until it is carried out or refused.

Each command that it claimed is closed in the end: obeyed, refused, or left to the task's next process. The
transition that tells of its being taken up may come late (:mod:`louver.observations`), but always before what
comes of the command.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from louver.clock import Clock
from louver.control import ENDING, PAUSE_NONCE, ROLLED_BACK, TAKEN_BACK
from louver.errors import LedgerError
from louver.intentions import NOT_PAUSED
from louver.ledger.contract import Ledger
from louver.ledger.names import Token, Verb
from louver.ledger.records import CommandRecord
from louver.observations import Observations
from louver.ports import StepLog
from louver.sessions import Change
from louver.states import TaskState, triggers_between

__all__ = ["CLAIM", "TakenUp", "asked_change", "pause_nonce"]

CLAIM = timedelta(seconds=60)
"""How long what was claimed is nobody else's to carry out."""


def asked_change(to: TaskState, trigger: str, command: CommandRecord) -> Change:
    """The change in the name of who asked for it."""
    return Change(to=to, trigger=trigger, actor=command.actor, reason=command.reason)


def pause_nonce() -> str:
    """What the resume of a person's pause must present."""
    return f"{PAUSE_NONCE}{secrets.token_hex(16)}"


class TakenUp:
    """
    The commands in the hands of one process; its caller sees to it that one thread at a time is in here.

    :param told: writes the task's transitions.
    :param pause_window: how long a pause may take to be reached before it is rolled back.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        token: Token,
        clock: Clock,
        log: StepLog,
        told: Observations,
        pause_window: timedelta,
    ) -> None:
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._log = log
        self._told = told
        self._pause_window = pause_window
        self.stop: CommandRecord | None = None
        self.stop_at: datetime | None = None
        self.pause: CommandRecord | None = None
        self._pause_at: datetime | None = None
        self.resume: CommandRecord | None = None
        self.in_place = False
        # While the ledger is asked for the pause, again and again where it does not answer.
        self._reaching = False
        self._nonce: str | None = None

    def claim(self) -> tuple[CommandRecord, ...]:
        """What is asked for and in nobody's hands."""
        now = self._clock.now()
        return self._ledger.claim_commands(self._token, lease_until=now + CLAIM, now=now)

    def look(self, now: datetime) -> None:
        """
        Take up what is asked for, and run on where a pause is taken back or was not reached in time.

        :raises LedgerError: where the ledger fails; what was not done then is done by the next look.
        """
        commands = self.claim()
        self._take_stop(commands, now)
        self._take_pause(commands, now)
        self._take_resume(commands)
        if self.pause is None or self._reaching:
            return
        if self.resume is not None:
            self._take_back(self.resume)
        elif self._pause_at is not None and now - self._pause_at >= self._pause_window:
            self._roll_back(self.pause)

    def _take_stop(self, commands: tuple[CommandRecord, ...], now: datetime) -> None:
        for verb, ending in ENDING.items():
            held = self.stop
            if held is not None and held.verb is not verb:
                self._refuse_all(commands, verb, f"a {held.verb} was asked for already")
                continue
            stop = self._one_of(commands, verb, held=held)
            if stop is None:
                continue
            self.stop = stop
            if held is None:
                self.stop_at = now
                pause, self.pause = self.pause, None
                self.refuse(pause, "it is being stopped")
                self._told.tell(asked_change(TaskState.STOPPING, ending.asked, stop))

    def _take_pause(self, commands: tuple[CommandRecord, ...], now: datetime) -> None:
        held = self.pause
        pause = self._one_of(commands, Verb.PAUSE, held=held)
        if pause is None:
            return
        if self.stop is not None or self.in_place:
            self.refuse(pause, "it is being stopped" if self.stop else "it is paused")
            return
        self.pause = pause
        if held is None:
            self._pause_at = now
            self._told.tell(asked_change(TaskState.PAUSING, "user:pause", pause))

    def _take_resume(self, commands: tuple[CommandRecord, ...]) -> None:
        resume = self._one_of(commands, Verb.RESUME, held=self.resume)
        if resume is None:
            return
        if self.in_place or self.pause is not None:
            self.resume = resume
        else:
            self.refuse(resume, NOT_PAUSED)

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
        self._refuse_all(others, verb, f"a {verb} was asked for already")
        return mine

    def reach_pause(self, *, go_on_later: bool) -> str | None:
        """
        Record that the pause is reached.

        :param go_on_later: there is a state to go on from, so the slot is given back. What was said first
            counts, where the ledger is asked again.
        :returns: what the resume must present; None where the process waits, see :attr:`in_place`, or where
            the pause was taken back.
        :raises LedgerUnavailable: where it did not answer; to be called again, and nothing else meanwhile.
        """
        pause = self.pause
        if pause is None:
            return None
        if not self._reaching:
            self._nonce = pause_nonce() if go_on_later else None
            self._reaching = True
        nonce = self._nonce
        change = asked_change(TaskState.PAUSED, "runtime:pause_reached", pause)
        outcome = "paused in place" if nonce is None else "paused, slot given back"
        reached = self.obey(pause, change, outcome=outcome, nonce=nonce)
        if not reached:
            self._leave_pausing(_rolled_back("it was taken back"))
        self.pause, self._reaching = None, False
        self.in_place = reached and nonce is None
        return nonce if reached else None

    def go_on(self) -> bool:
        """
        Carry out the resume of a task that is paused in place; False where there is none.

        :raises LedgerUnavailable: where it did not answer; to be called again.
        """
        resume = self.resume
        if resume is None:
            return False
        change = asked_change(TaskState.RUNNING, "user:resume", resume)
        obeyed = self.obey(resume, change, outcome="resumed")
        self.resume = None
        self.in_place = not obeyed
        return obeyed

    def _take_back(self, resume: CommandRecord) -> None:
        reason = "a resume came before it was reached"
        self._run_on(resume, _rolled_back(reason, actor=resume.actor), outcome=TAKEN_BACK)
        pause, self.pause, self.resume = self.pause, None, None
        self.refuse(pause, TAKEN_BACK)

    def _roll_back(self, pause: CommandRecord) -> None:
        reason = f"no checkpoint within {self._pause_window.total_seconds():.0f} s"
        self._run_on(pause, _rolled_back(reason), outcome=f"{ROLLED_BACK}: {reason}")
        self.pause = None

    def _run_on(self, obeyed: CommandRecord, change: Change, *, outcome: str) -> None:
        if not self.obey(obeyed, change, outcome=outcome):
            self._leave_pausing(change)

    def _leave_pausing(self, change: Change) -> None:
        """Run on, where the command is closed already and the task does not know."""
        record = self._ledger.get_task(self._token.key)
        if record is not None and record.state is TaskState.PAUSING:
            self._told.tell_all(change)

    def obey(self, command: CommandRecord, change: Change, *, outcome: str, nonce: str | None = None) -> bool:
        """
        Carry it out; False where it is closed, and not by this.

        :raises LedgerUnavailable: where it did not answer; the same call again finds what became of it.
        """
        done = self._told.obey(command, change, outcome=outcome, nonce=nonce)
        if not done:
            record = self._ledger.get_task(self._token.key)
            # By this very call, where its answer was lost.
            done = record is not None and (record.session, record.state, record.nonce) == (
                self._token.session,
                change.to,
                nonce,
            )
        if done:
            self._log.tell("command", "%s of %s: %s", command.verb, command.actor or "nobody", outcome)
        return done

    def refuse(self, command: CommandRecord | None, outcome: str) -> None:
        """
        Say that it will not be done.

        Where the ledger fails it stays claimed, and once that claim is over it is taken up and refused again.
        """
        if command is None:
            return
        try:
            self._ledger.refuse_command(command, outcome=outcome, now=self._clock.now())
        except LedgerError:
            self._told.misses.count += 1

    def _refuse_all(self, commands: tuple[CommandRecord, ...], verb: Verb, outcome: str) -> None:
        for command in commands:
            if command.verb is verb:
                self.refuse(command, outcome)

    def leading_to(self, change: Change, *, why: str) -> tuple[Change, ...]:
        """The change, and before it that the pause is given up, where it cannot be made while ``pausing``."""
        if self.pause is None or change.trigger in triggers_between(TaskState.PAUSING, change.to):
            return (change,)
        return (_rolled_back(why), change)

    def close(self, how: str, *, over: bool) -> None:
        """
        Close what was asked for and was not come to.

        :param over: the task is over. Otherwise its next process meets the pause, and what takes it back.
        """
        if over:
            self.refuse(self.pause, how)
            self.refuse(self.resume, how)
        else:
            self._leave(self.pause)
            self._leave(self.resume)
        self.refuse(self.stop, how)
        self.stop = self.pause = self.resume = None

    def _leave(self, command: CommandRecord | None) -> None:
        if command is None:
            return
        try:
            self._ledger.release_command(command, now=self._clock.now())
        except LedgerError:
            # It is claimed by this session, which is over: whoever comes next takes it up all the same.
            self._told.misses.count += 1


def _rolled_back(reason: str, *, actor: str | None = None) -> Change:
    return Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back", actor=actor, reason=reason)
