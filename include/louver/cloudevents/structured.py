"""
Strict reading of one CloudEvents 1.0.2 event in the JSON format.

Nothing is repaired or filled in: an event is as the specification wants it, or it is refused with the
attribute to blame. Errors name attributes and rules, never values (product row O9).

Where the specification leaves room, this reader decides:

- One object may not name a member twice, anywhere: which of the two counts would depend on the parser, and
  with it the identity of the event.
- An ``id`` of one blank is valid by the letter and taken; a profile may ask for more.
- ``data`` under a content type that is not JSON must be a string (a receiver "MAY fail"; this one does).
- ``dataschema`` is an absolute URI by RFC 3986, section 4.3, which has no fragment.
- ``null`` is the same as absent for attributes and for ``data_base64``, whose schema allows it; for ``data``
  it is a payload. ``data`` and ``data_base64`` together are refused even if one of them is ``null``.
- A byte order mark is refused: RFC 8259 forbids to send one.
- Infinity, NaN and numbers that no double can hold are refused everywhere, and so are lone surrogates, in
  data too: neither survives a store or the canonical form.
- More than :data:`MAX_EVENT_BYTES`, :data:`MAX_NESTING` or :data:`MAX_NUMBER_DIGITS` is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from louver.cloudevents.event import CloudEvent
from louver.cloudevents.grammar import (
    declares_json,
    forbidden_character,
    is_absolute_uri,
    is_media_type,
    is_uri_reference,
)
from louver.errors import EventRejected, TimestampError
from louver.timestamps import parse_rfc3339

__all__ = [
    "MAX_EVENT_BYTES",
    "MAX_NESTING",
    "MAX_NUMBER_DIGITS",
    "event_from_members",
    "parse_event",
    "shown_name",
]

MAX_EVENT_BYTES = 256 * 1024
"""The largest event, in bytes (semantics, section 10)."""

MAX_NESTING = 64
"""How deep lists and objects in ``data`` may lie in one another."""

MAX_NUMBER_DIGITS = 1000
"""The longest number, in characters; Python itself stops at 4300 digits."""

_CORE = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
_REQUIRED = ("specversion", "id", "source", "type")
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_SHOWN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Broken:
    """Stands in the parsed tree for a value that must be refused, until the attribute to blame is known."""

    reason: str


def parse_event(raw: bytes) -> CloudEvent:
    """
    Read one event: CloudEvents 1.0.2, JSON event format, strictly.

    :param raw: the document as received, UTF-8 without a byte order mark, at most :data:`MAX_EVENT_BYTES`.
    :raises EventRejected: with the attribute to blame, or ``None`` for the document as a whole.
    """
    if not isinstance(raw, bytes):
        raise EventRejected(None, f"an event is read from bytes, not from {type(raw).__name__}")
    if not raw:
        raise EventRejected(None, "the document is empty")
    if len(raw) > MAX_EVENT_BYTES:
        raise EventRejected(None, f"the document is larger than {MAX_EVENT_BYTES} bytes")
    if raw.startswith(_BOM):
        raise EventRejected(None, "the document begins with a byte order mark; send plain UTF-8")
    members = _decode(raw)
    if isinstance(members, _Broken):
        raise EventRejected(None, members.reason)
    if not isinstance(members, dict):
        raise EventRejected(None, f"the document must be one JSON object, not {_json_type(members)}")
    return event_from_members(members)


def event_from_members(members: Mapping[str, Any]) -> CloudEvent:
    """
    The event that the members of a JSON object stand for; the half of :func:`parse_event` after the text.

    :param members: as ``json.loads`` gives them.
    :raises EventRejected: as :func:`parse_event`.
    """
    for name, value in members.items():
        if isinstance(value, _Broken):
            raise EventRejected(shown_name(name), value.reason)
    attributes = {
        name: value
        for name, value in members.items()
        if name not in ("data", "data_base64") and value is not None
    }
    for name in _REQUIRED:
        if name not in attributes:
            raise EventRejected(name, "is required")
    for name in members:
        if name != "data_base64" and not _ATTRIBUTE_NAME.fullmatch(name):
            raise EventRejected(shown_name(name), "attribute names are made of a-z and 0-9 alone")
    if _text(attributes, "specversion") != "1.0":
        raise EventRejected("specversion", "must be the string 1.0")
    source = _text(attributes, "source")
    if not is_uri_reference(source):
        raise EventRejected("source", "is not a URI-reference (RFC 3986)")
    time_text = _optional_text(attributes, "time")
    try:
        time = None if time_text is None else parse_rfc3339(time_text)
    except TimestampError as error:
        raise EventRejected("time", str(error)) from None
    media_type = _optional_text(attributes, "datacontenttype")
    if media_type is not None and not is_media_type(media_type):
        raise EventRejected("datacontenttype", "is not a media type (RFC 2046): write type/subtype")
    schema = _optional_text(attributes, "dataschema")
    if schema is not None and not is_absolute_uri(schema):
        raise EventRejected("dataschema", "is not an absolute URI (RFC 3986, section 4.3)")
    if "data" in members and "data_base64" in members:
        raise EventRejected("data_base64", "data and data_base64 exclude each other")
    if "data" in members:
        _check_data(members["data"], media_type)
    return CloudEvent(
        id=_text(attributes, "id"),
        source=source,
        type=_text(attributes, "type"),
        subject=_optional_text(attributes, "subject"),
        time=time,
        time_text=time_text,
        datacontenttype=media_type,
        dataschema=schema,
        extensions={name: _extension(name, value) for name, value in attributes.items() if name not in _CORE},
        data=members.get("data"),
        has_data="data" in members,
        data_base64=_binary(members.get("data_base64")),
    )


def shown_name(name: object) -> str | None:
    """The name of a member if it is short and plain enough for an error; payload may be in a name too."""
    return name if isinstance(name, str) and _SHOWN_NAME.fullmatch(name) else None


def _decode(raw: bytes) -> Any:
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except UnicodeDecodeError:
        raise EventRejected(None, "the document is not UTF-8") from None
    except RecursionError:
        raise EventRejected(None, f"lists and objects lie more than {MAX_NESTING} deep") from None
    except json.JSONDecodeError as error:
        raise EventRejected(
            None, f"the document is not JSON at line {error.lineno} column {error.colno}"
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> Any:
    members: dict[str, Any] = {}
    for name, value in pairs:
        # Marked, not raised: only the caller knows whether this is the event itself or an object in its data.
        members[name] = _Broken("a member occurs twice in one object") if name in members else value
    return members


def _integer(text: str) -> int | _Broken:
    return _Broken("a number is too long") if len(text) > MAX_NUMBER_DIGITS else int(text)


def _float(text: str) -> float | _Broken:
    if len(text) > MAX_NUMBER_DIGITS:
        return _Broken("a number is too long")
    number = float(text)
    return number if math.isfinite(number) else _Broken("a number is too large")


def _constant(_: str) -> _Broken:
    return _Broken("NaN and Infinity are not JSON")


def _text(attributes: Mapping[str, Any], name: str) -> str:
    value = attributes[name]
    if not isinstance(value, str):
        raise EventRejected(name, f"must be a string, not {_json_type(value)}")
    if not value:
        raise EventRejected(name, "must not be empty")
    _check_characters(name, value)
    return value


def _optional_text(attributes: Mapping[str, Any], name: str) -> str | None:
    return _text(attributes, name) if name in attributes else None


def _extension(name: str, value: Any) -> str | bool | int:
    if isinstance(value, str):
        _check_characters(name, value)
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise EventRejected(name, "an Integer must fit into 32 bits with sign")
        return value
    raise EventRejected(name, f"an extension is a string, boolean or whole number, not {_json_type(value)}")


def _check_characters(name: str, value: str) -> None:
    if forbidden_character(value):
        raise EventRejected(name, "has a control character, a lone surrogate or a Unicode noncharacter")


def _binary(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise EventRejected("data_base64", f"must be a string, not {_json_type(value)}")
    try:
        decoded = base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        _refuse_base64()
    # The decoder overlooks bits after the last byte and padding in odd places; one payload has one spelling.
    if base64.b64encode(decoded).decode("ascii") != value:
        _refuse_base64()
    return decoded


def _refuse_base64() -> NoReturn:
    raise EventRejected("data_base64", "is not Base64 with padding (RFC 4648, section 4)")


def _check_data(data: Any, media_type: str | None) -> None:
    if media_type is not None and not declares_json(media_type) and not isinstance(data, str):
        raise EventRejected("data", f"must be a string under this datacontenttype, not {_json_type(data)}")
    for value in _walk(data):
        if isinstance(value, _Broken):
            raise EventRejected("data", value.reason)
        if isinstance(value, float) and not math.isfinite(value):
            raise EventRejected("data", "NaN and Infinity are not JSON")
        if isinstance(value, str) and not _encodable(value):
            raise EventRejected("data", "has a lone surrogate")


def _walk(data: Any) -> Iterator[Any]:
    """Every value and member name in the data; by a stack, since its depth is not known yet."""
    waiting: list[tuple[int, Any]] = [(0, data)]
    while waiting:
        depth, value = waiting.pop()
        yield value
        if isinstance(value, (dict, list)):
            if depth >= MAX_NESTING:
                raise EventRejected("data", f"lists and objects lie more than {MAX_NESTING} deep")
            inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            waiting.extend((depth + 1, item) for item in inner)
        elif value is not None and not isinstance(value, (str, bool, int, float, _Broken)):
            raise EventRejected("data", f"{type(value).__name__} is not a JSON type")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else "a value outside JSON")
