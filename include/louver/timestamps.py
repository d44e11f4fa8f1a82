"""
RFC 3339 date-times: read strictly, written in one form.

``datetime.fromisoformat`` takes week dates, basic format, comma fractions and a blank for the ``T``; an event
that passes here and fails at the next receiver is worse than one refused at once. So the grammar of RFC 3339,
section 5.6, is the whole of what is read, and what Python cannot hold is refused with a reason.

What this module decides where the RFC leaves room:

- Fraction digits beyond microseconds are cut off, never rounded: rounding up could move the date.
- The offset is kept as given. A valid text may lie outside the years 1 to 9999 in UTC
  (``0001-01-01T00:00:00+01:00``), so nothing is converted before somebody asks; aware datetimes compare,
  subtract and hash without it.
- Second 60 is taken at the 27 leap seconds there were (section 5.7 and appendix D), and becomes the last
  microsecond before midnight UTC: a datetime has no second 60, and the next day would be another date.
- Year 0000 is in the grammar and refused: ``datetime`` begins at year 1.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo

from louver.errors import TimestampError

__all__ = ["format_utc", "parse_rfc3339", "to_utc", "to_utc_text"]

# [0-9], since \d takes the digits of every script; fullmatch, since $ lets a last newline through.
_DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)

# The UTC days that ended with 23:59:60 (IERS Bulletin C). None was negative; none is announced.
_LEAP_JUNE = (1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015)
_LEAP_DECEMBER = (
    *(1972, 1973, 1974, 1975, 1976, 1977, 1978, 1979, 1987, 1989, 1990),
    *(1995, 1998, 2005, 2008, 2016),
)
_LEAP_DAYS = frozenset(
    [*(date(year, 6, 30) for year in _LEAP_JUNE), *(date(year, 12, 31) for year in _LEAP_DECEMBER)]
)


def parse_rfc3339(text: object) -> datetime:
    """
    Read one RFC 3339 date-time (section 5.6), with nothing before or after it.

    :param text: the date-time; ``t`` and ``z`` may be lower case. Anything but a ``str`` is refused.
    :returns: an aware datetime in the offset of the text, cut to microseconds. Use :func:`to_utc_text` to
        show it in UTC: conversion by ``astimezone`` overflows at both ends of the calendar.
    :raises TimestampError: the text is no RFC 3339 date-time, or one that a datetime cannot hold. The message
        names the reason and not the text.
    """
    if not isinstance(text, str):
        raise TimestampError(f"an RFC 3339 date-time must be a string, not {type(text).__name__}")
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise TimestampError(
            "not an RFC 3339 date-time; write YYYY-MM-DDThh:mm:ss, an optional .fraction, then Z or +hh:mm"
        )
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    if year == 0:
        raise TimestampError("year 0000 is legal in RFC 3339 but cannot be held; years are 0001 to 9999")
    if hour > 23:
        raise TimestampError("the hour must be 00 to 23")
    if minute > 59:
        raise TimestampError("the minute must be 00 to 59")
    if second > 60:
        raise TimestampError("the second must be 00 to 59, or 60 at a leap second")
    zone = _zone(sign, offset_hour, offset_minute)
    microsecond = int(fraction[:6].ljust(6, "0")) if fraction else 0
    if second == 60:
        second, microsecond = 59, 999_999
    try:
        moment = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=zone)
    except ValueError:
        raise TimestampError("no such day in the calendar") from None
    if match.group(6) == "60" and not _ends_a_leap_day(moment):
        raise TimestampError("second 60 exists only at a leap second, and there was none at this time")
    return moment


def to_utc(moment: datetime) -> datetime:
    """
    The same moment in UTC.

    :raises TimestampError: the moment is naive, or lies outside the years 1 to 9999 in UTC.
    """
    if moment.utcoffset() is None:
        raise TimestampError("a time without an offset cannot be placed in UTC")
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise TimestampError("the time lies outside the years 0001 to 9999 in UTC") from None


def format_utc(moment: datetime) -> str:
    """
    The moment as ``YYYY-MM-DDThh:mm:ss.ffffffZ``: UTC, microseconds, always 27 characters, so that text order
    is time order. This is the form of the audit trail.

    :param moment: an aware datetime.
    :raises TimestampError: as :func:`to_utc`.
    """
    return to_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def to_utc_text(moment: datetime) -> str:
    """
    The moment as RFC 3339 text, for every moment that :func:`parse_rfc3339` returns.

    In the form of :func:`format_utc`, or, where UTC lies outside the years 1 to 9999, with the moment's own
    offset.

    :raises TimestampError: the moment is naive.
    """
    try:
        return format_utc(moment)
    except TimestampError:
        if moment.utcoffset() is None:
            raise
        return moment.isoformat(timespec="microseconds")


def _zone(sign: str | None, hours: str | None, minutes: str | None) -> tzinfo:
    if sign is None or hours is None or minutes is None:
        return timezone.utc
    if int(hours) > 23:
        raise TimestampError("the hour of the offset must be 00 to 23")
    if int(minutes) > 59:
        raise TimestampError("the minute of the offset must be 00 to 59")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    # "-00:00" says that UTC is known and the local offset is not (section 4.3); as a moment it is UTC.
    return timezone(-offset if sign == "-" else offset)


def _ends_a_leap_day(moment: datetime) -> bool:
    try:
        utc = to_utc(moment)
    except TimestampError:
        return False
    return utc.date() in _LEAP_DAYS and (utc.hour, utc.minute) == (23, 59)
