"""All checks, one after the other. One that fails is a finding too, and keeps no other from its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from louver.clock import Clock, SystemClock
from louver.errors import LouverError, describe
from louver_provider.buckets.settings import BucketSettings, load_bucket_settings
from louver_provider.doctor.findings import Finding

__all__ = ["examine"]

_DATABASE = "see that Airflow's database is up and migrated: airflow db check"


def examine(*, clock: Clock | None = None) -> Iterator[Finding]:
    """What is found."""
    now = (clock or SystemClock()).now()
    settings: BucketSettings | None = None
    try:
        settings = load_bucket_settings()
    except LouverError as error:
        yield Finding.error("options", str(error), mend="correct the option; until then nothing is routed")
    else:
        if settings is None:
            yield Finding.fine("options", "there are no buckets; [louver] buckets is empty")
        else:
            yield Finding.fine("options", f"buckets: {settings.policy}")
    yield from _safely("options", _check_options, mend="correct the option")
    yield from _safely("ledger", _check_ledger, mend="see [louver] ledger_url and docs/operations.md")

    def components() -> Iterator[Finding]:
        from louver_provider.doctor.components import (
            check_clocks,
            check_policy,
            check_settings,
            live_schedulers,
            newest,
        )
        from louver_provider.doctor.reports import own_report, read_reports

        own = own_report("this command")
        schedulers = live_schedulers(now=now)
        reports = newest(read_reports(now=now), schedulers, here=own.host)
        if settings is not None:
            yield from check_policy(own, reports, schedulers)
        yield from check_settings(own, reports)
        yield from check_clocks(own, reports)

    def buckets() -> Iterator[Finding]:
        from louver_provider.buckets.pools import read_pools
        from louver_provider.doctor import buckets as checks
        from louver_provider.doctor.queues import in_one_place, served_queues

        found, waiting = read_pools(), checks.read_waiting()
        yield from checks.check_default_pool(found)
        yield from checks.check_unknown_pools(found, waiting)
        if settings is None:
            return
        yield from checks.check_pools(settings, found)
        yield from checks.check_sizes(settings, found, waiting, checks.large_tasks(settings))
        yield from checks.check_owners(settings, waiting)
        yield from checks.check_queues(settings, waiting, served_queues(), one_place=in_one_place())

    def resources() -> Iterator[Finding]:
        from louver_provider.doctor.resources import check_resources

        yield from check_resources(now=now)

    def compensation() -> Iterator[Finding]:
        from louver_provider.doctor.rescue import check_rescue

        yield from check_rescue()

    yield from _safely("components", components, mend=_DATABASE)
    yield from _safely("buckets", buckets, mend=_DATABASE)
    yield from _safely("resources", resources, mend=_DATABASE)
    yield from _safely("compensation", compensation, mend=_DATABASE)


def _safely(check: str, look: Callable[[], Iterator[Finding]], *, mend: str) -> Iterator[Finding]:
    try:
        yield from look()
    except Exception as error:
        yield Finding.error(check, f"could not be looked at: {describe(error)}", mend=mend)


def _check_options() -> Iterator[Finding]:
    from louver_provider.settings import load_settings, load_signing_keys

    load_settings()
    load_signing_keys()
    yield Finding.fine("options", "all options of [louver] can be read")


def _check_ledger() -> Iterator[Finding]:
    from louver_provider.hooks.ledger import get_ledger

    try:
        ledger = get_ledger()
    except ImportError as missing:
        yield Finding.error(
            "ledger",
            f"what the ledger's database needs is missing: {missing.name or 'its driver'} cannot be imported",
            mend="install it in the environment of every component; for Postgres pip install psycopg2-binary",
        )
        return
    counted = ledger.count_states()
    yield Finding.fine("ledger", f"the ledger answers; it holds {sum(counted.runs.values())} runs")
