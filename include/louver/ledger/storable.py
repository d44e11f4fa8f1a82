"""
What every store holds alike, checked before a store sees it.

Databases differ in what they take: Postgres refuses text with a NUL, SQLite text with half a surrogate pair,
a dictionary takes anything. So that a value accepted by one store is accepted by all, and comes back the
same, both stores ask here first.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from louver.errors import TimestampError, ValueRefused
from louver.ledger.records import RECORDS, Record
from louver.timestamps import to_utc

__all__ = ["FIELDS", "require_fields", "require_storable", "storable"]

T = TypeVar("T", bound=Record)


FIELDS: dict[type[Record], tuple[str, ...]] = {
    kind: tuple(entry.name for entry in fields(kind)) for kind in RECORDS
}
"""The names of the fields of each record class, in order."""


def require_fields(kind: type[Record], names: Any) -> None:
    """
    Refuse names that are not fields of the record class.

    :raises TypeError: where one is not; a mistake of the caller's code.
    """
    unknown = sorted(set(names).difference(FIELDS[kind]))
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {', '.join(unknown)}")


def require_storable(name: str, value: Any) -> None:
    """
    Refuse what not every store can hold or look for: text with a NUL or half a surrogate pair, naive times.

    :raises ValueRefused: naming the field, never the value.
    """
    if isinstance(value, str):
        if "\0" in value:
            raise ValueRefused(f"$.{name}", "text with a NUL cannot be stored")
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueRefused(f"$.{name}", "text with half a surrogate pair cannot be stored") from None
    elif isinstance(value, datetime):
        _in_utc(name, value)
    elif isinstance(value, tuple):
        for item in value:
            require_storable(name, item)


def storable(record: T) -> T:
    """
    The record as every store gives it back: its times in UTC, all else unchanged.

    :raises ValueRefused: as :func:`require_storable`.
    """
    moved: dict[str, Any] = {}
    for name in FIELDS[type(record)]:
        value = getattr(record, name)
        if isinstance(value, datetime):
            if value.tzinfo is not timezone.utc:
                moved[name] = _in_utc(name, value)
        else:
            require_storable(name, value)
    return replace(record, **moved) if moved else record


def _in_utc(name: str, value: datetime) -> datetime:
    try:
        return to_utc(value)
    except TimestampError as error:
        raise ValueRefused(f"$.{name}", str(error)) from None
