"""Bodies of the ``airflow louver`` commands that keep the ledger whole and small."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from louver.artifacts import Artifacts
from louver.clock import SystemClock
from louver.errors import TimestampError
from louver.ledger.contract import Ledger
from louver.ledger.findings import Cleaned, Finding, Verdict
from louver.ledger.names import RunKey
from louver.ledger.requests import RunFilter
from louver.maintenance import (
    clean_runs,
    clean_standing_effects,
    collect_garbage,
    verify_ledger,
    verify_runs,
)
from louver.timestamps import parse_rfc3339, to_utc, to_utc_text
from louver_provider.cli.common import BAD_USAGE, FAILED, fail, louver_command, show_tables
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["clean", "gc", "verify"]

Row = dict[str, Any]

_ALL = 10_000
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@louver_command
def verify(args: Namespace) -> None:
    """``airflow louver verify [RUN]``"""
    ledger = get_ledger()
    limit = _ALL if args.all else 1
    if args.run_id is None:
        verdict = verify_ledger(ledger, dag_id=args.dag_id, limit=limit)
    else:
        verdict = verify_runs(ledger, _runs(ledger, args), limit=limit)
    tables = {"verdict": [_summary(verdict)], "findings": [_finding_row(one) for one in verdict.findings]}
    show_tables(args, tables, of="verdict")
    if verdict.findings:
        more = f" (and {len(verdict.findings) - 1} more)" if len(verdict.findings) > 1 else ""
        # One line, whatever somebody has put into a name.
        first = " ".join(str(verdict.findings[0]).split())
        fail(f"the first broken row is {first}{more}", FAILED)


def _runs(ledger: Ledger, args: Namespace) -> list[RunKey]:
    """The runs of that id; with its Dag also one of which rows are left, and none of its own."""
    if args.dag_id is not None:
        keys = [RunKey(args.dag_id, args.run_id)]
        found = [key for key in keys if _is_there(ledger, key)]
    else:
        found = [run.key for run in ledger.list_runs(RunFilter(run_id=args.run_id))]
    if not found:
        fail(
            f"run {args.run_id!r} is not in the ledger: check the id; with --dag-id also what may be left of "
            "a run is found"
        )
    return found


def _is_there(ledger: Ledger, key: RunKey) -> bool:
    verdict = ledger.verify_run(key)
    return bool(verdict.findings) or any(asdict(verdict.checked).values())


def _summary(verdict: Verdict) -> Row:
    against = "accidents and people" if verdict.signed else "accidents alone: no signing key is configured"
    return {"sound": not verdict.findings, **asdict(verdict.checked), "protects_against": against}


def _finding_row(finding: Finding) -> Row:
    return {
        name: value if isinstance(value, int) else _text(value) for name, value in asdict(finding).items()
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@louver_command
def gc(args: Namespace) -> None:
    """``airflow louver gc --dry-run | --yes``"""
    remove = _removing(args, "which payloads no row refers to")
    saved_before = _ago(args.older_than)
    orphans = list(collect_garbage(get_ledger(), saved_before=saved_before, remove=remove))
    summary = {
        "payloads": len(orphans),
        "bytes": sum(orphan.size for orphan in orphans),
        "removed": remove,
    }
    rows = [
        {"payload": orphan.payload_id, "bytes": orphan.size, "saved": to_utc_text(orphan.saved_at)}
        for orphan in orphans
    ]
    show_tables(args, {"summary": [summary], "orphans": rows}, of="summary")


@louver_command
def clean(args: Namespace) -> None:
    """``airflow louver clean --before TIMESTAMP --dry-run | --yes``"""
    remove = _removing(args, "what would be removed")
    before = _past(args.before)
    ledger = get_ledger()
    wanted: dict[str, Any] = {"before": before, "dag_id": args.dag_id, "remove": remove}
    files = _Files(load_settings().artifacts, remove=remove)
    cleaned = [(one, files.of(one)) for one in clean_runs(ledger, effects=args.effects, **wanted)]
    standing = list(clean_standing_effects(ledger, **wanted)) if args.effects else []
    gone = [one for one, _ in cleaned if one.kept is None]
    summary = {
        "over": len(gone),
        "kept": len(cleaned) - len(gone),
        "payloads": sum(one.payloads for one in gone),
        "effects_gone": sum(one.effects for one in gone) + len(standing),
        "effects_standing": sum(one.standing for one in gone),
        "artifacts": sum(count for _, count in cleaned),
        "removed": remove,
    }
    effects = [
        {"dag_id": effect.dag_id, "run_id": effect.run_id, "effect": effect.reference, "scope": effect.scope}
        for effect in standing
    ]
    tables = {
        "summary": [summary],
        "runs": [_cleaned_row(one, remove=remove) | {"artifacts": count} for one, count in cleaned],
        "effects": effects,
    }
    show_tables(args, tables, of="summary")
    if files.left:
        fail(f"the runs are gone, but {files.left[0]} could not be removed; remove it by hand", FAILED)


class _Files:
    """
    The directories of attempts of runs that are cleaned (``ctx.artifact_dir``).

    They go after their run, one run after the other: what the ledger keeps has kept its files.
    """

    def __init__(self, artifacts: Artifacts, *, remove: bool) -> None:
        self._artifacts = artifacts
        self._remove = remove
        self.left: list[str] = []

    def of(self, cleaned: Cleaned) -> int:
        """How many directories of the run were removed, or would be."""
        key = RunKey(cleaned.dag_id, cleaned.run_id)
        if cleaned.kept is not None:
            return 0
        try:
            return self._artifacts.remove(key) if self._remove else self._artifacts.count(key)
        except OSError as error:
            self.left.append(f"{self._artifacts.of_run(key)} ({error.strerror or error})")
            return 0


def _cleaned_row(cleaned: Cleaned, *, remove: bool) -> Row:
    row = asdict(cleaned)
    kept = row.pop("kept")
    done = "removed" if remove else "would be removed"
    return {
        "dag_id": row.pop("dag_id"),
        "run_id": row.pop("run_id"),
        "what": done if kept is None else "kept",
        "why": kept,
        **row,
    }


def _removing(args: Namespace, shows: str) -> bool:
    """Whether to do it; one of both has to be said, so that nobody removes anything by leaving a word out."""
    if args.dry_run is args.yes:
        fail(f"say either --dry-run, which shows {shows}, or --yes, which removes it", BAD_USAGE)
    return bool(args.yes)


def _ago(text: str) -> datetime:
    match = _DURATION.fullmatch(text)
    if match is None:
        fail(f"--older-than {text!r}: say seconds, minutes, hours or days, as 90m or 2d", BAD_USAGE)
    number, unit = match.groups()
    try:
        return SystemClock().now() - timedelta(**{_UNITS[unit]: int(number)})
    except OverflowError:
        fail(f"--older-than {text!r} reaches back further than time does", BAD_USAGE)


def _past(text: str) -> datetime:
    try:
        moment = to_utc(parse_rfc3339(text))
    except TimestampError as error:
        fail(f"--before {text!r}: {error}", BAD_USAGE)
    if moment > SystemClock().now():
        fail(f"--before {text!r} lies in the future", BAD_USAGE)
    return moment
