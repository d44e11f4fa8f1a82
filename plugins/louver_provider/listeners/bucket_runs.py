"""Listener for runs that begin to run: see :mod:`louver_provider.buckets.runs`."""

from __future__ import annotations

import logging
from typing import Any

from airflow.listeners import hookimpl

from louver.clock import SystemClock
from louver.errors import describe

__all__ = ["on_dag_run_running"]

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """A run begins to run, in the scheduler."""
    from louver_provider.cluster_policies import installed

    try:
        router = installed()
        if router is None:
            return
        from louver_provider.buckets.runs import run_started

        run_started(router, dag_run, now=SystemClock().now())
    except Exception as error:
        log.error("louver: the bucket of a run could not be looked after: %s", describe(error))
