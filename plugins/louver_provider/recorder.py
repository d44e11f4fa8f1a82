"""
Writing into the ledger for a process that must not wait for it: Airflow's API server.

A thread of its own does the writing, one thing after the other. Whoever hands something in waits a moment, so
that usually it stands there when the server answers; a ledger that is down, or hangs, costs no more than that
moment. What is not recorded is found later by the reconciler, the task's next process or the closing tasks.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable

from louver.errors import describe

__all__ = ["record_soon"]

log = logging.getLogger(__name__)

_PATIENCE = 2.0
_MOST = 1000

Work = Callable[[], None]


class _Recorder:
    """One thread, and what it still has to do."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._work: queue.Queue[tuple[Work, threading.Event]] = queue.Queue(_MOST)
        self._late = threading.Event()
        # A daemon: a ledger that hangs must not keep the server from ending.
        threading.Thread(target=self._run, name="louver-recorder", daemon=True).start()

    def record(self, work: Work) -> None:
        done = threading.Event()
        try:
            self._work.put_nowait((work, done))
        except queue.Full:
            log.error(
                "louver: too much waits for the ledger; what was just done in Airflow is recorded later"
            )
            return
        # While it is stuck, nobody waits for it again.
        if not self._late.is_set() and not done.wait(_PATIENCE):
            self._late.set()

    def _run(self) -> None:
        said = ""
        while True:
            work, done = self._work.get()
            try:
                work()
                said = ""
            except Exception as error:
                trouble = describe(error)
                # Once for each trouble, until it works again: a ledger that is away would fill the log.
                if trouble != said:
                    log.error(
                        "louver: what was just done in Airflow could not be recorded; it is found later: %s",
                        trouble,
                    )
                said = trouble
            finally:
                done.set()
                self._late.clear()


_RECORDERS: list[_Recorder] = []
_LOCK = threading.Lock()


def record_soon(work: Work) -> None:
    """
    Have it done, and wait a moment for that.

    :param work: writes into the ledger; may raise.
    """
    with _LOCK:
        # Airflow's server may fork its workers: a thread of the parent does nothing in the child.
        if not _RECORDERS or _RECORDERS[0].pid != os.getpid():
            _RECORDERS[:] = [_Recorder()]
        recorder = _RECORDERS[0]
    recorder.record(work)
