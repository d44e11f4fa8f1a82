"""
The shop's business day: from midnight to midnight in Berlin, so 23 or 25 hours long twice a year.

Comparing local times would lose an hour in March and count one twice in October; moments are compared.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

__all__ = ["TIME_ZONE", "bounds", "day_of"]

TIME_ZONE = "Europe/Berlin"


def bounds(day: date) -> tuple[datetime, datetime]:
    """First moment of the day, and the first one after it; both in UTC."""
    zone = ZoneInfo(TIME_ZONE)
    first = datetime.combine(day, time.min, tzinfo=zone)
    after = datetime.combine(day + timedelta(days=1), time.min, tzinfo=zone)
    return first.astimezone(timezone.utc), after.astimezone(timezone.utc)


def day_of(moment: datetime) -> date:
    """
    The business day of a moment.

    :raises ValueError: for one without a time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone; without one nobody knows which day it is in")
    return moment.astimezone(ZoneInfo(TIME_ZONE)).date()
