"""Whether somebody wakes the steps that wait for a resource."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from airflow.configuration import conf
from airflow.jobs.job import Job
from airflow.utils.session import create_session
from sqlalchemy import func, select

from louver.semaphores import Stage
from louver_provider.doctor.findings import Finding, some
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["check_resources"]

_START = "start airflow triggerer"


def check_resources(*, now: datetime) -> Iterator[Finding]:
    """There is a triggerer where resources have limits, or at least a reconciler."""
    settings, ledger = load_settings(), get_ledger()
    limited = {*settings.permits.limits, *(row.resource for row in ledger.list_resources())}
    if not limited:
        yield Finding.fine("resources", "no resource has a limit")
        return
    waiting = sum(permit.stage is not Stage.HELD for permit in ledger.list_permits())
    what = f"limits of {some(limited)}; {waiting} steps wait"
    if _triggerers(now=now):
        yield Finding.fine("resources", f"{what}, and a triggerer wakes them")
    elif settings.reconciler == "off":
        yield Finding.error(
            "resources",
            f"{what}, and nobody wakes them: no triggerer is alive and [louver] reconciler is off",
            mend=f"{_START}, or set [louver] reconciler",
        )
    else:
        yield Finding.warning(
            "resources",
            f"{what}; no triggerer is alive, so the reconciler wakes them, seconds later",
            mend=_START,
        )


def _triggerers(*, now: datetime) -> int:
    threshold = timedelta(seconds=conf.getint("triggerer", "triggerer_health_check_threshold", fallback=30))
    query = select(func.count(Job.id)).where(
        Job.job_type == "TriggererJob", Job.state == "running", Job.latest_heartbeat > now - threshold
    )
    with create_session(scoped=False) as session:
        return session.scalar(query) or 0
