"""Time comes from one place, and tests tell it what to be."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from louver.clock import FixedClock, SystemClock
from louver.errors import ConfigurationError

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
BERLIN_SUMMER = timezone(timedelta(hours=2))


def test_a_fixed_clock_moves_only_when_told_to() -> None:
    clock = FixedClock(NOW)
    assert clock.now() == clock.now() == NOW
    clock.advance(timedelta(seconds=5))
    clock.sleep(timedelta(hours=1))
    assert clock.now() == NOW + timedelta(hours=1, seconds=5)


def test_a_fixed_clock_never_goes_back() -> None:
    clock = FixedClock(NOW)
    clock.advance(timedelta(seconds=-5))
    clock.sleep(timedelta(days=-5))
    assert clock.now() == NOW


def test_a_fixed_clock_tells_utc() -> None:
    now = FixedClock(NOW.astimezone(BERLIN_SUMMER)).now()
    assert (now, now.tzinfo) == (NOW, timezone.utc)


def test_a_fixed_clock_wants_an_aware_start() -> None:
    with pytest.raises(ConfigurationError, match="start must be an aware datetime"):
        FixedClock(NOW.replace(tzinfo=None))


def test_the_system_clock_tells_aware_utc() -> None:
    before = datetime.now(timezone.utc)
    now = SystemClock().now()
    assert before <= now <= datetime.now(timezone.utc)
    assert now.tzinfo is timezone.utc


def test_the_system_clock_really_waits() -> None:
    before = time.monotonic()
    SystemClock().sleep(timedelta(milliseconds=20))
    assert time.monotonic() - before >= 0.02


def test_the_system_clock_does_not_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for nothing in (timedelta(0), timedelta(seconds=-1)):
        SystemClock().sleep(nothing)
    assert slept == []
