"""
What each scheduler and API server says of itself when it starts, for a doctor in another process.

A row of Airflow's audit log, since all of them can write it and it outlives them. It holds hashes of
settings, never settings: some are secrets, and some name tenants.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow.configuration import conf
from airflow.utils.net import get_hostname

from louver import __version__
from louver.clock import SystemClock
from louver.errors import ConfigurationError, LouverError, describe

__all__ = ["EVENT", "Report", "fingerprints", "own_report", "read_reports", "write_report"]

EVENT = "louver_started"
"""The rows' event."""

KEPT = timedelta(days=30)
"""Older reports are not read: nobody knows any more whether what wrote them is still there."""

_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    One process.

    :param component: ``scheduler``, ``api-server`` or ``cli``.
    :param at: when it started, aware.
    :param trouble: what keeps its cluster policy from acting; None where it acts, or there are no buckets.
    :param settings: hashes of its settings, by name.
    :param skew: seconds by which its clock was ahead of the database's; None where that cannot be told.
    """

    component: str
    host: str
    pid: int
    at: datetime
    version: str
    trouble: str | None
    settings: Mapping[str, str]
    skew: float | None

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.component} on {self.host} (process {self.pid})"


def own_report(component: str) -> Report:
    """What this process has to say of itself."""
    from louver_provider.doctor.clocks import clock_skew
    from louver_provider.doctor.probe import probe_policy

    now = SystemClock().now()
    try:
        trouble = probe_policy(now=now)
    except Exception as error:
        trouble = f"the policy could not be tried: {describe(error)}"
    return Report(
        component=component,
        host=get_hostname(),
        pid=os.getpid(),
        at=now,
        version=__version__,
        trouble=trouble,
        settings=fingerprints(),
        skew=clock_skew(),
    )


def write_report(component: str) -> None:
    """Leave this process's report where a doctor finds it."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    report = own_report(component)
    document = {
        "component": report.component,
        "host": report.host,
        "pid": report.pid,
        "version": report.version,
        "trouble": report.trouble,
        "settings": dict(report.settings),
        "skew": report.skew,
    }
    with create_session(scoped=False) as session:
        session.add(Log(event=EVENT, owner="louver", extra=json.dumps(document)))


def read_reports(*, now: datetime) -> list[Report]:
    """The newest report of each process that has left one, the newest first."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = (
        select(Log.dttm, Log.extra)
        .where(Log.event == EVENT, Log.dttm > now - KEPT)
        .order_by(Log.dttm.desc(), Log.id.desc())
        .limit(1000)
    )
    found: dict[tuple[str, str, int], Report] = {}
    with create_session(scoped=False) as session:
        for at, extra in session.execute(query):
            report = _read(at, extra)
            if report is not None:
                found.setdefault((report.component, report.host, report.pid), report)
    return list(found.values())


def _read(at: datetime, extra: str | None) -> Report | None:
    try:
        document: Any = json.loads(extra or "")
        return Report(at=at, **document)
    except (ValueError, TypeError):
        # Of another release, or by another hand.
        return None


# Of two components with other limits, the one that asked last would count for all.
_RESOURCES = ("resources", "resource_tags", "retry_budgets")


def fingerprints() -> dict[str, str]:
    """A hash of each setting that all components must agree on."""
    from louver_provider.buckets.settings import OPTIONS

    found = {
        f"[louver] {option}": _of(lambda option=option: conf.get("louver", option, fallback=OPTIONS[option]))
        for option in OPTIONS
    }
    for option in _RESOURCES:
        found[f"[louver] {option}"] = _of(lambda option=option: conf.get("louver", option, fallback=""))
    found["[core] xcom_backend"] = _of(lambda: conf.get("core", "xcom_backend", fallback=""))
    found["[louver] ledger_url"] = _of(_ledger)
    found["[louver] signing_keys"] = _of(_keys)
    return found


def _of(read: Callable[[], str]) -> str:
    try:
        return hashlib.sha256(read().encode("utf-8", "surrogatepass")).hexdigest()[:16]
    except LouverError:
        return _UNREADABLE


def _ledger() -> str:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from louver_provider.settings import load_settings

    # Without the password: the hash of a short one could be guessed.
    try:
        url = make_url(load_settings().ledger_url)
    except (ArgumentError, ValueError):
        # Its text may hold the password.
        raise ConfigurationError("[louver] ledger_url cannot be read") from None
    return f"{url.get_backend_name()} {url.host} {url.port} {url.database}"


def _keys() -> str:
    from louver_provider.settings import load_signing_keys

    keys = load_signing_keys()
    # What the keys sign, not the keys. Two homes may each have made one, under the same name.
    return keys.mac(keys.current, b"louver doctor")
