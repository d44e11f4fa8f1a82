"""CloudEvents 1.0.2 in the JSON format: a strict reader, identity, and profiles of what a Dag takes."""

from __future__ import annotations

from louver.cloudevents.event import CloudEvent, encode_event, identity, payload_fingerprint, run_id_for
from louver.cloudevents.profiles import EventProfile, OrderProfile
from louver.cloudevents.structured import MAX_EVENT_BYTES, parse_event

__all__ = [
    "MAX_EVENT_BYTES",
    "CloudEvent",
    "EventProfile",
    "OrderProfile",
    "encode_event",
    "identity",
    "parse_event",
    "payload_fingerprint",
    "run_id_for",
]
