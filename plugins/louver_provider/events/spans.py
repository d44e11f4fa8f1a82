"""
Events in Airflow's own traces: on the span of the task that runs, where there is one that is recorded.

An effect that has ended is a span of its own below it. Who exports them, and whether, is Airflow's setting.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from louver.events.event import Event

__all__ = ["ATTRIBUTES", "SPANS", "AirflowSpans"]

SPANS = ("louver.effect", "louver.compensation")
"""The spans that there can be."""

ATTRIBUTES = ("louver.state", "louver.generation", "louver.attempt")
"""What is said of a task on its own span."""


class AirflowSpans:
    """Writes on the span that is current in the thread that writes the ledger."""

    def emit(self, event: Event) -> None:
        """Write it on the current span; nothing where there is none."""
        from opentelemetry import trace

        span = trace.get_current_span()
        if not span.is_recording():
            return
        attributes: dict[str, Any] = {
            f"louver.{name}": value for name, value in event.data.items() if name not in ("dag_id", "run_id")
        }
        span.add_event(f"louver.{event.type}", attributes, timestamp=_nanoseconds(event.time))
        family, _, _ = event.type.partition(".")
        if family == "task":
            said = (event.state, event.generation or 0, event.attempt or 0)
            span.set_attributes(dict(zip(ATTRIBUTES, said, strict=True)))
        if f"louver.{family}" in SPANS and event.seconds is not None:
            end = _nanoseconds(event.time)
            tracer = trace.get_tracer(__name__)
            begun = end - round(event.seconds * 1e9)
            tracer.start_span(f"louver.{family}", start_time=begun, attributes=attributes).end(end)


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1e9)
