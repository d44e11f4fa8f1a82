"""The step of the Dag behind the pipeline: totals by week, made anew from what the days have now."""

from __future__ import annotations

from datetime import date
from typing import Any

from shop.etl.warehouse import transaction

__all__ = ["weekly_totals"]


def weekly_totals() -> list[dict[str, Any]]:
    """Add the days up by ISO week and region, and write that down; an upsert."""
    weeks: dict[tuple[str, str], dict[str, Any]] = {}
    with transaction() as warehouse:
        for day, region, cents in warehouse.execute("SELECT day, region, cents FROM daily_totals"):
            year, week, _ = date.fromisoformat(day).isocalendar()
            key = f"{year}-W{week:02}", region
            total = weeks.setdefault(key, {"week": key[0], "region": region, "days": 0, "cents": 0})
            total["days"] += 1
            total["cents"] += cents
        totals = [weeks[key] for key in sorted(weeks)]
        warehouse.executemany(
            "INSERT OR REPLACE INTO weekly_totals VALUES (:week, :region, :days, :cents)", totals
        )
    return totals
