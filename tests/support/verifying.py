"""What tests of `verify` ask of a ledger."""

from __future__ import annotations

from dataclasses import replace

from louver.ledger.contract import Ledger
from louver.ledger.findings import Finding
from louver.ledger.names import RunKey
from louver.ledger.records import PayloadRecord, TaskRecord, TransitionRecord
from louver.maintenance import verify_ledger
from support.pasts import FATES, History
from support.stores import Store

__all__ = ["chain", "damages", "first", "lived", "payload", "payloads", "place", "without_tail"]


def lived(ledger: Ledger, fate: str, **given: object) -> RunKey:
    """A run of that fate."""
    return FATES[fate](History(ledger, **given)).run


def first(ledger: Ledger) -> Finding:
    """The first broken row; what is told of it is one line."""
    (found,) = verify_ledger(ledger).findings
    if len(str(found).splitlines()) != 1 or found.what not in str(found):
        raise AssertionError(f"it is not told in a line: {found!s}")
    return found


def chain(store: Store, task_id: str = "act", name: str = "main") -> list[TransitionRecord]:
    """The rows of a chain."""
    return store.find(TransitionRecord, task_id=task_id, chain=name)


def place(found: Finding) -> tuple[object, ...]:
    """Where a broken row is."""
    return found.table, found.task_id, found.chain, found.version


def without_tail(store: Store, key: RunKey, task_id: str = "act") -> None:
    """Cut the newest row off, and have the task's record know nothing of it."""
    *_, left, last = store.find(TransitionRecord, dag_id=key.dag_id, task_id=task_id, chain="main")
    task = store.one(TaskRecord, dag_id=key.dag_id, task_id=task_id)
    store.remove(last)
    store.put(
        replace(
            task,
            version=left.version,
            head=left.mac,
            state=left.to_state,
            attempt=left.attempt,
            generation=left.generation,
        )
    )


def payload(store: Store, ending: str) -> PayloadRecord:
    """The payload whose id ends so."""
    (found,) = (row for row in store.find(PayloadRecord) if row.payload_id.endswith(ending))
    return found


def payloads(store: Store) -> dict[str, PayloadRecord]:
    """One of each kind."""
    found = {}
    for row in store.find(PayloadRecord):
        kind, _, _ = row.payload_id.partition(":")
        part = row.payload_id.rpartition(":")[2] if kind in ("effect", "checkpoint") else ""
        found[f"{kind} {part}".strip()] = row
    return found


def damages(row: PayloadRecord) -> list[bytes]:
    """What may become of an envelope."""
    middle = len(row.envelope) // 2
    return [
        row.envelope[:middle] + bytes([row.envelope[middle] ^ 1]) + row.envelope[middle + 1 :],
        row.envelope[:-1],
        b"",
    ]
