"""Between the ledger and the sink: nothing that goes wrong here reaches whoever has written (row T13)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime

from louver.errors import ConfigurationError, describe
from louver.events.event import Event, EventSink
from louver.events.telling import events_of, stale_event
from louver.ledger.contract import Ledger
from louver.ledger.records import ApprovalRecord
from louver.ledger.transactions import Transactional
from louver.ledger.witness import RowChange

__all__ = ["EventObserver", "observe"]

log = logging.getLogger(__name__)


class EventObserver:
    """
    Tells a sink of what a ledger writes.

    :param sink: takes the events.
    """

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._said: set[str] = set()
        self._stale: str | None = None
        self.failures = 0
        """How often an event could not be made, or not handed to the sink."""

    def saw(self, changes: Collection[RowChange]) -> None:
        """Tell of changed rows."""
        self._tell(lambda: events_of(changes))

    def saw_stale(self, request: ApprovalRecord, *, now: datetime | None) -> None:
        """Tell of a request that allows nothing any more, once, however often that is found out."""
        if request.request_id == self._stale:
            return
        self._stale = request.request_id
        self._tell(lambda: [stale_event(request, now=now)])

    def _tell(self, make: Callable[[], list[Event]]) -> None:
        try:
            events = make()
        except Exception as error:
            self._count(error)
            return
        for event in events:
            try:
                self._sink.emit(event)
            except Exception as error:
                self._count(error)

    def _count(self, error: Exception) -> None:
        self.failures += 1
        # Once for each kind of trouble: a sink that is broken is so for every event.
        what = describe(error)
        if what not in self._said and len(self._said) < 100:
            self._said.add(what)
            log.warning("louver [events.failed] an event could not be told: %s", what)


def observe(ledger: Ledger, sink: EventSink) -> EventObserver:
    """
    Have the sink told of all that this ledger object writes from now on.

    What other processes, and other ledger objects, write is told by theirs.

    :raises ConfigurationError: for a store that is not built on Louver's operations.
    """
    if not isinstance(ledger, Transactional):
        raise ConfigurationError(
            f"{type(ledger).__name__} cannot be observed: it is no louver.ledger.transactions.Transactional"
        )
    observer = EventObserver(sink)
    ledger.observe(observer)
    return observer
