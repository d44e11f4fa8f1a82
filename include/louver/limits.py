"""The limits of one running step, and its signs of life: what its supervision looks at beside commands."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from louver.clock import Clock
from louver.errors import LedgerError, Superseded, ValueRefused
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.requests import Progress
from louver.ledger.storable import require_storable
from louver.observations import Misses
from louver.ports import StepLog
from louver.timeouts import Overrun, Timeouts, first_overrun

__all__ = ["Limits", "SignsOfLife"]


class Limits:
    """
    Whether the step has passed one of its limits.

    :param timeouts: the limits.
    :param ran_before: running time of this attempt in earlier sessions.
    """

    def __init__(self, timeouts: Timeouts, *, ran_before: timedelta, now: datetime) -> None:
        self._timeouts = timeouts
        self._ran = ran_before
        self._running_since: datetime | None = None
        self._checkpoint_at = now
        self.overrun: Overrun | None = None
        self.overrun_at: datetime | None = None

    def running(self, now: datetime) -> None:
        """User code begins, or goes on after a pause in place."""
        self._running_since = self._checkpoint_at = now

    def held(self, now: datetime) -> None:
        """What passes from now on is no running time."""
        if self._running_since is not None:
            self._ran += now - self._running_since
            self._running_since = None

    def checkpoint(self, now: datetime) -> None:
        """The step has come by a checkpoint."""
        self._checkpoint_at = now

    def look(self, now: datetime) -> Overrun | None:
        """The limit that was passed just now, told once."""
        if self.overrun is not None or self._running_since is None:
            return None
        ran = self._ran + (now - self._running_since)
        found = first_overrun(self._timeouts, ran=ran, idle=now - self._checkpoint_at)
        if found is not None:
            self.overrun, self.overrun_at = found, now
        return found


class SignsOfLife:
    """
    Heartbeats and progress: side paths that never fail the step (rows T8, T13).

    :param misses: counts what could not be told.
    :param heartbeat_interval: how often it says that it lives.
    :param progress_interval: how often it says how far it is, at most.
    """

    def __init__(
        self,
        ledger: Ledger,
        token: Token,
        clock: Clock,
        *,
        log: StepLog,
        misses: Misses,
        heartbeat_interval: timedelta,
        progress_interval: timedelta,
    ) -> None:
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._log = log
        self._misses = misses
        self._heartbeat_interval = heartbeat_interval
        self._progress_interval = progress_interval
        self._heartbeat_at: datetime | None = None
        self._progress_at: datetime | None = None
        self._untold: Progress | None = None
        self._left_out: set[str] = set()

    def beat(self, now: datetime) -> None:
        """
        Say that the process lives, if that is due.

        :raises LedgerError: where nobody can be told.
        """
        if self._heartbeat_at is None or now - self._heartbeat_at >= self._heartbeat_interval:
            self._ledger.touch(self._token, persist_failures=self._misses.count, now=now)
            self._heartbeat_at = now

    def progress(self, done: Any, total: Any, unit: Any) -> None:
        """
        Say how far the step is; what comes too soon after the last word waits for :meth:`last_word`.

        Whatever a step gives: what cannot be kept is left out, and the log says so once.
        """
        how_far = self._number("done", done)
        if how_far is None:
            return
        progress = Progress(
            done=how_far,
            total=None if total is None else self._number("total", total),
            unit=None if unit is None else self._text("unit", unit),
        )
        now = self._clock.now()
        if self._progress_at is not None and now - self._progress_at < self._progress_interval:
            self._untold = progress
            return
        self._tell(progress, now)

    def last_word(self) -> None:
        """Tell what was not told yet: the step pauses or ends."""
        progress, self._untold, self._progress_at = self._untold, None, None
        if progress is not None:
            self._tell(progress, self._clock.now())

    def _tell(self, progress: Progress, now: datetime) -> None:
        self._progress_at, self._untold = now, None
        try:
            self._ledger.touch(self._token, progress=progress, now=now)
        except Superseded:
            # Nobody asks any more how far this process is; its next checkpoint says so.
            return
        except (LedgerError, ValueRefused) as error:
            self._misses.count += 1
            self._log.tell("progress.failed", "progress could not be recorded: %s", type(error).__name__)

    def _number(self, name: str, value: Any) -> float | None:
        try:
            number = float(value)
        except Exception:
            # Whatever its own conversion raises: it is the step's object.
            number = math.nan
        if math.isfinite(number):
            return number
        self._leave_out(name, "it is no finite number")
        return None

    def _text(self, name: str, value: Any) -> str | None:
        if not isinstance(value, str):
            self._leave_out(name, "it is no text")
            return None
        try:
            require_storable(name, value)
        except ValueRefused as refused:
            self._leave_out(name, refused.reason)
            return None
        # Of a class of its own, the driver might not know what to do with it.
        return str.__str__(value)

    def _leave_out(self, name: str, why: str) -> None:
        """Never with its value: that may be payload (row O9)."""
        self._misses.count += 1
        if name not in self._left_out:
            self._left_out.add(name)
            self._log.tell("progress.left_out", "%s of the progress is left out: %s", name, why)
