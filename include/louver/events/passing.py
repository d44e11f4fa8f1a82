"""Sinks that pass events on: to several others, or only some of them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from louver.errors import ConfigurationError
from louver.events.event import EVENT_TYPES, Event, EventSink

__all__ = ["Everywhere", "Selected", "parse_types"]


def parse_types(text: str) -> frozenset[str]:
    """
    Types of events from ``workflow.*, effect.unknown``; all of them where nothing is said.

    :raises ConfigurationError: for a word that means no type of event.
    """
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in EVENT_TYPES):
            raise ConfigurationError(
                f"{pattern!r} is no type of event; there are workflow.*, task.*, effect.*, compensation.*, "
                "approval.* and command.*, as effect.unknown"
            )
    return frozenset(
        name for name in EVENT_TYPES if not patterns or any(fnmatchcase(name, one) for one in patterns)
    )


class Selected:
    """
    Passes on some types of events.

    :param types: what :func:`parse_types` returned.
    """

    def __init__(self, sink: EventSink, types: frozenset[str]) -> None:
        self._sink = sink
        self._types = types

    def emit(self, event: Event) -> None:
        """Pass it on, where it is one of them."""
        if event.type in self._types:
            self._sink.emit(event)


class Everywhere:
    """
    Passes events on to several sinks.

    :param sinks: each gets every event, whatever the others do with it.
    """

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)

    def emit(self, event: Event) -> None:
        """
        Pass it on to all of them.

        :raises Exception: what the last of those that failed raised, once all have had the event.
        """
        trouble: Exception | None = None
        for sink in self._sinks:
            try:
                sink.emit(event)
            except Exception as error:
                trouble = error
        if trouble is not None:
            raise trouble
