"""Bodies of ``ps``, ``approvals``, ``effects list`` and ``compensations list``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from airflow.utils.net import get_hostname

from louver.clock import SystemClock
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectState
from louver.ledger.records import EffectRecord, RunRecord
from louver.states import TaskState
from louver_provider.buckets.settings import require_bucket_settings
from louver_provider.buckets.usage import in_buckets
from louver_provider.cli.common import BAD_USAGE, fail, find_run, louver_command, named, show
from louver_provider.cli.listings import (
    LIVE,
    approval_rows,
    effect_row,
    runs_of,
    task_rows,
    waiting_rows,
)
from louver_provider.hooks.ledger import get_ledger
from louver_provider.tagged_dags import dags_with_tags

__all__ = ["approvals", "compensations_list", "effects_list", "ps"]

_LIVE_TASKS = tuple(state for state in TaskState if not state.terminal)


@louver_command
def ps(args: Namespace) -> None:
    """``airflow louver ps``"""
    wanted = named(args.state, TaskState, option="--state")
    states = wanted or (tuple(TaskState) if args.all else _LIVE_TASKS)
    # A task that is over may be of a run that goes on, or of any other.
    everywhere = args.all or any(state.terminal for state in wanted)
    ledger = get_ledger()
    runs: Iterable[list[RunRecord]] = runs_of(ledger, states=() if everywhere else LIVE, dag_id=args.dag_id)
    if args.bucket is not None or args.mine:
        runs = in_buckets(runs, _buckets_meant(args))
    if args.tag:
        tagged = dags_with_tags(args.tag)
        runs = ([run for run in page if run.dag_id in tagged] for page in runs)
    show(args, list(task_rows(ledger, runs, states=states, now=SystemClock().now())))


def _buckets_meant(args: Namespace) -> set[int]:
    """The buckets that ``--bucket`` and ``--mine`` mean."""
    settings = require_bucket_settings()
    meant = set(range(settings.policy.most))
    if args.bucket is not None:
        if args.bucket not in meant:
            fail(f"--bucket {args.bucket} is none; they are 0 to {settings.policy.most - 1}", BAD_USAGE)
        meant = {args.bucket}
    if args.mine:
        node = get_hostname()
        if node not in settings.owners.nodes:
            owners = settings.owners or "nobody"
            fail(f"this node, {node}, owns no buckets; [louver] bucket_owners names {owners}")
        meant &= set(settings.owners.buckets_of(node))
    return meant


@louver_command
def approvals(args: Namespace) -> None:
    """``airflow louver approvals [RUN]``"""
    ledger = get_ledger()
    runs: Iterable[list[RunRecord]]
    if args.run_id is not None:
        runs = [[find_run(ledger, args)]]
    else:
        runs = runs_of(ledger, states=() if args.all else LIVE, dag_id=args.dag_id)
    damaged: list[str] = []
    show(
        args,
        list(approval_rows(ledger, runs, decided=args.all, now=SystemClock().now(), damaged=damaged)),
    )
    if damaged:
        fail(f"{'; '.join(damaged)}. airflow louver verify names what was changed")


@louver_command
def effects_list(args: Namespace) -> None:
    """``airflow louver effects list [RUN]``"""
    states = named(args.state, EffectState, option="--state")
    ledger = get_ledger()
    if args.run_id is not None:
        found = ledger.list_effects(find_run(ledger, args).key)
        found = [
            effect
            for effect in found
            if (not states or effect.state in states) and args.key in (None, effect.key, effect.reference)
        ]
    else:
        found = _by_key(ledger, args.key, states)
        found = [effect for effect in found if args.dag_id in (None, effect.dag_id)]
    show(args, [effect_row(effect) for effect in found])


def _by_key(ledger: Ledger, key: str | None, states: tuple[EffectState, ...]) -> list[EffectRecord]:
    found = ledger.find_effects(states=states, key=key)
    if found or key is None or "#" not in key:
        return found
    # As providers see it: key and epoch.
    same = ledger.find_effects(states=states, key=key.rpartition("#")[0])
    return [effect for effect in same if effect.reference == key]


@louver_command
def compensations_list(args: Namespace) -> None:
    """``airflow louver compensations list``"""
    ledger = get_ledger()
    waiting = ledger.find_effects(states=(EffectState.UNKNOWN, EffectState.UNDO_FAILED))
    runs = {effect.task.run for effect in waiting if args.dag_id in (None, effect.dag_id)}
    found = [effect for run in sorted(runs) for effect in ledger.list_effects(run)]
    show(args, waiting_rows(found, now=SystemClock().now()))
