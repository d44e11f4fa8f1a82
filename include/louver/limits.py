"""The limits of one running step, and its signs of life: what its supervision looks at beside commands."""

from __future__ import annotations

from datetime import datetime, timedelta

from louver.clock import Clock
from louver.errors import LedgerUnavailable
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.requests import Progress
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

    :param heartbeat_interval: how often it says that it lives.
    :param progress_interval: how often it says how far it is, at most.
    """

    def __init__(
        self,
        ledger: Ledger,
        token: Token,
        clock: Clock,
        *,
        heartbeat_interval: timedelta,
        progress_interval: timedelta,
    ) -> None:
        self._ledger = ledger
        self._token = token
        self._clock = clock
        self._heartbeat_interval = heartbeat_interval
        self._progress_interval = progress_interval
        self._heartbeat_at: datetime | None = None
        self._progress_at: datetime | None = None
        self._untold: Progress | None = None
        self.persist_failures = 0

    def beat(self, now: datetime) -> None:
        """
        Say that the process lives, if that is due.

        :raises LedgerUnavailable: where nobody can be told.
        """
        if self._heartbeat_at is None or now - self._heartbeat_at >= self._heartbeat_interval:
            self._ledger.touch(self._token, persist_failures=self.persist_failures, now=now)
            self._heartbeat_at = now

    def progress(self, progress: Progress) -> None:
        """Say how far the step is; what comes too soon after the last word waits for :meth:`last_word`."""
        now = self._clock.now()
        if self._progress_at is not None and now - self._progress_at < self._progress_interval:
            self._untold = progress
            return
        self._progress_at, self._untold = now, None
        try:
            self._ledger.touch(self._token, progress=progress, now=now)
        except LedgerUnavailable:
            self.persist_failures += 1

    def last_word(self) -> None:
        """Tell what was not told yet: the step pauses or ends."""
        progress, self._untold, self._progress_at = self._untold, None, None
        if progress is not None:
            self.progress(progress)
