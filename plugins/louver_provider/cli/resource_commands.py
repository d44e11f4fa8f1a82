"""Body of ``airflow louver resources``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from louver.clock import SystemClock
from louver.ledger.contract import Ledger
from louver.ledger.records import PermitRecord
from louver.semaphores import ResourceLimit, Stage
from louver.timestamps import to_utc_text
from louver_provider.cli.common import BAD_USAGE, fail, louver_command, show, user
from louver_provider.cli.listings import age
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import Settings, load_settings

__all__ = ["resources"]

Row = dict[str, Any]

_CONFIGURED = "configuration"
_ORDER = (Stage.HELD, Stage.GRANTED, Stage.WAITING)


@louver_command
def resources(args: Namespace) -> None:
    """``airflow louver resources [list|permits|set|unset]``"""
    changes = args.what in ("set", "unset")
    if changes and args.resource is None:
        fail(f"{args.what} needs the name of a resource", BAD_USAGE)
    if args.what != "set" and (args.limit is not None or args.rate is not None):
        fail("--limit and --rate belong to set", BAD_USAGE)
    if args.what == "set" and args.limit is None and args.rate is None:
        fail("set needs --limit, --rate, or both", BAD_USAGE)
    settings, ledger, now = load_settings(), get_ledger(), SystemClock().now()
    if args.what == "set":
        limit = ResourceLimit.checked(args.resource, limit=args.limit, rate=args.rate)
        ledger.set_resource(limit, by=user() or "somebody", terms=settings.permits.terms, now=now)
    elif args.what == "unset" and not ledger.unset_resource(
        args.resource, limits=settings.permits.limits, terms=settings.permits.terms, now=now
    ):
        fail(f"nothing is set for {args.resource!r}")
    if changes:
        # What is configured counts at once, also for those that wait already.
        ledger.settle_permits(limits=settings.permits.limits, terms=settings.permits.terms, now=now)
    permits = ledger.list_permits()
    rows = _permits(permits, now) if args.what == "permits" else _resources(ledger, settings, permits, now)
    show(args, [row for row in rows if args.resource in (None, row["resource"])])


def _resources(
    ledger: Ledger, settings: Settings, permits: Sequence[PermitRecord], now: datetime
) -> list[Row]:
    known: dict[str, tuple[ResourceLimit, str]] = {
        name: (limit, _CONFIGURED) for name, limit in settings.permits.limits.items()
    }
    known |= {row.resource: (row.limit, row.set_by or _CONFIGURED) for row in ledger.list_resources()}
    rows = []
    for name, (limit, set_by) in sorted(known.items()):
        mine = [permit for permit in permits if name in permit.units]
        waiting = [permit for permit in mine if permit.stage is Stage.WAITING]
        oldest = min((permit.wanted_at for permit in waiting), default=None)
        rows.append(
            {
                "resource": name,
                "limit": limit.limit,
                "rate": None if limit.rate is None else str(limit.rate),
                "set_by": set_by,
                "tags": ", ".join(settings.permits.tags.tags_of(name)) or None,
                "in_use": sum(permit.units[name] for permit in mine if permit.stage is not Stage.WAITING),
                "waiting": len(waiting),
                "oldest_wait": None if oldest is None else age(oldest, now),
            }
        )
    return rows


def _permits(permits: Sequence[PermitRecord], now: datetime) -> list[Row]:
    ordered = sorted(
        permits, key=lambda permit: (_ORDER.index(permit.stage), -permit.priority, permit.sequence)
    )
    return [
        {
            "resource": name,
            "units": units,
            "stage": str(permit.stage),
            "dag_id": permit.dag_id,
            "run_id": permit.run_id,
            "task_id": permit.task_id,
            "map_index": permit.map_index,
            "priority": permit.priority,
            "since": age(permit.granted_at or permit.wanted_at, now),
            "until": None if permit.until is None else to_utc_text(permit.until),
        }
        for permit in ordered
        for name, units in permit.units.items()
    ]
