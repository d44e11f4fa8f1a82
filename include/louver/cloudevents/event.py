"""
The event as a value, its identity and its fingerprint.

Two different questions are asked of an event that arrives again. *Is it the same event?* is answered by
source and id alone (CloudEvents 1.0.2: they MUST be unique together), written as canonical JSON of the pair,
so that no joining character can make ``/a`` + ``b::c`` and ``/a::b`` + ``c`` one. *Does it say the same?* is
answered by a hash over everything else as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import rfc8785

from louver.errors import require_aware

__all__ = ["CloudEvent", "encode_event", "identity", "payload_fingerprint", "run_id_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """
    One CloudEvents 1.0.2 event. Attributes that are absent or ``null`` are ``None``: the specification makes
    no difference between the two. Use :func:`~louver.cloudevents.parse_event` to get one that is known to be
    valid.

    The ``repr`` shows what names the event and leaves out what it carries.

    :param id: as received; with ``source`` it is the event's identity.
    :param source: URI-reference, as received, never normalised.
    :param type: the event type.
    :param subject: or ``None``.
    :param time: aware, in the sender's offset, cut to microseconds; or ``None``.
    :param time_text: the time as the sender wrote it, with every fraction digit; or ``None``.
    :param datacontenttype: media type as received; or ``None``, which for ``data`` means JSON.
    :param dataschema: absolute URI or ``None``.
    :param extensions: the extension attributes by name: ``str``, ``bool`` or 32-bit ``int``.
    :param data: the JSON value of the ``data`` member; ``None`` also where there is none.
    :param has_data: whether there is a ``data`` member, so that a ``null`` payload and no payload stay apart.
    :param data_base64: the decoded bytes of ``data_base64``; ``None`` where there is none.
    """

    id: str
    source: str
    type: str
    subject: str | None = field(default=None, repr=False)
    time: datetime | None = None
    time_text: str | None = field(default=None, repr=False)
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, str | bool | int] = field(default_factory=dict, repr=False)
    data: Any = field(default=None, repr=False)
    has_data: bool = False
    data_base64: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.time is not None:
            require_aware("time", self.time)


def identity(event: CloudEvent) -> str:
    """The canonical JSON (RFC 8785) of ``[source, id]``: equal exactly for the same event."""
    return rfc8785.dumps([event.source, event.id]).decode("utf-8")


def run_id_for(event: CloudEvent) -> str:
    """``evt-`` and 32 hex digits of SHA-256 over the event's identity (semantics, section 10)."""
    return "evt-" + hashlib.sha256(identity(event).encode("utf-8")).hexdigest()[:32]


def payload_fingerprint(event: CloudEvent) -> str:
    """
    64 hex digits of SHA-256 over all that the event says.

    White space, the order of members and ``null`` attributes make no difference; any other value of any
    attribute, extension or data does. The time counts as written: its nanoseconds are part of it, and so is
    the offset. Numbers in data count as read: ``1`` and ``1.0`` differ, two spellings of one double do not,
    and whole numbers are exact at any size (plain RFC 8785 refuses them beyond 2**53, so types are tagged
    first).
    """
    said = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "subject": event.subject,
        "time": _time_text(event),
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        "extensions": _tagged(dict(event.extensions)),
        "data": [_tagged(event.data)] if event.has_data else [],
        "data_base64": _base64_text(event.data_base64),
    }
    return hashlib.sha256(rfc8785.dumps(said)).hexdigest()


def encode_event(event: CloudEvent) -> bytes:
    """
    The event in the JSON format, which :func:`~louver.cloudevents.parse_event` reads back to an equal value.

    It is meant for events that were never bytes, such as one made from a form. Of a received event keep the
    bytes.
    """
    members: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
    }
    optional = {
        "subject": event.subject,
        "time": _time_text(event),
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
    }
    members.update({name: value for name, value in optional.items() if value is not None})
    members.update(event.extensions)
    if event.has_data:
        members["data"] = event.data
    if event.data_base64 is not None:
        members["data_base64"] = _base64_text(event.data_base64)
    return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _time_text(event: CloudEvent) -> str | None:
    if event.time_text is not None or event.time is None:
        return event.time_text
    return event.time.isoformat()


def _base64_text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _tagged(value: Any) -> Any:
    """The value with its numbers as tagged text. Objects are tagged too, or data could spell a tag."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, Mapping):
        return {"object": {name: _tagged(member) for name, member in value.items()}}
    return [_tagged(item) for item in value]
