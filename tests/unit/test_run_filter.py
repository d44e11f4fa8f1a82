"""Which runs to list: what cannot be meant is refused before any store sees it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from louver.errors import ConfigurationError
from louver.ledger.requests import RunFilter


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_of_another_size_is_refused(limit):
    with pytest.raises(ConfigurationError, match=f"a page holds 1 to 10,000 runs, not {limit}"):
        RunFilter(limit=limit)


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_naive_time_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"{name} must be an aware datetime"):
        RunFilter(**{name: datetime(2026, 1, 2)})  # noqa: DTZ001 - what must be refused


def test_times_of_any_zone_and_pages_of_any_allowed_size_are_fine():
    there = timezone(timedelta(hours=5, minutes=45))
    wanted = RunFilter(since=datetime(2026, 1, 2, tzinfo=there), until=datetime(2026, 1, 3, tzinfo=there))

    assert (wanted.since.tzinfo, wanted.limit) == (there, 100)
    assert [RunFilter(limit=limit).limit for limit in (1, 10_000)] == [1, 10_000]
