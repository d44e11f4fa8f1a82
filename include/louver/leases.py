"""Keeping a lease alive while its holder is inside a call that may take long."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from louver.errors import LedgerError

__all__ = ["kept_alive"]

log = logging.getLogger(__name__)


@contextmanager
def kept_alive(renew: Callable[[], None], *, every: float) -> Iterator[None]:
    """
    Call ``renew`` every so many real seconds until the context is left.

    A renewal that fails is logged and tried again: the call inside cannot be taken back, and the lease says
    only how long nobody else may take its outcome for unknown.

    :param every: seconds between renewals; a third of the lease leaves room for two misses.
    """
    done = threading.Event()

    def keep() -> None:
        while not done.wait(every):
            try:
                renew()
            except LedgerError as error:
                log.warning("a lease could not be renewed: %s", error)

    keeper = threading.Thread(target=keep, name="louver-lease", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
