"""The rows of a partition: what counts, what is broken and why, and which day a moment is in."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shop.etl.days import bounds, day_of
from shop.etl.rows import COLUMNS, read_sales

SAMPLE = Path(__file__).parents[2] / "include" / "shop" / "etl" / "data"
DAY = date(2026, 3, 28)
GOOD = ("A-1", "2026-03-28T12:00:00+01:00", "pen", "2", "1.99", "EUR")


def content(*rows: tuple[str, ...], header: tuple[str, ...] = COLUMNS) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


def changed(**cells: str) -> tuple[str, ...]:
    return tuple(cells.get(name, cell) for name, cell in zip(COLUMNS, GOOD, strict=True))


def test_a_good_row_is_a_sale() -> None:
    (sale,) = read_sales(content(GOOD), day=DAY).sales
    assert (sale.sale_id, sale.sku, sale.quantity, sale.unit_cents) == ("A-1", "pen", 2, 199)
    assert sale.sold_at == datetime(2026, 3, 28, 11, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (GOOD[:-1], "cells_missing"),
        ((), "cells_missing"),
        (changed(sale_id=" "), "name_missing"),
        (changed(sku=""), "name_missing"),
        (changed(currency="USD"), "other_currency"),
        (changed(sold_at="noon"), "bad_time"),
        (changed(sold_at="2026-03-28T12:00:00"), "time_without_offset"),
        (changed(sold_at="2026-03-27T23:59:59+01:00"), "another_day"),
        (changed(sold_at="2026-03-29T00:00:00+01:00"), "another_day"),
        *[
            (changed(quantity=text), "bad_quantity")
            for text in ("0", "-1", "1.5", "", "1001", "²", "9" * 5000)
        ],
        *[
            (changed(unit_price=text), "bad_price")
            for text in ("-1", "1.999", "free", "", "NaN", "1e99", "Inf")
        ],
    ],
)
def test_a_broken_row_is_counted_under_its_rule_and_left_out(row: tuple[str, ...], rule: str) -> None:
    reading = read_sales(content(GOOD, row), day=DAY)
    assert (reading.state, len(reading.sales), dict(reading.broken)) == ("ok", 1, {rule: 1})


def test_a_row_that_came_twice_counts_once() -> None:
    reading = read_sales(content(GOOD, GOOD, GOOD), day=DAY)
    assert (len(reading.sales), reading.duplicates, dict(reading.broken)) == (1, 2, {})


def test_another_sale_under_a_known_id_is_broken() -> None:
    reading = read_sales(content(GOOD, changed(quantity="3")), day=DAY)
    assert ([sale.quantity for sale in reading.sales], dict(reading.broken)) == ([2], {"id_used_twice": 1})


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (b"", "empty"),
        (content(), "ok"),
        (b"\xef\xbb\xbf" + content(), "ok"),
        (content(header=COLUMNS[::-1]), "wrong_schema"),
        (b"id;date;amount\n", "wrong_schema"),
        (b"\xff\xfe\x00", "wrong_schema"),
    ],
)
def test_the_state_of_a_file(found: bytes, state: str) -> None:
    assert (read_sales(found, day=DAY).state, read_sales(found, day=DAY).sales) == (state, ())


@given(
    found=st.binary(max_size=300)
    | st.text(max_size=300).map(lambda text: (",".join(COLUMNS) + "\n" + text).encode("utf-8", "replace"))
)
def test_nothing_in_a_file_can_break_the_reader(found: bytes) -> None:
    reading = read_sales(found, day=DAY)
    assert reading.state in {"ok", "empty", "wrong_schema"}
    assert len({sale.sale_id for sale in reading.sales}) == len(reading.sales)


def test_the_hour_that_is_missing_and_the_one_that_is_there_twice() -> None:
    spring, autumn = date(2026, 3, 29), date(2026, 10, 25)
    lengths = {day: bounds(day)[1] - bounds(day)[0] for day in (spring, autumn)}
    assert lengths == {spring: timedelta(hours=23), autumn: timedelta(hours=25)}
    twice = content(
        ("A", "2026-10-25T02:30:00+02:00", "pen", "1", "1.99", "EUR"),
        ("B", "2026-10-25T02:30:00+01:00", "pen", "1", "1.99", "EUR"),
    )
    first, second = read_sales(twice, day=autumn).sales
    assert second.sold_at - first.sold_at == timedelta(hours=1)
    around = content(
        ("A", "2026-03-29T01:59:59+01:00", "pen", "1", "1.99", "EUR"),
        ("B", "2026-03-29T03:00:00+02:00", "pen", "1", "1.99", "EUR"),
    )
    before, after = read_sales(around, day=spring).sales
    assert after.sold_at - before.sold_at == timedelta(seconds=1)


@given(seconds=st.integers(946_684_800, 2_114_380_800))
def test_every_moment_is_in_exactly_the_day_that_holds_it(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    day = day_of(moment)
    holding = [
        each
        for each in (day - timedelta(days=1), day, day + timedelta(days=1))
        if bounds(each)[0] <= moment < bounds(each)[1]
    ]
    assert holding == [day]


def test_a_moment_without_a_time_zone_has_no_day() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        day_of(datetime.fromisoformat("2026-03-29T12:00:00"))


def test_the_sample_has_all_that_can_be_wrong() -> None:
    readings = {
        (file.parent.name, file.stem): read_sales(file.read_bytes(), day=date.fromisoformat(file.parent.name))
        for file in SAMPLE.glob("*/*/*.csv")
    }
    assert len(readings) == 30
    assert {reading.state for reading in readings.values()} == {"ok", "empty", "wrong_schema"}
    assert readings["2026-03-29", "koeln"].sales == ()
    assert readings["2026-03-27", "hamburg"].duplicates == 3
    assert dict(readings["2026-03-29", "berlin"].broken) == {"time_without_offset": 1}
    assert set(readings["2026-03-30", "hamburg"].broken) == {
        "another_day",
        "bad_price",
        "bad_quantity",
        "cells_missing",
        "id_used_twice",
        "name_missing",
        "other_currency",
    }
    total = sum(
        Decimal(sale.quantity * sale.unit_cents) for reading in readings.values() for sale in reading.sales
    )
    assert total > 0
