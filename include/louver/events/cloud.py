"""An event as CloudEvents 1.0.2 has it, in the JSON format; our own strict reader takes it."""

from __future__ import annotations

from urllib.parse import quote

from louver.cloudevents.event import CloudEvent, encode_event
from louver.cloudevents.grammar import is_uri_reference
from louver.errors import ConfigurationError
from louver.events.event import Event

__all__ = ["DEFAULT_SOURCE", "CloudForm"]

DEFAULT_SOURCE = "/louver"

_FORBIDDEN = "?#"


class CloudForm:
    """
    Writes events as CloudEvents.

    :param source: what their ``source`` begins with: a URI-reference that names this installation.
    :raises ConfigurationError: where it is none, or has a query or fragment.
    """

    def __init__(self, source: str = DEFAULT_SOURCE) -> None:
        if not source or not is_uri_reference(source) or any(mark in source for mark in _FORBIDDEN):
            raise ConfigurationError(
                f"the source of events must be a URI or a path without query and fragment, not {source!r}"
            )
        self._source = source.rstrip("/")

    def event(self, event: Event) -> CloudEvent:
        """The CloudEvent: ``type`` is ``com.louver.<type>.v1``, ``source`` ends with ``/dags/<dag_id>``."""
        return CloudEvent(
            id=event.id,
            source=f"{self._source}/dags/{quote(event.dag_id, safe='', errors='backslashreplace')}",
            type=f"com.louver.{event.type}.v1",
            # The empty text is no subject.
            subject=event.subject or None,
            time=event.time,
            datacontenttype="application/json",
            data=event.data,
            has_data=True,
        )

    def encoded(self, event: Event) -> bytes:
        """Its JSON, on one line."""
        return encode_event(self.event(event))
