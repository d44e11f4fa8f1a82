"""Three limits, independent; the earliest wins, and time is elapsed time (row T5, case D10)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from louver.errors import DefinitionError
from louver.states import FailureKind
from louver.timeouts import Timeouts, first_overrun, start_overrun

S = timedelta(seconds=1)


@pytest.mark.parametrize("limit", [timedelta(0), -S, True, 5, 5.0, "5", timedelta(days=4000)])
@pytest.mark.parametrize("name", ["start", "attempt", "idle"])
def test_what_is_no_limit_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(DefinitionError, match=f"timeouts.{name}"):
        Timeouts(**{name: limit})


def test_none_is_no_limit() -> None:
    assert first_overrun(Timeouts(), ran=10_000 * S, idle=10_000 * S) is None
    assert not Timeouts(start=S).any_while_running
    assert Timeouts(idle=S).any_while_running


@pytest.mark.parametrize(
    ("ran", "idle", "kind"),
    [
        (59, 9, None),
        (60, 9, FailureKind.TIMEOUT_ATTEMPT),
        (59, 10, FailureKind.TIMEOUT_IDLE),
        # Both are over: the attempt since 1 s, the idle time since 3 s.
        (61, 13, FailureKind.TIMEOUT_IDLE),
        (64, 11, FailureKind.TIMEOUT_ATTEMPT),
    ],
)
def test_the_one_that_was_passed_first_wins(ran: int, idle: int, kind: FailureKind | None) -> None:
    found = first_overrun(Timeouts(attempt=60 * S, idle=10 * S), ran=ran * S, idle=idle * S)
    assert (found.kind if found else None) is kind


def test_the_message_has_the_figures_and_the_trigger_the_kind() -> None:
    found = first_overrun(Timeouts(attempt=60 * S), ran=61.25 * S, idle=S)
    assert found is not None
    assert str(found) == "this attempt ran for 61.2 s; the limit is 60.0 s"
    assert found.trigger == "timeout:attempt"


@pytest.mark.parametrize("begin", ["2026-03-29T01:45:00+01:00", "2026-10-25T02:45:00+02:00"])
def test_a_change_of_the_clocks_changes_no_limit(begin: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    queued_at = datetime.fromisoformat(begin).astimezone(berlin)
    utc = queued_at.astimezone(timezone.utc)
    limits = Timeouts(start=timedelta(minutes=30))

    def at(minutes: float) -> datetime:
        return (utc + timedelta(minutes=minutes)).astimezone(berlin)

    assert start_overrun(limits, queued_at=utc, now=at(29.99)) is None
    found = start_overrun(limits, queued_at=utc, now=at(30))
    assert found is not None
    assert (found.kind, found.took) == (FailureKind.TIMEOUT_START, timedelta(minutes=30))
