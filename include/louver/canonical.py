"""
Typed values, canonical bytes and fingerprints.

RFC 8785 alone would refuse ``2**53 + 1`` and could not tell ``1`` from ``1.0`` or a tuple from a list. So a
value is tagged with its types first (:func:`encode`), and only then written canonically. What cannot make the
round trip exactly is refused where it is saved, with its path (semantics section 5).

Plain JSON scalars that RFC 8785 keeps apart (str, bool, None) stand as they are; everything else is a
one-member object ``{"tag": ...}``. A dict is tagged too, so that data can never be mistaken for a tag.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import rfc8785

from louver.errors import IntegrityError, ValueRefused

__all__ = ["MAX_DEPTH", "canonical_bytes", "decode", "encode", "fingerprint", "load_bytes", "plain_json"]

MAX_DEPTH = 200
"""How deep a value may nest; deeper is refused instead of ending in a RecursionError."""

_MAX_BITS = 14_000
"""Largest int, in bits: Python writes and reads at most 4300 decimal digits."""


def encode(value: Any, path: str = "$") -> Any:
    """
    ``value`` as tagged JSON.

    :param value: str, bool, int, finite float, None, list, dict with str keys, aware datetime, date, Decimal,
        UUID, bytes, tuple or set, nested at most :data:`MAX_DEPTH` deep. Subclasses are refused, since they
        would come back as their base.
    :param path: where ``value`` stands, for the message.
    :raises ValueRefused: for everything else, with the path of the offending part.
    """
    return _encode(value, path, 0)


def _encode(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueRefused(path, f"nested deeper than {MAX_DEPTH} levels")
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if kind is list or kind is tuple:
        items = [_encode(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        return {"list" if kind is list else "tuple": items}
    if kind is dict:
        return {
            "dict": {key: _encode(item, f"{path}.{key}", depth + 1) for key, item in _members(value, path)}
        }
    if kind is set:
        encoded = [_encode(item, f"{path}{{}}", depth + 1) for item in value]
        return {"set": sorted(encoded, key=rfc8785.dumps)}
    scalar = _SCALARS.get(kind)
    if scalar is None:
        raise ValueRefused(
            path,
            f"{kind.__module__}.{kind.__qualname__} does not survive a round trip; allowed are str, bool, "
            "int, float, None, list, dict, datetime, date, Decimal, UUID, bytes, tuple and set",
        )
    return scalar(value, path)


def _members(value: dict[Any, Any], path: str) -> list[tuple[str, Any]]:
    for key in value:
        if type(key) is not str:
            raise ValueRefused(path, f"a dict key is {type(key).__name__}; keys must be str")
        _text(key, f"{path} (a key)")
    return list(value.items())


def _text(value: str, path: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueRefused(path, "a lone surrogate is no Unicode text") from None
    return value


def _int(value: int, path: str) -> Any:
    if value.bit_length() > _MAX_BITS:
        raise ValueRefused(path, f"an int has more than {_MAX_BITS} bits; use bytes")
    return {"int": str(value)}


def _float(value: float, path: str) -> Any:
    if not math.isfinite(value):
        raise ValueRefused(path, "NaN and Infinity are not values; use None or a str")
    return {"float": value.hex()}


def _datetime(value: datetime, path: str) -> Any:
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueRefused(path, "a naive datetime has no place in time; give it a time zone")
    # Kept as written, with its offset: the instant and the wall clock time both survive.
    return {"datetime": value.isoformat()}


def _decimal(value: Decimal, path: str) -> Any:
    if not value.is_finite():
        raise ValueRefused(path, "a Decimal must be finite")
    # The exponent's "E" is small where the thread's decimal context says so.
    return {"decimal": str(value).upper()}


_SCALARS: dict[type, Callable[[Any, str], Any]] = {
    int: _int,
    float: _float,
    datetime: _datetime,
    date: lambda value, _: {"date": value.isoformat()},
    Decimal: _decimal,
    UUID: lambda value, _: {"uuid": str(value)},
    bytes: lambda value, _: {"bytes": base64.b64encode(value).decode("ascii")},
}

_READERS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "int": (str, int),
    "float": (str, float.fromhex),
    "datetime": (str, datetime.fromisoformat),
    "date": (str, date.fromisoformat),
    "decimal": (str, Decimal),
    "uuid": (str, UUID),
    "bytes": (str, lambda text: base64.b64decode(text, validate=True)),
    "list": (list, lambda items: [decode(item) for item in items]),
    "tuple": (list, lambda items: tuple(decode(item) for item in items)),
    "set": (list, lambda items: {decode(item) for item in items}),
    "dict": (dict, lambda members: {key: decode(item) for key, item in members.items()}),
}


def decode(tagged: Any) -> Any:
    """
    The value that :func:`encode` was given.

    :raises IntegrityError: where ``tagged`` is nothing that encode writes.
    """
    if tagged is None or isinstance(tagged, (bool, str)):
        return tagged
    if isinstance(tagged, dict) and len(tagged) == 1:
        ((tag, content),) = tagged.items()
        kind, reader = _READERS.get(tag, (None, None))
        if kind is not None and reader is not None and isinstance(content, kind):
            try:
                return reader(content)
            except (ValueError, TypeError, ArithmeticError, RecursionError):
                # Not from it: its text may quote the value.
                raise IntegrityError(f"a stored {tag} cannot be read back") from None
    raise IntegrityError("a stored value is not in the typed form")


def canonical_bytes(value: Any) -> bytes:
    """
    RFC 8785 bytes of the tagged ``value``: equal values give equal bytes on every machine.

    :raises ValueRefused: as :func:`encode`.
    """
    return rfc8785.dumps(encode(value))


def load_bytes(raw: bytes) -> Any:
    """
    The value behind :func:`canonical_bytes`.

    :raises IntegrityError: where the bytes are not such.
    """
    try:
        tagged = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise IntegrityError("stored bytes are not JSON") from error
    return decode(tagged)


def fingerprint(value: Any) -> str:
    """
    SHA-256 over the canonical bytes, as 64 hex digits.

    Key order does not matter; ``1`` and ``1.0``, a list and a tuple, and two Unicode spellings of one text
    are different (case F08). It detects change; it is no signature.

    :raises ValueRefused: as :func:`encode`.
    """
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def plain_json(value: Any) -> bool:
    """Whether ``value`` is made of JSON types alone, so that showing it as JSON loses nothing."""
    if value is None or type(value) in (str, bool, int, float):
        return True
    if type(value) is list:
        return all(plain_json(item) for item in value)
    if type(value) is dict:
        return all(plain_json(item) for item in value.values())
    return False
