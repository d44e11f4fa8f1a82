"""Checks of the other processes: is the policy live in them, and do all of them have the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psutil
from airflow.configuration import conf
from airflow.jobs.job import Job
from airflow.utils.session import create_session
from sqlalchemy import select

from louver_provider.doctor.findings import Finding, some
from louver_provider.doctor.reports import Report

__all__ = ["LiveScheduler", "check_clocks", "check_policy", "check_settings", "live_schedulers", "newest"]

_MOST_SKEW = 2.0
"""Seconds. Leases are taken for a minute, and their expiry is judged with half a minute to spare."""

_SLACK = timedelta(minutes=5)
"""Between the start of a scheduler's job and its report."""

_ESSENTIAL = ("scheduler", "api-server")

_RESTART = "restart it; Louver has to be installed in its environment, with the same [louver] options"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScheduler:
    """
    A scheduler that gives signs of life.

    :param since: when it started, aware.
    """

    host: str
    since: datetime


def live_schedulers(*, now: datetime) -> list[LiveScheduler]:
    """The schedulers that Airflow takes for alive."""
    threshold = timedelta(seconds=conf.getint("scheduler", "scheduler_health_check_threshold", fallback=30))
    query = select(Job.hostname, Job.start_date).where(
        Job.job_type == "SchedulerJob", Job.state == "running", Job.latest_heartbeat > now - threshold
    )
    with create_session(scoped=False) as session:
        return [LiveScheduler(host=host or "", since=since or now) for host, since in session.execute(query)]


def newest(
    reports: Sequence[Report],
    schedulers: Sequence[LiveScheduler],
    *,
    here: str = "",
    alive: Callable[[int], bool] = psutil.pid_exists,
) -> list[Report]:
    """
    The reports that tell of the present.

    :param reports: the newest first.
    :param here: the name of this host, of which it can be told which processes are alive.
    :param alive: whether there is a process with this id on it.
    :returns: of each live scheduler its own. Of API servers, which give no signs of life, those that are
        alive on this host; on any other those that started together with its newest one.
    """
    found: list[Report] = []
    for scheduler in schedulers:
        mine = (
            report
            for report in reports
            if report.component == "scheduler"
            and report.host == scheduler.host
            and report.at > scheduler.since - _SLACK
            and report not in found
        )
        found.extend(report for report in [next(mine, None)] if report is not None)
    last: dict[str, datetime] = {}
    for report in reports:
        if report.component != "api-server":
            continue
        began = last.setdefault(report.host, report.at)
        if alive(report.pid) if report.host == here else report.at > began - _SLACK:
            found.append(report)
    return found


def check_policy(
    own: Report, reports: Sequence[Report], schedulers: Sequence[LiveScheduler]
) -> Iterator[Finding]:
    """The policy acts in this process, and acted in every scheduler and API server when it started."""
    told = {component: [r for r in reports if r.component == component] for component in _ESSENTIAL}
    for report in [own, *reports]:
        if report.trouble is None:
            yield Finding.fine("policy", f"{report.name}: a task instance was routed as it should be")
        else:
            yield Finding.error(
                "policy",
                f"{report.name}: runs are not routed into buckets: {report.trouble}",
                mend="set [louver] buckets there as in every other component, keep airflow_local_settings "
                "free of policies that set pools, and restart it",
            )
    if not schedulers:
        yield Finding.warning("policy", "no scheduler is alive", mend="start airflow scheduler")
    for _ in range(len(schedulers) - len(told["scheduler"])):
        yield Finding.error(
            "policy",
            f"a scheduler on {some({one.host for one in schedulers})} has not said that it knows Louver",
            mend=_RESTART,
        )
    if not told["api-server"]:
        yield Finding.warning("policy", "no API server has said that it knows Louver", mend=_RESTART)


def check_settings(own: Report, reports: Sequence[Report]) -> Iterator[Finding]:
    """All components have the same settings, and the same release."""
    found = False
    for report in reports:
        differing = {
            name
            for name in {*own.settings, *report.settings}
            if own.settings.get(name) != report.settings.get(name)
        }
        if report.version != own.version:
            differing.add(f"the release of Louver ({report.version} there, {own.version} here)")
        if differing:
            found = True
            yield Finding.error(
                "settings",
                f"{report.name} started with other settings than this command: {some(differing, most=20)}",
                mend="give all components the same, and restart those that had others",
            )
    unreadable = {name for name, value in own.settings.items() if value == "unreadable"}
    for name in sorted(unreadable):
        found = True
        yield Finding.error(
            "settings", f"{name} cannot be used here", mend="the checks named options and ledger say why"
        )
    if not found and reports:
        yield Finding.fine("settings", f"{len(reports)} components have the settings of this command")


def check_clocks(own: Report, reports: Sequence[Report]) -> Iterator[Finding]:
    """No clock is far from that of the database: leases and approvals expire by it."""
    told = [report for report in [own, *reports] if report.skew is not None]
    for report in told:
        skew = report.skew or 0.0
        if abs(skew) > _MOST_SKEW:
            ahead = "ahead of" if skew > 0 else "behind"
            yield Finding.error(
                "clock",
                f"{report.name}: its clock is {abs(skew):.1f} s {ahead} that of Airflow's database",
                mend="have all machines keep time by NTP",
            )
    if told and all(abs(report.skew or 0.0) <= _MOST_SKEW for report in told):
        yield Finding.fine("clock", f"{len(told)} clocks are within {_MOST_SKEW:g} s of the database's")
