"""
What every store holds alike, checked before a store sees it.

Databases differ in what they take: Postgres refuses text with a NUL, SQLite text with half a surrogate pair,
a dictionary takes anything. So that a value accepted by one store is accepted by all, and comes back the
same, both stores ask here first.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, TypeVar

from louver.errors import TimestampError, ValueRefused
from louver.ledger.records import RECORDS, Record
from louver.timestamps import to_utc

__all__ = ["FIELDS", "VALUES", "require_fields", "require_storable", "storable"]

T = TypeVar("T", bound=Record)


FIELDS: dict[type[Record], tuple[str, ...]] = {
    kind: tuple(entry.name for entry in fields(kind)) for kind in RECORDS
}
"""The names of the fields of each record class, in order."""


VALUES: dict[type[Record], attrgetter[tuple[Any, ...]]] = {
    kind: attrgetter(*names) for kind, names in FIELDS.items()
}
"""How to take all values of a record at once, in the order of :data:`FIELDS`."""

_TIMES = {kind: [entry.name for entry in fields(kind) if "datetime" in entry.type] for kind in RECORDS}
_TUPLES = {kind: [entry.name for entry in fields(kind) if "tuple" in entry.type] for kind in RECORDS}


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
    kind = type(record)
    values = VALUES[kind](record)
    # All text in one look: this stands before every row that is written.
    text = "".join([value for value in values if type(value) is str])
    if not text.isascii() or "\0" in text:
        for name, value in zip(FIELDS[kind], values, strict=True):
            if isinstance(value, str):
                require_storable(name, value)
    for name in _TUPLES[kind]:
        require_storable(name, getattr(record, name))
    moved: dict[str, Any] = {}
    for name in _TIMES[kind]:
        moment = getattr(record, name)
        if moment is not None and moment.tzinfo is not timezone.utc:
            moved[name] = _in_utc(name, moment)
    return replace(record, **moved) if moved else record


def _in_utc(name: str, value: datetime) -> datetime:
    try:
        return to_utc(value)
    except TimestampError as error:
        raise ValueRefused(f"$.{name}", str(error)) from None
