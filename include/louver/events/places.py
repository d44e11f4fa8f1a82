"""Where events are to go, as a configuration says it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from louver.errors import ConfigurationError
from louver.events.cloud import CloudForm
from louver.events.event import EventSink
from louver.events.file import FileSink

__all__ = ["sinks_at"]


def sinks_at(
    places: str, form: CloudForm, *, secret: bytes | None = None, timeout: float = 2.0
) -> list[EventSink]:
    """
    The sinks of ``file:///path/events.jsonl, https://host/path``, in order.

    They are slow, and may fail: put each behind a :class:`~louver.events.background.Background`.

    :param secret: signs what goes over HTTP.
    :param timeout: seconds for each step of an exchange over HTTP.
    :raises ConfigurationError: for a place that cannot be used; it is named by its number alone, since a URL
        may hold a secret.
    """
    sinks: list[EventSink] = []
    named = [place.strip() for place in places.split(",") if place.strip()]
    for number, place in enumerate(named, 1):
        try:
            sinks.append(_sink(place, form, secret, timeout))
        except ConfigurationError as error:
            raise ConfigurationError(f"place {number}: {error}") from None
    return sinks


def _sink(place: str, form: CloudForm, secret: bytes | None, timeout: float) -> EventSink:
    scheme = place.partition("://")[0].lower()
    if scheme in ("http", "https"):
        # Loaded only now: what a client needs is a matter of who has one.
        from louver.events.http import HttpSink

        return HttpSink(place, form, secret=secret, timeout=timeout)
    if scheme != "file":
        raise ConfigurationError("give file:///path/events.jsonl or https://host/path")
    parts = urlsplit(place)
    if parts.netloc or parts.query or parts.fragment or not parts.path.strip("/"):
        raise ConfigurationError("a file for events is written file:///absolute/path/events.jsonl")
    return FileSink(Path(unquote(parts.path)), form)
