"""
Typed values, canonical bytes and fingerprints.

RFC 8785 alone would refuse ``2**53 + 1`` and could not tell ``1`` from ``1.0`` or a tuple from a list. So a
value is tagged with its types, and that is written canonically. What cannot make the round trip exactly is
refused where it is saved, with its path (semantics section 5).

Plain JSON scalars that RFC 8785 keeps apart (str, bool, None) stand as they are; everything else is a
one-member object ``{"tag": ...}``. A dict is tagged too, so that data can never be mistaken for a tag.
Numbers are tagged text, so of RFC 8785 only the rules for text, order and white space are left to keep.

Value and bytes are turned into each other directly, one stack frame for each level: a tree of tagged objects
between them would take several times the memory of a large value. Reading is lenient, and then all is written
again: bytes that do not come out the same were not written here.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, TypeAlias
from uuid import UUID

from louver.errors import IntegrityError, ValueRefused

__all__ = ["MAX_DEPTH", "Canonical", "canonical_bytes", "encode", "fingerprint", "load_bytes", "plain_json"]

MAX_DEPTH = 200
"""How deep a value may nest; deeper is refused instead of ending in a RecursionError."""

_MAX_BITS = 14_000
"""Largest int, in bits."""

_MAX_DIGITS = 4_216
"""What the largest int takes, with its sign."""

_SMALL_BITS, _SMALL_DIGITS = 2_000, 603
"""Ints that every process writes and reads: Python stops at 4300 digits, and can be told to stop at 640."""

_Place: TypeAlias = "tuple[_Place, str | int | None] | None"
"""Where a part stands: in what, and under which key or index (None in a set). Spelled out when refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """
    A value that was written once, where both its fingerprint and its envelope are wanted.

    :func:`canonical_bytes`, :func:`~louver.canonical.fingerprint` and :func:`~louver.signing.seal` take it in
    the value's place: as a whole, not as a part of another value.

    :param raw: what :func:`canonical_bytes` returned.
    """

    raw: bytes = field(repr=False)

    @classmethod
    def of(cls, value: Any) -> Canonical:
        """
        ``value``, written.

        :raises ValueRefused: as :func:`canonical_bytes`.
        """
        return cls(raw=canonical_bytes(value))

    @property
    def fingerprint(self) -> str:
        """That of the value, see :func:`~louver.canonical.fingerprint`."""
        return hashlib.sha256(self.raw).hexdigest()


def canonical_bytes(value: Any) -> bytes:
    """
    RFC 8785 bytes of the tagged ``value``: equal values give equal bytes on every machine.

    :param value: str, bool, int, finite float, None, list, dict with str keys, aware datetime, date, Decimal,
        UUID, bytes, tuple or set, nested at most :data:`MAX_DEPTH` deep. Subclasses are refused, since they
        would come back as their base. Of a datetime the instant, the wall clock time and the offset come
        back; the name of its zone, and with it the zone's rules, does not.
    :raises ValueRefused: for everything else, with the path of the offending part.
    """
    if type(value) is Canonical:
        return value.raw
    return _WRITERS.get(type(value), _foreign)(value, None, 0)


def encode(value: Any) -> Any:
    """
    ``value`` as tagged JSON: what :func:`canonical_bytes` writes, as a tree.

    :raises ValueRefused: as :func:`canonical_bytes`.
    """
    return json.loads(canonical_bytes(value))


def fingerprint(value: Any) -> str:
    """
    SHA-256 over the canonical bytes, as 64 hex digits.

    Key order does not matter; ``1`` and ``1.0``, a list and a tuple, and two Unicode spellings of one text
    are different (case F08). It detects change; it is no signature.

    :raises ValueRefused: as :func:`canonical_bytes`.
    """
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def load_bytes(raw: bytes) -> Any:
    """
    The value behind :func:`canonical_bytes`.

    :raises IntegrityError: where that would not write the same bytes for any value.
    """
    # No error from another one here: its text may quote the value.
    try:
        text = raw.decode("utf-8")
        value, end = _read(text, 0, 0, {})
    except ValueError:
        raise IntegrityError("stored bytes are not JSON") from None
    if end != len(text):
        raise IntegrityError("stored bytes hold more than one value")
    del text
    try:
        again = canonical_bytes(value)
    except ValueRefused:
        raise IntegrityError("a stored value is outside the typed value rules") from None
    if again != raw:
        raise IntegrityError("stored bytes are not canonical")
    return value


