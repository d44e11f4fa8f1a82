"""
Going over a whole ledger: to verify it, to collect what nobody has any more, to remove what is over.

Each goes by pages and short transactions, can be ended at any point and begun again, and does no harm beside
another one at work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from louver.ledger.contract import Ledger
from louver.ledger.findings import Checked, Cleaned, Finding, Orphan, Verdict
from louver.ledger.names import RunKey
from louver.ledger.records import EffectRecord
from louver.ledger.requests import RunFilter

__all__ = ["clean_runs", "clean_standing_effects", "collect_garbage", "verify_ledger", "verify_runs"]

T = TypeVar("T")

_PAGE = 500
_BATCH = 100


def verify_ledger(ledger: Ledger, *, dag_id: str | None = None, limit: int = 1) -> Verdict:
    """
    Whether the ledger holds what was written into it, and all of it that something else in it tells of.

    :param dag_id: look at the runs and events of this Dag alone.
    :param limit: how many findings are wanted; it ends with the last of them.
    """
    return _sum_up(_verdicts(ledger, dag_id, limit), limit)


def verify_runs(ledger: Ledger, keys: Iterable[RunKey], *, limit: int = 1) -> Verdict:
    """The same of these runs alone."""
    return _sum_up((ledger.verify_run(key, limit=limit) for key in keys), limit)


def _verdicts(ledger: Ledger, dag_id: str | None, limit: int) -> Iterator[Verdict]:
    for key in _run_keys(ledger, dag_id):
        yield ledger.verify_run(key, limit=limit)
    verdict = ledger.verify_events(dag_id=dag_id, limit=limit)
    yield verdict
    while verdict.after is not None:
        verdict = ledger.verify_events(dag_id=dag_id, after=verdict.after, limit=limit)
        yield verdict
    if dag_id is not None:
        return
    verdict = ledger.verify_payloads(limit=limit)
    yield verdict
    while verdict.after is not None:
        verdict = ledger.verify_payloads(after=verdict.after, limit=limit)
        yield verdict


def _run_keys(ledger: Ledger, dag_id: str | None) -> Iterator[RunKey]:
    keys = ledger.list_run_keys(dag_id=dag_id, limit=_PAGE)
    while keys:
        yield from keys
        keys = ledger.list_run_keys(dag_id=dag_id, after=keys[-1], limit=_PAGE)


def _sum_up(verdicts: Iterable[Verdict], limit: int) -> Verdict:
    findings: list[Finding] = []
    checked = Checked()
    signed = True
    for verdict in verdicts:
        findings += verdict.findings
        checked += verdict.checked
        signed = verdict.signed
        if len(findings) >= limit:
            break
    return Verdict(findings=tuple(findings[:limit]), checked=checked, signed=signed)


def collect_garbage(ledger: Ledger, *, saved_before: datetime, remove: bool) -> Iterator[Orphan]:
    """
    The payloads that no row refers to, one after the other.

    :param saved_before: younger ones are left alone.
    :param remove: remove them; each is given once it is gone.
    """
    after: str | None = None
    while True:
        page = ledger.list_orphans(saved_before=saved_before, after=after, limit=_PAGE)
        if not remove:
            yield from page.orphans
        for some in _batches([orphan.payload_id for orphan in page.orphans] if remove else []):
            yield from ledger.remove_orphans(some, saved_before=saved_before)
        if page.after is None:
            return
        after = page.after


def clean_runs(
    ledger: Ledger, *, before: datetime, dag_id: str | None = None, effects: bool = False, remove: bool
) -> Iterator[Cleaned]:
    """
    The runs begun before that time, the newest first: what cleaning removes of each, or why it stays.

    :param before: when all of a run has to have ended.
    :param effects: remove effects too whose key guards beyond the run.
    :param remove: do it; each is given once it is gone.
    """
    wanted = RunFilter(dag_id=dag_id, until=before, limit=_PAGE)
    while True:
        runs = ledger.list_runs(wanted)
        for run in runs:
            clean = ledger.clean_run if remove else ledger.plan_cleaning
            cleaned = clean(run.key, before=before, effects=effects)
            # Where somebody else was quicker there is nothing left to tell.
            if cleaned is not None:
                yield cleaned
        if len(runs) < _PAGE:
            return
        wanted = RunFilter(dag_id=dag_id, until=before, after=runs[-1], limit=_PAGE)


def clean_standing_effects(
    ledger: Ledger, *, before: datetime, dag_id: str | None = None, remove: bool
) -> Iterator[EffectRecord]:
    """
    The effects that have outlived their run for what their key guards, and ended before that time.

    :param remove: remove them; each is given once it is gone.
    """
    page = ledger.list_standing_effects(before=before, dag_id=dag_id, limit=_PAGE)
    while True:
        if not remove:
            yield from page.effects
        for some in _batches(page.effects if remove else ()):
            yield from ledger.clean_effects(some, before=before)
        if page.after is None:
            return
        page = ledger.list_standing_effects(before=before, dag_id=dag_id, after=page.after, limit=_PAGE)


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + _BATCH] for first in range(0, len(items), _BATCH))
