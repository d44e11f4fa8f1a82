"""
Delivering events while the work goes on (product row T13).

A thread for each process takes events from a bounded queue and hands them to the sink one by one, in order.
It is made at the first event, so a process that forks before it writes has none, and a child makes its own.
What the queue cannot hold, and what the sink refuses, is counted and gone: the ledger has the truth.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque

from louver.errors import ConfigurationError, describe
from louver.events.event import Event, EventSink

__all__ = ["Background"]

log = logging.getLogger(__name__)

_MOST = 10_000


class Background:
    """
    A sink that never keeps whoever writes waiting.

    :param sink: may take its time, and may fail.
    :param most: events that may wait; further ones are dropped.
    :param patience: seconds that the interpreter's end waits for what is left; 0 for no wait.
    """

    def __init__(self, sink: EventSink, *, most: int = _MOST, patience: float = 2.0) -> None:
        if most < 1:
            raise ConfigurationError(f"at least one event must be able to wait, not {most}")
        self._sink = sink
        self._most = most
        self._patience = patience
        self._line: _Line | None = None

    def emit(self, event: Event) -> None:
        """Have it delivered."""
        line = self._line
        # No lock: one that the parent held at a fork would stay so. Two lines made at once both deliver.
        if line is None or line.pid != os.getpid():
            line = self._line = _Line(self._sink, self._most, self._patience)
        line.add(event)

    def flush(self, seconds: float) -> bool:
        """Wait until all is delivered or given up, at most so long; whether it is. Says what was lost."""
        line = self._line
        return True if line is None or line.pid != os.getpid() else line.flush(seconds)

    @property
    def delivered(self) -> int:
        """Events of this process that the sink has taken."""
        return self._line.delivered if self._line is not None else 0

    @property
    def failed(self) -> int:
        """Events of this process that the sink has refused."""
        return self._line.failed if self._line is not None else 0

    @property
    def dropped(self) -> int:
        """Events of this process that found the queue full."""
        return self._line.dropped if self._line is not None else 0


class _Line:
    """The queue and the thread of one process."""

    def __init__(self, sink: EventSink, most: int, patience: float) -> None:
        self.pid = os.getpid()
        self.delivered = self.failed = self.dropped = 0
        self._sink = sink
        self._most = most
        self._waiting: deque[Event] = deque()
        self._busy = False
        self._changed = threading.Condition()
        self._trouble: str | None = None
        self._lost_before = 0
        self._gave_up = False
        # A daemon: a sink that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name="louver-events", daemon=True).start()
        if patience > 0:
            atexit.register(self._at_exit, patience)

    def _at_exit(self, patience: float) -> None:
        # Whoever has waited in vain already does not wait twice.
        if self.pid == os.getpid() and not self._gave_up:
            self.flush(patience)

    def add(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) >= self._most:
                self.dropped += 1
                return
            self._waiting.append(event)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        with self._changed:
            while self._waiting or self._busy:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            open_still = len(self._waiting) + self._busy
            self._gave_up = open_still > 0
            lost = self.failed + self.dropped + open_still
        if lost > self._lost_before:
            log.warning(
                "louver [events.lost] %s events not delivered: %s refused, %s too many, %s not in time",
                lost,
                self.failed,
                self.dropped,
                open_still,
            )
            self._lost_before = lost
        return not open_still

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                event = self._waiting.popleft()
                self._busy = True
            trouble = self._deliver(event)
            with self._changed:
                if trouble is None:
                    self.delivered += 1
                else:
                    self.failed += 1
                self._busy = False
                self._changed.notify_all()

    def _deliver(self, event: Event) -> str | None:
        """Hand it over; what went wrong, where something did."""
        try:
            self._sink.emit(event)
        except Exception as error:
            trouble = describe(error)
            # Once for each trouble, until it works again.
            if trouble != self._trouble:
                log.warning("louver [events.failed] an event was not taken: %s", trouble)
            self._trouble = trouble
            return trouble
        self._trouble = None
        return None
