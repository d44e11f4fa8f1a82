"""The one place that knows what time it is."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Protocol

from louver.errors import require_aware

__all__ = ["Clock", "FixedClock", "SystemClock"]


class Clock(Protocol):
    """Time as decisions see it: aware UTC, and a way to let some of it pass."""

    def now(self) -> datetime:
        """The current time, aware UTC."""

    def sleep(self, duration: timedelta) -> None:
        """Let ``duration`` pass; returns at once where it is zero or negative."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current time, aware UTC."""
        return datetime.now(timezone.utc)

    def sleep(self, duration: timedelta) -> None:
        """Really wait."""
        if duration > timedelta(0):
            time.sleep(duration.total_seconds())


class FixedClock:
    """
    A clock that moves only when told to; sleeping moves it.

    :param start: aware time it begins at.
    """

    def __init__(self, start: datetime) -> None:
        self._now = require_aware("start", start).astimezone(timezone.utc)

    def now(self) -> datetime:
        """The time it stands at."""
        return self._now

    def sleep(self, duration: timedelta) -> None:
        """Move on by ``duration``, without waiting."""
        self.advance(duration)

    def advance(self, duration: timedelta) -> None:
        """Move on by ``duration``; a clock never goes back."""
        self._now += max(duration, timedelta(0))
