"""
Connects a process's ledger with whoever wants events, and sees them off when a task process ends.

Observation fails open (product row T13): options that cannot be used are said in the log, and the ledger
works without. Where nobody wants anything, the ledger has no observer, and costs what it cost before.
"""

from __future__ import annotations

import logging
from time import monotonic

from louver.errors import ConfigurationError, describe
from louver.events.background import Background
from louver.events.event import EventSink
from louver.events.observer import observe
from louver.events.passing import Everywhere, Selected
from louver.ledger.contract import Ledger
from louver_provider.events.settings import EventSettings, load_event_settings

__all__ = ["flush_events", "observe_as_configured"]

log = logging.getLogger(__name__)

_LINES: list[tuple[Background, float]] = []


def observe_as_configured(ledger: Ledger) -> None:
    """Have events of what the ledger writes go where ``[louver] events`` says, and to Airflow's telemetry."""
    try:
        settings = load_event_settings()
        if settings.anything:
            observe(ledger, _sink(settings))
    except ConfigurationError as error:
        log.error("louver [events.off] no events are told: %s", error)
    except Exception as error:
        # Whatever is missing of Airflow's telemetry, it is not worth a step.
        log.error("louver [events.off] no events are told: %s", describe(error))


def _sink(settings: EventSettings) -> EventSink:
    lines = [Background(sink, patience=settings.timeout) for sink in settings.sinks]
    _LINES[:] = [(line, settings.timeout) for line in lines]
    sinks: list[EventSink] = [Selected(line, settings.types) for line in lines]
    if settings.metrics:
        from louver_provider.events.metrics import AirflowMetrics, airflow_stats

        sinks.append(AirflowMetrics(airflow_stats()))
    if settings.traces:
        from louver_provider.events.spans import AirflowSpans

        sinks.append(AirflowSpans())
    return Everywhere(sinks)


def flush_events() -> None:
    """
    Wait for events that are under way, no longer than ``events_timeout`` in all.

    A task process ends without Python's own end, so nobody else would.
    """
    left = max((timeout for _, timeout in _LINES), default=0.0)
    until = monotonic() + left
    for line, _ in _LINES:
        line.flush(max(until - monotonic(), 0.0))
