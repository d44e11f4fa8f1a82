from __future__ import annotations

import json
from datetime import datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.errors import TimestampError
from louver.timestamps import format_utc, parse_rfc3339, to_utc, to_utc_text

CASES = Path(__file__).parent.parent / "cases" / "rfc3339.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]

OFFSETS = st.integers(-(24 * 60 - 1), 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize("row", ROWS, ids=[row["why"] for row in ROWS])
def test_every_case_comes_out_as_marked(row: dict[str, Any]) -> None:
    if row["valid"]:
        moment = parse_rfc3339(row["timestamp"])
        assert moment.utcoffset() is not None
        assert parse_rfc3339(to_utc_text(moment)) == moment
    else:
        with pytest.raises(TimestampError):
            parse_rfc3339(row["timestamp"])


def test_cases_are_all_there() -> None:
    assert sum(row["valid"] for row in ROWS) >= 10
    assert sum(not row["valid"] for row in ROWS) >= 19


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01t12:00:00z", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01T12:00:00.1Z", "2026-03-01T12:00:00.100000Z"),
        ("2026-03-01T23:59:59.9999999Z", "2026-03-01T23:59:59.999999Z"),
        ("2026-03-01T12:00:00+14:00", "2026-02-28T22:00:00.000000Z"),
        ("2026-03-01T12:00:00-23:59", "2026-03-02T11:59:00.000000Z"),
        ("2026-03-01T12:00:00-00:00", "2026-03-01T12:00:00.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_the_moment_is_the_one_written(text: str, utc: str) -> None:
    assert format_utc(parse_rfc3339(text)) == utc


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0000-01-01T00:00:00Z", "year 0000"),
        ("2026-03-01T24:00:00Z", "hour"),
        ("2026-03-01T12:60:00Z", "minute"),
        ("2026-03-01T12:00:61Z", "second"),
        ("2026-03-01T12:00:00+24:00", "hour of the offset"),
        ("2026-03-01T12:00:00+01:60", "minute of the offset"),
        ("2026-02-30T12:00:00Z", "calendar"),
        ("2026-03-01T12:34:60Z", "leap second"),
        ("2026-03-01T12:00:00", "RFC 3339"),
        ("2026-03-01T12:00:00.Z", "RFC 3339"),
        (" 2026-03-01T12:00:00Z", "RFC 3339"),
        ("\N{FULLWIDTH DIGIT TWO}026-03-01T12:00:00Z", "RFC 3339"),
        ("2026-03-01T12:00:00\N{MINUS SIGN}01:00", "RFC 3339"),
    ],
)
def test_the_error_names_the_reason_and_not_the_text(text: str, reason: str) -> None:
    with pytest.raises(TimestampError, match=reason) as caught:
        parse_rfc3339(text)
    assert text not in str(caught.value)


@pytest.mark.parametrize("value", [None, 1772366400, 1.5, b"2026-03-01T12:00:00Z", True])
def test_only_strings_are_read(value: object) -> None:
    with pytest.raises(TimestampError, match=type(value).__name__):
        parse_rfc3339(value)


@pytest.mark.parametrize(
    "text",
    [
        "1990-12-31T23:59:60Z",
        "1990-12-31T15:59:60-08:00",
        "2015-07-01T08:59:60.75+09:00",
        "2016-12-31T23:59:60Z",
    ],
)
def test_a_leap_second_becomes_the_last_microsecond_of_its_day(text: str) -> None:
    moment = to_utc(parse_rfc3339(text))
    assert moment.time() == time.max
    assert (moment.month, moment.day) in {(6, 30), (12, 31)}


@pytest.mark.parametrize(
    "text",
    [
        "2016-12-31T22:59:60Z",
        "2016-12-31T23:59:60+01:00",
        "2017-12-31T23:59:60Z",
        "2016-06-30T23:59:60Z",
        "0001-01-01T00:59:60+01:00",
    ],
)
def test_second_60_at_any_other_time_is_refused(text: str) -> None:
    with pytest.raises(TimestampError, match="leap second"):
        parse_rfc3339(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_outside_the_calendar_in_utc_is_a_value_all_the_same(text: str) -> None:
    moment = parse_rfc3339(text)
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    assert (moment < now) is text.startswith("0001")
    assert isinstance(now - moment, timedelta)
    assert {moment: 1}[parse_rfc3339(text)] == 1
    assert parse_rfc3339(to_utc_text(moment)) == moment
    with pytest.raises(TimestampError, match="outside the years"):
        to_utc(moment)
    with pytest.raises(TimestampError, match="outside the years"):
        format_utc(moment)


def test_naive_times_are_refused() -> None:
    naive = datetime(2026, 3, 1, tzinfo=timezone.utc).replace(tzinfo=None)
    for render in (to_utc, format_utc, to_utc_text):
        with pytest.raises(TimestampError, match="without an offset"):
            render(naive)


@given(st.datetimes(timezones=OFFSETS))
def test_what_is_written_is_read_back(moment: datetime) -> None:
    assert parse_rfc3339(moment.isoformat(timespec="microseconds")) == moment
    assert parse_rfc3339(to_utc_text(moment)) == moment


@given(st.lists(st.datetimes(timezones=st.just(timezone.utc)), min_size=2))
def test_text_order_is_time_order(moments: list[datetime]) -> None:
    texts = sorted(format_utc(moment) for moment in moments)
    assert [parse_rfc3339(text) for text in texts] == sorted(moments)


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)\n?"))
def test_nothing_but_a_timestamp_error_is_raised(text: str) -> None:
    try:
        moment = parse_rfc3339(text)
    except TimestampError:
        return
    assert text.isascii()
    assert "\n" not in text
    assert to_utc_text(moment)
