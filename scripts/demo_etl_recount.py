"""
What the table has to show, worked out from the files alone: nothing of the pipeline's code is used here.

Plain rules, plain Python: a row counts where all its cells are there and make sense, its moment lies in the
local day of its folder, and its id was not there before.
"""

from __future__ import annotations

import csv
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

__all__ = ["Total", "recount"]

Total = tuple[int, int, Decimal]
"""Sales, pieces, and what they brought in."""

HEAD = ["sale_id", "sold_at", "sku", "quantity", "unit_price", "currency"]


def recount(landing: Path) -> dict[tuple[str, str], Total]:
    """Total by day and region, over every file that can be read."""
    totals = {}
    for file in sorted(landing.glob("*/*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
        if rows and rows[0] == HEAD:
            totals[file.parent.name, file.stem] = _total(rows[1:], day=file.parent.name)
    return totals


def _total(rows: list[list[str]], *, day: str) -> Total:
    seen: set[str] = set()
    pieces, money = 0, Decimal(0)
    for row in rows:
        if not _makes_sense(row, day=day) or row[0] in seen:
            continue
        seen.add(row[0])
        pieces += int(row[3])
        money += int(row[3]) * Decimal(row[4])
    return len(seen), pieces, money


def _makes_sense(row: list[str], *, day: str) -> bool:
    if len(row) != len(HEAD) or not all(row) or row[5] != "EUR":
        return False
    if not re.fullmatch(r"[1-9]\d{0,2}", row[3]) or not re.fullmatch(r"\d+\.\d\d", row[4]):
        return False
    if not re.fullmatch(r"[\d-]{10}T[\d:]{8}[+-]\d\d:\d\d", row[1]):
        return False
    moment = datetime.fromisoformat(row[1]).astimezone(ZoneInfo("Europe/Berlin"))
    return moment.date().isoformat() == day
