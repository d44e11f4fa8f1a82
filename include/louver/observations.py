"""
Observation fails open (product row T13): what only tells of a task never fails it.

A transition that the ledger could not take is kept with its time and written before the next one; how often
that happened is told with the task's sign of life. Decisions never come here: without the ledger there are
none.

Only the session that holds a task writes to its main chain, and while its code runs by one
:class:`Observations` alone: a transition that was missed is never overtaken, and one whose answer was lost is
looked for in the chain before it is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock

from louver.clock import Clock
from louver.errors import LedgerError, LouverError, Superseded
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.records import CommandRecord, TransitionRecord
from louver.ports import StepLog, tell_transition
from louver.sessions import Change

__all__ = ["Misses", "Observations"]


@dataclass(slots=True)
class Misses:
    """How often something about a task could not be told; one count for each session."""

    count: int = 0


class Observations:
    """
    What one process tells of its task; for all threads of that process.

    :param token: by which it holds the task.
    """

    def __init__(self, *, ledger: Ledger, token: Token, clock: Clock, log: StepLog) -> None:
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._log = log
        self._lock = RLock()
        self._missed: list[Change] = []
        # What was asked of the ledger last, until it has answered.
        self._unanswered: tuple[Change, ...] = ()
        self.misses = Misses()
        self._told_misses = 0

    def tell(self, *changes: Change) -> bool:
        """
        Append transitions, and those missed before them; False where that has to wait.

        :raises Superseded: where this process has been replaced.
        """
        with self._lock:
            dated = self._dated(changes)
            self._missed += dated
            try:
                self._advance(())
            except Superseded:
                self._forget(dated)
                raise
            except LedgerError as error:
                self.misses.count += 1
                states = ", ".join(change.to for change in dated)
                self._log.tell(
                    "persist.failed", "%s could not be recorded yet and will be: %s", states, error
                )
                return False
            except LouverError:
                self._forget(dated)
                raise
            return True

    def tell_all(self, *changes: Change) -> None:
        """
        Append transitions, and those missed before them: what comes next is a decision.

        :raises LedgerError: where the ledger fails.
        :raises Superseded: where this process has been replaced.
        """
        with self._lock:
            self._advance(self._dated(changes))

    def obey(self, command: CommandRecord, change: Change, *, outcome: str, nonce: str | None = None) -> bool:
        """
        Carry a claimed command out, with the transitions missed before; as :meth:`Ledger.obey`.

        :returns: False, and nothing was written, where the command is closed or is claimed anew.
        :raises LedgerError: where the ledger fails.
        :raises Superseded: where this process has been replaced.
        """

        def write(asked: tuple[Change, ...]) -> tuple[TransitionRecord, ...] | None:
            return self._ledger.obey(
                self._token, command, *asked, outcome=outcome, nonce=nonce, now=self._clock.now()
            )

        with self._lock:
            return self._write(self._dated((change,)), write)

    def _dated(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Each with its own time, by which it is known again in the chain."""
        now = self._clock.now()
        return tuple(replace(change, at=change.at or now) for change in changes)

    def _advance(self, changes: tuple[Change, ...]) -> None:
        def write(asked: tuple[Change, ...]) -> tuple[TransitionRecord, ...]:
            return self._ledger.advance(self._token, *asked, now=self._clock.now())

        self._look_for_unanswered()
        if self._missed or changes:
            self._write(changes, write)
        self._tell_misses()

    def _write(
        self,
        changes: tuple[Change, ...],
        write: Callable[[tuple[Change, ...]], tuple[TransitionRecord, ...] | None],
    ) -> bool:
        self._look_for_unanswered()
        asked = (*self._missed, *changes)
        # Also where an interruption is raised in the middle.
        self._unanswered = asked
        try:
            rows = write(asked)
        except LouverError as error:
            if isinstance(error, Superseded) or not isinstance(error, LedgerError):
                # Refused, so nothing was written.
                self._unanswered = ()
            raise
        if rows is not None:
            self._missed.clear()
        self._unanswered = ()
        for row in rows or ():
            tell_transition(self._log, row)
        return rows is not None

    def _look_for_unanswered(self) -> None:
        """
        Find out whether what had no answer was written: then it is missed no more.

        It was written as a whole or not at all, and nobody has written to the chain since.
        """
        asked = self._unanswered
        if not asked:
            return
        key = self._token.key
        chain = [
            row
            for row in self._ledger.list_transitions(key.run, task_id=key.task_id)
            if row.task == key and row.chain == "main"
        ]
        last = sorted(chain, key=lambda row: row.version)[-len(asked) :]
        wanted = [(change.to, change.trigger, change.at) for change in asked]
        if [(row.to_state, row.trigger, row.at) for row in last] == wanted:
            self._forget(asked)
            for row in last:
                tell_transition(self._log, row)
        self._unanswered = ()

    def _forget(self, changes: tuple[Change, ...]) -> None:
        self._missed = [missed for missed in self._missed if not any(missed is one for one in changes)]

    def _tell_misses(self) -> None:
        count = self.misses.count
        if count == self._told_misses:
            return
        try:
            self._ledger.touch(self._token, persist_failures=count, now=self._clock.now())
        except LedgerError as error:
            self._log.tell("persist.failed", "the count of missed writes could not be kept: %s", error)
        else:
            self._told_misses = count
