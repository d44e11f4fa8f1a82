"""Body of ``airflow louver buckets``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from louver.clock import SystemClock
from louver_provider.buckets.pools import BucketPool, Change, apply_pools, plan_pools, read_pools
from louver_provider.buckets.settings import BucketSettings, require_bucket_settings
from louver_provider.buckets.usage import BucketUsage, read_usage
from louver_provider.cli.common import BAD_USAGE, FAILED, fail, louver_command, show
from louver_provider.cli.listings import age

__all__ = ["buckets"]

Row = dict[str, Any]


@louver_command
def buckets(args: Namespace) -> None:
    """``airflow louver buckets [list|apply]``"""
    applies = args.what == "apply"
    if applies and args.busy:
        fail("--busy belongs to list", BAD_USAGE)
    if not applies and (args.dry_run or args.undrain):
        fail("--dry-run and --undrain belong to apply", BAD_USAGE)
    settings = require_bucket_settings()
    plan = plan_pools(settings, read_pools(), undrain=args.undrain)
    if applies:
        _apply(args, plan)
    else:
        _list(args, settings, plan)


def _apply(args: Namespace, plan: list[BucketPool]) -> None:
    if not args.dry_run:
        apply_pools(plan)
    show(
        args,
        [
            {
                "bucket": pool.bucket,
                "pool": pool.pool,
                "slots": pool.found,
                "wanted": pool.slots,
                "change": str(pool.change),
                "done": "yes" if pool.change.writes and not args.dry_run else "no",
            }
            for pool in plan
            if pool.change is not Change.NONE
        ],
    )
    if any(pool.change is Change.FOREIGN for pool in plan):
        sys.exit(FAILED)


def _list(args: Namespace, settings: BucketSettings, plan: list[BucketPool]) -> None:
    usage = read_usage(pool.pool for pool in plan)
    now = SystemClock().now()
    rows = []
    for pool in plan:
        used = usage.get(pool.pool, BucketUsage())
        if args.busy and used == BucketUsage():
            continue
        rows.append(
            {
                "bucket": pool.bucket,
                "pool": pool.pool,
                "state": _state(pool),
                "owner": settings.owners.owner_of(pool.bucket),
                "slots": pool.found,
                "taken": used.taken,
                "running": used.running,
                "queued": used.queued,
                "waiting": used.waiting,
                "parked": used.parked,
                "oldest_wait": None if used.oldest is None else age(used.oldest, now),
            }
        )
    show(args, rows)


def _state(pool: BucketPool) -> str:
    if pool.found is None:
        return "missing"
    return "drained" if pool.found == 0 else "open"
