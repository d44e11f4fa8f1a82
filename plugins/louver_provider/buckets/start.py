"""What a scheduler does about buckets when it starts: it makes missing pools, and says what it is."""

from __future__ import annotations

import logging

from louver.errors import describe

__all__ = ["report_start", "scheduler_starts"]

log = logging.getLogger(__name__)


def scheduler_starts() -> None:
    """Make pools that are missing, where that is wanted, and leave a report; trouble is logged."""
    try:
        _provision()
    except Exception as error:
        log.error("louver: the pools of buckets could not be made: %s", describe(error))
    report_start("scheduler")


def _provision() -> None:
    from louver_provider.buckets.settings import load_bucket_settings

    settings = load_bucket_settings()
    if settings is None or not settings.provision:
        return
    from louver_provider.buckets.pools import Change, apply_pools, plan_pools, read_pools

    # Only these: a pool that is there has perhaps been changed by hand, and this start is not about it.
    missing = [pool for pool in plan_pools(settings, read_pools()) if pool.change is Change.CREATE]
    apply_pools(missing)
    if missing:
        log.info("louver [buckets.provisioned] %s pools", len(missing))


def report_start(component: str) -> None:
    """Leave a report for the doctor; trouble is logged."""
    from louver_provider.doctor.reports import write_report

    try:
        write_report(component)
    except Exception as error:
        log.error("louver: this %s could not leave its report: %s", component, describe(error))
