"""Column types that bring every value back as it was written, on SQLite as on Postgres."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from sqlalchemy import TIMESTAMP, BigInteger, Boolean, Dialect, Double, LargeBinary, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from louver.timestamps import format_utc, to_utc

__all__ = ["EnumText", "TextTuple", "UtcTime", "binary", "flag", "number", "real", "text"]


def text() -> TypeEngine[str]:
    """
    Text that is ordered by code points.

    As SQLite and Python do it; Postgres would otherwise sort by the collation of the database, and its
    indexes would depend on the C library's version.
    """
    return Text().with_variant(Text(collation="C"), "postgresql")


def number() -> TypeEngine[int]:
    """A whole number of 64 bits on every store."""
    return BigInteger()


def real() -> TypeEngine[float]:
    """A float of 64 bits on every store."""
    return Double()


def flag() -> TypeEngine[bool]:
    """Yes or no."""
    return Boolean()


def binary() -> TypeEngine[bytes]:
    """Bytes as they are."""
    return LargeBinary()


class UtcTime(TypeDecorator[datetime]):
    """
    A moment, exact to the microsecond; aware UTC comes back.

    ``timestamptz`` on Postgres. SQLite has no type for it: there it is text of fixed length, so that the
    order of text is the order of time.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the column in that database."""
        kind = TIMESTAMP(timezone=True) if dialect.name == "postgresql" else Text()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """From the record to the database."""
        if value is None:
            return None
        return to_utc(value) if dialect.name == "postgresql" else format_utc(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """From the database to the record."""
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc)
        # Before Python 3.11 fromisoformat() does not know the final Z.
        return datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=timezone.utc)


def _of_dialect(dialect: Dialect) -> TypeEngine[Any]:
    return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())


class EnumText(TypeDecorator[Enum]):
    """
    A member of a text enumeration, kept as its value: a new member needs no migration.

    :param kind: the enumeration.
    """

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__()
        self.kind = kind

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the column in that database; ordered as :func:`text` is."""
        return _of_dialect(dialect)

    def process_bind_param(self, value: Enum | None, dialect: Dialect) -> str | None:
        """From the record to the database."""
        return None if value is None else str(self.kind(value).value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Enum | None:
        """From the database to the record."""
        return None if value is None else self.kind(value)


class TextTuple(TypeDecorator[tuple[str, ...]]):
    """A tuple of text, kept as a JSON list."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the column in that database; ordered as :func:`text` is."""
        return _of_dialect(dialect)

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str | None:
        """From the record to the database."""
        return None if value is None else json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...] | None:
        """From the database to the record."""
        return None if value is None else tuple(json.loads(value))
