"""Verifying what is kept, and collecting payloads that nobody has any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from louver.errors import IntegrityError, ValueRefused
from louver.ledger.findings import Checked, Finding, Orphan, OrphanPage, Verdict
from louver.ledger.names import RunKey
from louver.ledger.owners import expected_of
from louver.ledger.records import EventRecord, PayloadRecord, RunRecord
from louver.ledger.rows import Damaged, PayloadHead, Rows, primary_of
from louver.ledger.run_audit import PAGE, PayloadAudit, RunAudit
from louver.ledger.strays import Stray, strays
from louver.ledger.transactions import Transactional, decision, question
from louver.signing import unseal
from louver.verification import found_at

__all__ = ["MaintenanceOperations"]


class MaintenanceOperations(Transactional):
    """The part of the contract that verifies and collects."""

    @property
    def _signed(self) -> bool:
        return bool(self._keys.secrets)

    @question
    def list_run_keys(
        self, rows: Rows, *, dag_id: str | None = None, after: RunKey | None = None, limit: int = 100
    ) -> list[RunKey]:
        return rows.run_keys(dag_id=dag_id, after=after, limit=limit)

    @question
    def verify_run(self, rows: Rows, key: RunKey, *, limit: int = 1) -> Verdict:
        audit = RunAudit(rows, key, keys=self._keys)
        try:
            findings = tuple(islice(audit.findings(), limit))
        except ValueRefused as error:
            what = f"its name is none that a ledger writes: {error}"
            findings = (Finding(table=RunRecord.TABLE, what=what, dag_id=key.dag_id, run_id=key.run_id),)
        return Verdict(findings=findings, checked=audit.checked, signed=self._signed)

    @question
    def verify_events(
        self,
        rows: Rows,
        *,
        dag_id: str | None = None,
        after: tuple[Any, ...] | None = None,
        limit: int = 1,
    ) -> Verdict:
        wanted = {} if dag_id is None else {"dag_id": dag_id}
        found = rows.page(EventRecord, after=after, limit=PAGE, **wanted)
        payloads = PayloadAudit(rows, keys=self._keys)

        def findings() -> Iterator[Finding]:
            events = [row for row in found if isinstance(row, EventRecord)]
            for row in found:
                if isinstance(row, Damaged):
                    yield found_at(row, "it holds what no ledger writes")
            yield from payloads.look(one for event in events for one in expected_of(event))
            yield from payloads.rest()

        broken = tuple(islice(findings(), limit))
        return Verdict(
            findings=broken,
            checked=Checked(events=len(found), payloads=payloads.checked),
            signed=self._signed,
            after=primary_of(found[-1]) if len(found) == PAGE else None,
        )

    @question
    def verify_payloads(self, rows: Rows, *, after: tuple[Any, ...] | None = None, limit: int = 1) -> Verdict:
        heads = rows.heads(after=after[0] if after else None, limit=PAGE)
        findings = tuple(islice(self._strays(rows, heads), limit))
        return Verdict(
            findings=findings,
            checked=Checked(),
            signed=self._signed,
            after=(heads[-1].payload_id,) if len(heads) == PAGE else None,
        )

    def _strays(self, rows: Rows, heads: list[PayloadHead]) -> Iterator[Finding]:
        for stray in strays(rows, heads):
            if stray.payload_id != stray.own_id:
                payload = Damaged(kind=PayloadRecord, primary=(stray.payload_id,))
                yield found_at(payload, f"it is that of {stray.own_id}, and lies under another id")
            elif not stray.row_is_there and stray.owner[0] is not RunRecord:
                kind, primary = stray.owner
                row = Damaged(kind=kind, primary=primary)
                yield found_at(row, f"it is missing: its payload {stray.payload_id} is left")

    @question
    def list_orphans(
        self, rows: Rows, *, saved_before: datetime, after: str | None = None, limit: int = PAGE
    ) -> OrphanPage:
        heads = rows.heads(after=after, limit=limit)
        orphans = []
        for stray in strays(rows, heads):
            for payload in rows.read(PayloadRecord, [(stray.payload_id,)]):
                if isinstance(payload, PayloadRecord) and self._is_orphan(stray, payload, saved_before):
                    orphans.append(_orphan(payload))
        return OrphanPage(orphans=tuple(orphans), after=heads[-1].payload_id if len(heads) == limit else None)

    @decision
    def remove_orphans(
        self, rows: Rows, payload_ids: Iterable[str], *, saved_before: datetime
    ) -> tuple[Orphan, ...]:
        removed = []
        for payload_id in payload_ids:
            # Locked: whoever saves it at this moment is done before its row is looked for, or does it anew.
            payload = rows.get(PayloadRecord, payload_id)
            if payload is None:
                continue
            head = PayloadHead(payload_id=payload_id, size=len(payload.envelope), opening=payload.envelope)
            for stray in strays(rows, [head]):
                if self._is_orphan(stray, payload, saved_before):
                    rows.remove(PayloadRecord, payload_id=payload_id)
                    removed.append(_orphan(payload))
        return tuple(removed)

    def _is_orphan(self, stray: Stray, payload: PayloadRecord, saved_before: datetime) -> bool:
        if stray.payload_id != stray.own_id or payload.saved_at >= saved_before:
            return False
        try:
            unseal(payload.envelope, binding=stray.binding, keys=self._keys)
        except IntegrityError:
            # Nothing vouches for whose it is; to verify tells of it.
            return False
        return True


def _orphan(payload: PayloadRecord) -> Orphan:
    return Orphan(payload_id=payload.payload_id, size=len(payload.envelope), saved_at=payload.saved_at)
