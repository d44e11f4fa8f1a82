"""
Observation fails open (product row T13): what only tells of a task never fails it.

A transition that the ledger could not take is kept with its time and written before the next one; how often
that happened is told with the task's sign of life. Decisions never come here: without the ledger there are
none.
"""

from __future__ import annotations

from dataclasses import replace

from louver.errors import LedgerUnavailable
from louver.ports import StepRuntime, tell_transition
from louver.sessions import Change

__all__ = ["Observations"]


class Observations:
    """
    What one process tells of its task.

    :param runtime: the process at work.
    """

    def __init__(self, runtime: StepRuntime) -> None:
        self._runtime = runtime
        self._missed: list[Change] = []
        self.persist_failures = 0

    def tell(self, change: Change) -> bool:
        """
        Append a transition, and those missed before it; False where that has to wait.

        :raises Superseded: where this process has been replaced.
        """
        try:
            self.tell_all(change)
        except LedgerUnavailable as error:
            self.persist_failures += 1
            self._missed.append(replace(change, at=change.at or self._runtime.now()))
            self._runtime.log.tell(
                "persist.failed", "%s could not be recorded yet and will be: %s", change.to, error
            )
            return False
        return True

    def tell_all(self, *changes: Change) -> None:
        """
        Append transitions, and those missed before them: what comes next is a decision.

        :raises LedgerUnavailable: where the ledger cannot be reached.
        :raises Superseded: where this process has been replaced.
        """
        runtime = self._runtime
        due = (*self._missed, *changes)
        if not due:
            return
        for row in runtime.ledger.advance(runtime.token, *due, now=runtime.now()):
            tell_transition(runtime.log, row)
        self._missed.clear()
        self._count()

    def _count(self) -> None:
        if self.persist_failures == 0:
            return
        runtime = self._runtime
        try:
            runtime.ledger.touch(runtime.token, persist_failures=self.persist_failures, now=runtime.now())
        except LedgerUnavailable as error:
            runtime.log.tell("persist.failed", "the count of missed writes could not be kept: %s", error)
