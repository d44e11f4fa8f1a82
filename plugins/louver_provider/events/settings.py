"""The options about events, and where Airflow wants metrics and traces."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow.configuration import conf

from louver.errors import ConfigurationError
from louver.events.cloud import DEFAULT_SOURCE, CloudForm
from louver.events.event import EventSink
from louver.events.passing import parse_types
from louver.events.places import sinks_at

__all__ = ["OPTIONS", "EventSettings", "load_event_settings"]

OPTIONS = {
    "events": "",
    "events_types": "",
    "events_secret": "",
    "events_source": DEFAULT_SOURCE,
    "events_timeout": "2.0",
}
"""The options of ``[louver]`` that concern events, with their defaults."""

_SECTION = "louver"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """
    What is configured.

    :param sinks: places to go to, each slow; empty where nothing is said.
    :param types: which events go there.
    :param timeout: seconds for a step of an exchange over HTTP, and that a task's end waits for what is left.
    :param metrics: whether Airflow wants metrics.
    :param traces: whether Airflow wants traces.
    """

    sinks: tuple[EventSink, ...] = field(repr=False)
    types: frozenset[str]
    timeout: float
    metrics: bool
    traces: bool

    @property
    def anything(self) -> bool:
        """Whether anybody wants to be told of anything."""
        return bool(self.sinks) or self.metrics or self.traces


def load_event_settings() -> EventSettings:
    """
    The settings in force.

    :raises ConfigurationError: naming the option that cannot be used, and what it may be.
    """
    timeout = _timeout()
    secret = _text("events_secret")
    try:
        form = CloudForm(_text("events_source"))
    except ConfigurationError as error:
        raise ConfigurationError(f"[{_SECTION}] events_source: {error}") from None
    try:
        sinks = sinks_at(
            _text("events"), form, secret=secret.encode("utf-8") if secret else None, timeout=timeout
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"[{_SECTION}] events: {error}") from None
    try:
        types = parse_types(_text("events_types"))
    except ConfigurationError as error:
        raise ConfigurationError(f"[{_SECTION}] events_types: {error}") from None
    return EventSettings(
        sinks=tuple(sinks),
        types=types,
        timeout=timeout,
        metrics=any(_wanted("metrics", name) for name in ("statsd_on", "statsd_datadog_enabled", "otel_on")),
        traces=_wanted("traces", "otel_on"),
    )


def _wanted(section: str, option: str) -> bool:
    return bool(conf.getboolean(section, option, fallback=False))


def _timeout() -> float:
    text = _text("events_timeout")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.05 <= value <= 60:
        raise ConfigurationError(
            f"[{_SECTION}] events_timeout must be a number of seconds from 0.05 to 60, not {text!r}"
        )
    return value


def _text(option: str) -> str:
    return str(conf.get(_SECTION, option, fallback=OPTIONS[option]))
