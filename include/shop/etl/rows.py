"""
From the bytes of a partition to its sales: pure, and nothing in it is trusted.

A row that breaks a rule is counted under the rule's name and left out. A row that came twice counts once;
another sale under a known id is broken, since nobody can say which of the two is meant.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from louver.errors import TimestampError
from louver.timestamps import parse_rfc3339, to_utc
from shop.etl.days import bounds

__all__ = ["COLUMNS", "Reading", "Sale", "read_sales"]

COLUMNS = ("sale_id", "sold_at", "sku", "quantity", "unit_price", "currency")

_MOST_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    """
    One line of a receipt.

    :param sold_at: in UTC.
    :param unit_cents: price of one piece.
    """

    sale_id: str
    sold_at: datetime
    sku: str
    quantity: int
    unit_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What is in a partition.

    :param state: ``ok``; ``empty``, without even a header; or ``wrong_schema``.
    :param sales: in the order of the file.
    :param broken: how many rows broke a rule, by the rule's name.
    :param duplicates: rows that came before, word for word.
    """

    state: str
    sales: tuple[Sale, ...] = ()
    broken: Mapping[str, int]
    duplicates: int = 0


class _Broken(ValueError):
    """Its message is the name of the rule."""


def read_sales(content: bytes, *, day: date) -> Reading:
    """
    The sales of a day.

    A file with a header and no rows is a branch that was closed. An empty one is a transfer that failed.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Reading(state="wrong_schema", broken={})
    lines = csv.reader(io.StringIO(text, newline=""))
    header = next(lines, None)
    if header is None:
        return Reading(state="empty", broken={})
    if tuple(header) != COLUMNS:
        return Reading(state="wrong_schema", broken={})
    sales: dict[str, Sale] = {}
    broken: Counter[str] = Counter()
    duplicates = 0
    for cells in lines:
        try:
            sale = _sale(cells, day=day)
            if sales.setdefault(sale.sale_id, sale) != sale:
                raise _Broken("id_used_twice")
        except _Broken as rule:
            broken[str(rule)] += 1
        else:
            duplicates += sales[sale.sale_id] is not sale
    return Reading(
        state="ok", sales=tuple(sales.values()), broken=dict(sorted(broken.items())), duplicates=duplicates
    )


def _sale(cells: list[str], *, day: date) -> Sale:
    if len(cells) != len(COLUMNS):
        raise _Broken("cells_missing")
    row = dict(zip(COLUMNS, (cell.strip() for cell in cells), strict=True))
    if not row["sale_id"] or not row["sku"]:
        raise _Broken("name_missing")
    if row["currency"] != "EUR":
        raise _Broken("other_currency")
    return Sale(
        sale_id=row["sale_id"],
        sold_at=_moment(row["sold_at"], day=day),
        sku=row["sku"],
        quantity=_quantity(row["quantity"]),
        unit_cents=_cents(row["unit_price"]),
    )


def _moment(text: str, *, day: date) -> datetime:
    try:
        moment = to_utc(parse_rfc3339(text))
    except TimestampError:
        raise _Broken("time_without_offset" if _lacks_offset(text) else "bad_time") from None
    first, after = bounds(day)
    if not first <= moment < after:
        raise _Broken("another_day")
    return moment


def _lacks_offset(text: str) -> bool:
    """Whether that is all that is wrong: 02:30 comes twice in October and never in March."""
    try:
        parse_rfc3339(f"{text}Z")
    except TimestampError:
        return False
    return True


def _quantity(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MOST_AT_ONCE):
        raise _Broken("bad_quantity")
    return int(text)


def _cents(text: str) -> int:
    try:
        cents = Decimal(text) * 100
    except InvalidOperation:
        raise _Broken("bad_price") from None
    if not cents.is_finite() or cents < 0 or cents >= 10**9 or cents != cents.to_integral_value():
        raise _Broken("bad_price")
    return int(cents)
