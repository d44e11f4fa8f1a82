"""Going over a whole ledger, as tests want it: everything at once, as lists."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from louver.ledger.contract import Ledger
from louver.ledger.findings import Cleaned
from louver.ledger.names import RunKey
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.maintenance import clean_runs, collect_garbage
from support.pasts import FATES, History
from support.stores import Store

__all__ = ["LATER", "NOW", "cleaned", "collected", "everything", "lived_all"]

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
LATER = NOW + timedelta(days=400)


def lived_all(ledger: Ledger, *fates: str) -> list[RunKey]:
    """Runs of these fates, or of every one."""
    return [FATES[fate](History(ledger)).run for fate in fates or FATES]


def collected(ledger: Ledger, *, remove: bool = True, before: datetime = LATER) -> list[str]:
    """The ids of all orphans."""
    return [orphan.payload_id for orphan in collect_garbage(ledger, saved_before=before, remove=remove)]


def cleaned(ledger: Ledger, *, remove: bool = True, before: datetime = LATER, **given: Any) -> list[Cleaned]:
    """What became of all runs begun before that."""
    return list(clean_runs(ledger, before=before, remove=remove, **given))


def everything(store: Store) -> dict[str, list[Any]]:
    """All rows that a run may have."""
    kinds = (
        *(RunRecord, TaskRecord, TransitionRecord, EffectRecord, ApprovalRecord, CheckpointRecord),
        *(EventRecord, PayloadRecord),
    )
    return {kind.TABLE: store.find(kind) for kind in kinds}
