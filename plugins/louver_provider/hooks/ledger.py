"""One ledger for each Airflow process, opened at first use."""

from __future__ import annotations

import os
import threading

from louver.ledger import open_ledger
from louver.ledger.capabilities import require
from louver.ledger.contract import Ledger
from louver.ledger.requests import Capability
from louver_provider.events.sinks import observe_as_configured
from louver_provider.settings import load_settings, load_signing_keys

__all__ = ["get_ledger"]

_LEDGERS: dict[int, Ledger] = {}
_LOCK = threading.Lock()


def get_ledger() -> Ledger:
    """
    This process's ledger.

    Keyed by process id: Airflow forks its workers, and a child must never use a connection of its parent.

    :raises ConfigurationError: where ``[louver]`` cannot be used, or names a ledger that would not do for
        Airflow, whose parts are processes of their own and outlived by what they did.
    :raises LedgerError: where the ledger cannot be opened.
    """
    pid = os.getpid()
    with _LOCK:
        ledger = _LEDGERS.get(pid)
        if ledger is None:
            settings = load_settings()
            ledger = open_ledger(
                settings.ledger_url, load_signing_keys(), max_value_bytes=settings.max_value_bytes
            )
            _require_airflows_needs(ledger)
            observe_as_configured(ledger)
            _LEDGERS.clear()
            _LEDGERS[pid] = ledger
        return ledger


def _require_airflows_needs(ledger: Ledger) -> None:
    try:
        require(ledger, Capability.SHARED, Capability.DURABLE, feature="Airflow")
    except BaseException:
        ledger.close()
        raise