def plain_json(value: Any) -> bool:
    """Whether ``value`` is made of JSON types alone, so that showing it as JSON loses nothing."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(plain_json(item) for item in value)
    if kind is dict:
        return all(type(key) is str and plain_json(item) for key, item in value.items())
    return value is None or kind in (str, bool, int)


# Writing: for each type a function of the value, its place, and the number of containers around it.


def _path(place: _Place) -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append("{}" if part is None else f"[{part}]" if type(part) is int else f".{part}")
    return "$" + "".join(reversed(parts))


def _foreign(value: Any, place: _Place, depth: int) -> bytes:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    base = next((base for base in kind.__mro__ if base in _WRITERS), None)
    if base is not None:
        raise ValueRefused(
            _path(place), f"{name} would come back as {base.__name__}; convert it to that first"
        )
    raise ValueRefused(
        _path(place),
        f"{name} does not survive a round trip; allowed are str, bool, int, float, None, list, dict, "
        "datetime, date, Decimal, UUID, bytes, tuple and set",
    )


def _text(value: str, place: _Place, depth: int) -> bytes:
    try:
        # It escapes what RFC 8785 escapes, in the same way, and nothing else.
        return encode_basestring(value).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueRefused(_path(place), "a lone surrogate is no Unicode text") from None


def _int(value: int, place: _Place, depth: int) -> bytes:
    bits = value.bit_length()
    if bits <= _SMALL_BITS:
        return b'{"int":"%d"}' % value
    if bits > _MAX_BITS:
        raise ValueRefused(_path(place), f"an int has more than {_MAX_BITS} bits; use bytes")
    return b'{"int":"%b"}' % str(Decimal(value)).encode("ascii")


def _float(value: float, place: _Place, depth: int) -> bytes:
    if not math.isfinite(value):
        raise ValueRefused(_path(place), "NaN and Infinity are not values; use None or a str")
    return b'{"float":"%b"}' % value.hex().encode("ascii")


def _datetime_in(text: str) -> datetime:
    """The datetime that its ISO form tells. Python itself takes an offset of less than a second for none."""
    value = datetime.fromisoformat(text)
    sign, offset = text[-16:-15], text[-15:]
    if sign not in ("+", "-") or not offset.startswith("00:00:00."):
        return value
    behind = timedelta(microseconds=int(offset[-6:]))
    return value.replace(tzinfo=timezone(-behind if sign == "-" else behind))


def _datetime(value: datetime, place: _Place, depth: int) -> bytes:
    try:
        aware = value.utcoffset() is not None
    except Exception:
        # Code of whoever wrote the time zone.
        raise ValueRefused(_path(place), "the time zone of a datetime does not tell its offset") from None
    if not aware:
        raise ValueRefused(_path(place), "a naive datetime has no place in time; give it a time zone")
    # Kept as written, with its offset: the instant and the wall clock time both survive.
    return b'{"datetime":"%b"}' % value.isoformat().encode("ascii")


def _decimal(value: Decimal, place: _Place, depth: int) -> bytes:
    if not value.is_finite():
        raise ValueRefused(_path(place), "a Decimal must be finite")
    # The exponent's "E" is small where the thread's decimal context says so.
    return b'{"decimal":"%b"}' % str(value).upper().encode("ascii")


def _dict(value: dict[Any, Any], place: _Place, depth: int) -> bytes:
    depth = _deeper(value, place, depth)
    ascii_keys = True
    for key in value:
        if type(key) is not str:
            raise ValueRefused(_path(place), f"a dict key is {type(key).__name__}; keys must be str")
        ascii_keys = ascii_keys and key.isascii()
    members = []
    for key in sorted(value) if ascii_keys else sorted(value, key=_utf16):
        item = value[key]
        try:
            name = encode_basestring(key).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueRefused(f"{_path(place)} (a key)", "a lone surrogate is no Unicode text") from None
        members.append(b"%b:%b" % (name, _WRITERS.get(type(item), _foreign)(item, (place, key), depth)))
    return b'{"dict":{%b}}' % b",".join(members)


def _utf16(key: str) -> bytes:
    # RFC 8785 sorts by UTF-16 units, which puts U+10000 before U+E000. A lone surrogate is refused later.
    return key.encode("utf-16-be", "surrogatepass")


def _sequence(form: bytes) -> Callable[[Any, _Place, int], bytes]:
    def write(value: Any, place: _Place, depth: int) -> bytes:
        depth = _deeper(value, place, depth)
        items = []
        for index, item in enumerate(value):
            items.append(_WRITERS.get(type(item), _foreign)(item, (place, index), depth))
        return form % b",".join(items)

    return write


def _set(value: set[Any], place: _Place, depth: int) -> bytes:
    depth = _deeper(value, place, depth)
    items = []
    for item in value:
        items.append(_WRITERS.get(type(item), _foreign)(item, (place, None), depth))
    raw = b'{"set":[%b]}' % b",".join(sorted(items))
    # In an hour that a clock shows twice, a time of that zone equals no time of another zone (PEP 495). Read
    # back, with a fixed offset, it may.
    if b'{"datetime":"' in raw and len(_read(raw.decode("utf-8"), 0, 0, {})[0]) != len(value):
        raise ValueRefused(_path(place), "two datetimes of a set are one instant and would come back as one")
    return raw


def _deeper(value: Any, place: _Place, depth: int) -> int:
    if depth >= MAX_DEPTH and value:
        raise ValueRefused(_path(place), f"nested deeper than {MAX_DEPTH} levels")
    return depth + 1


_WRITERS: dict[type, Callable[[Any, _Place, int], bytes]] = {
    str: _text,
    bool: lambda value, _place, _depth: b"true" if value else b"false",
    type(None): lambda _value, _place, _depth: b"null",
    int: _int,
    float: _float,
    datetime: _datetime,
    date: lambda value, _place, _depth: b'{"date":"%b"}' % value.isoformat().encode("ascii"),
    Decimal: _decimal,
    UUID: lambda value, _place, _depth: b'{"uuid":"%b"}' % str(value).encode("ascii"),
    bytes: lambda value, _place, _depth: b'{"bytes":"%b"}' % binascii.b2a_base64(value, newline=False),
    dict: _dict,
    list: _sequence(b'{"list":[%b]}'),
    tuple: _sequence(b'{"tuple":[%b]}'),
    set: _set,
}


# Reading: from a place in the text to the value that begins there and the place where it ends.

_PART = re.compile(
    r'"([^"\\]*)"'
    r'|\{"([a-z]+)":"([^"\\]*)"\}'
    r"|(null|true|false)"
    r'|\{"dict":(\{)'
    r'|\{"(list|tuple|set)":\['
)
_TEXT, _TAG, _SCALAR, _CONSTANT, _DICT, _SEQUENCE = range(1, 7)
"""The groups of :data:`_PART`."""

_NAME = re.compile(r'"([^"\\]*)"')
_JSON = json.JSONDecoder()
_CONSTANTS = {"null": None, "true": True, "false": False}
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda items: items,
    "tuple": tuple,
    "set": set,
}


def _read_int(text: str) -> int:
    if len(text) <= _SMALL_DIGITS:
        return int(text)
    if len(text) > _MAX_DIGITS or not text.lstrip("-").isdecimal():
        raise ValueError
    return int(Decimal(text))


_SCALARS: dict[str, Callable[[str], Any]] = {
    "int": _read_int,
    "float": float.fromhex,
    "datetime": _datetime_in,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": binascii.a2b_base64,
}


def _read(text: str, at: int, depth: int, names: dict[str, str]) -> tuple[Any, int]:
    """
    :param names: the keys so far; one that comes again is the same object.
    :raises ValueError: where text is not JSON text.
    :raises IntegrityError: where a part is not in the typed form.
    """
    part = _PART.match(text, at)
    if part is None:
        return _read_escaped(text, at)
    group, at = part.lastindex, part.end()
    if group == _TEXT:
        return part[_TEXT], at
    if group == _SCALAR:
        return _made(part[_TAG], part[_SCALAR], _SCALARS), at
    if group == _CONSTANT:
        return _CONSTANTS[part[_CONSTANT]], at
    if depth > MAX_DEPTH:
        raise _not_typed()
    if group == _SEQUENCE:
        items = []
        more = not text.startswith("]", at)
        while more:
            item, at = _read(text, at, depth + 1, names)
            items.append(item)
            more = text.startswith(",", at)
            at += more
        if not text.startswith("]}", at):
            raise _not_typed()
        return _made(part[_SEQUENCE], items, _SEQUENCES), at + 2
    members = {}
    more = not text.startswith("}", at)
    while more:
        found = _NAME.match(text, at)
        name, at = (found[1], found.end()) if found is not None else _read_escaped(text, at)
        if not text.startswith(":", at):
            raise _not_typed()
        members[names.setdefault(name, name)], at = _read(text, at + 1, depth + 1, names)
        more = text.startswith(",", at)
        at += more
    if not text.startswith("}}", at):
        raise _not_typed()
    return members, at + 2


def _read_escaped(text: str, at: int) -> tuple[str, int]:
    if not text.startswith('"', at):
        raise _not_typed()
    found: tuple[str, int] = _JSON.raw_decode(text, at)
    return found


def _made(tag: str, content: Any, readers: dict[str, Callable[[Any], Any]]) -> Any:
    reader = readers.get(tag)
    if reader is None:
        raise _not_typed()
    try:
        return reader(content)
    except (ValueError, TypeError, ArithmeticError):
        raise IntegrityError(f"a stored {tag} cannot be read back") from None


def _not_typed() -> IntegrityError:
    return IntegrityError("a stored value is not in the typed form")
