"""
Listener for Airflow's components: the scheduler brings the embedded reconciler with it, makes the pools of
buckets, and leaves a report for the doctor.

A listener must never disturb its process: trouble is logged, and the scheduler runs without.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from airflow.listeners import hookimpl

__all__ = ["before_stopping", "on_starting"]

log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: Any) -> None:
    """A component starts."""
    from louver_provider.reconciler.embedded import is_scheduler, start_embedded

    try:
        if not is_scheduler(component):
            return
        start_embedded()
    except Exception as error:
        log.error("louver: the embedded reconciler is off: %s", error)
    from louver_provider.buckets.start import scheduler_starts

    scheduler_starts()
    from louver_provider.preload import preload

    try:
        preload()
    except Exception as error:
        log.warning("louver: each step imports for itself what it needs: %s", error)


@hookimpl
def before_stopping(component: Any) -> None:
    """A component stops."""
    from louver_provider.reconciler.embedded import stop_embedded

    try:
        stop_embedded()
    except Exception as error:
        log.error("louver: the embedded reconciler could not be told to stop: %s", error)
    # Only a process that has used the ledger has events to see off; others load nothing for it.
    events = sys.modules.get("louver_provider.events.sinks")
    if events is not None:
        try:
            events.flush_events()
        except Exception as error:
            log.error("louver: events that were under way may be lost: %s", error)
