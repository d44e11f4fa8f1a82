"""
What of a value can stand in an XCom row: itself, where nothing on the way changes it, or words about it.

The way is long: Airflow's serializer, a message to the supervisor, the API server, a JSON column, and back.
Each has its own idea of a value, so only what all of them leave alone goes that way (tried on Airflow 3.3.2
with SQLite, and on a jsonb column of PostgreSQL 15).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

__all__ = ["described", "survives_row"]

_DEPTH = 64
"""How deep a value in a row may nest: API servers and browsers parse it too."""

_EXACT = 2**53 - 1
"""Largest int that a browser shows exactly; the supervisor's messages end at 64 bits."""

_RESERVED = "__"
"""How the keys begin that Airflow's serializers take for their own: it refuses them, or makes an object."""

_SHOWN_DEPTH = 20
_SHOWN_BYTES = 64


def survives_row(value: Any, *, limit: int) -> bool:
    """
    Whether the value comes back equal and of the same type from an XCom row, and is small enough for one.

    :param limit: the most bytes that its JSON in UTF-8 may take.
    """
    # SQLite takes a bare number in a JSON column for a number of its own: 1.0 comes back as 1.
    return type(value) is not float and _is_light(value, limit) and len(_json(value)) <= limit


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _is_light(value: Any, budget: int) -> bool:
    """Whether all parts survive, and no more than fit; what is far too large is not walked to its end."""
    for part in _parts(value, 0):
        budget -= len(part) if type(part) is str else 1
        if budget < 0 or not _survives(part):
            return False
    return True


_LOST = object()
"""Stands for a part that no row can hold."""


def _parts(value: Any, depth: int) -> Iterator[Any]:
    """The scalars and the keys in the value, and None for each container."""
    if type(value) is list:
        yield None if depth < _DEPTH else _LOST
        for item in value:
            yield from _parts(item, depth + 1)
    elif type(value) is dict:
        yield None if depth < _DEPTH else _LOST
        for key, item in value.items():
            yield key if type(key) is str and not key.startswith(_RESERVED) else _LOST
            yield from _parts(item, depth + 1)
    else:
        yield value


def _survives(part: Any) -> bool:
    kind = type(part)
    if part is None or kind is bool:
        return True
    if kind is str:
        # A jsonb column takes no NUL.
        return "\0" not in part
    if kind is int:
        return -_EXACT <= part <= _EXACT
    if kind is float:
        return _float_survives(part)
    return False


def _float_survives(value: float) -> bool:
    # A jsonb column writes numbers out: 1e+22 comes back as an int, and -0.0 without its sign.
    text = repr(value)
    return math.isfinite(value) and "e" not in text and text != "-0.0"


def described(value: Any) -> Any:
    """
    The value for the eyes of people, as plain JSON that survives a row; what it was cannot be told from it.

    :param value: a small typed value (:mod:`louver.canonical`).
    """
    return _described(value, 0)


def _described(value: Any, depth: int) -> Any:
    if depth > _SHOWN_DEPTH:
        return "\N{HORIZONTAL ELLIPSIS}"
    kind = type(value)
    if kind in (list, tuple):
        return [_described(item, depth + 1) for item in value]
    if kind is set:
        # Sets have no order of their own; two readers should see the same.
        return sorted((_described(item, depth + 1) for item in value), key=_json)
    if kind is dict:
        members = [(_clean(str(key)), _described(item, depth + 1)) for key, item in value.items()]
        if any(key.startswith(_RESERVED) for key, _ in members):
            return [list(member) for member in members]
        return dict(members)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _clean(value)
    if kind in (int, float):
        return value if _survives(value) else repr(value)
    if kind is bytes:
        return value.hex(" ") if len(value) <= _SHOWN_BYTES else f"{len(value)} bytes"
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if kind in (Decimal, UUID):
        return str(value)
    return kind.__qualname__


def _clean(text: str) -> str:
    return text.replace("\0", "\\0")
