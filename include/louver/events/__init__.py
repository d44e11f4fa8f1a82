"""
What Louver tells the outside: events through one sink (product row W12).

:func:`~louver.events.observer.observe` has a ledger tell a sink of all that it writes.
"""

from __future__ import annotations

from louver.events.event import EVENT_TYPES, Event, EventSink

__all__ = ["EVENT_TYPES", "Event", "EventSink"]
