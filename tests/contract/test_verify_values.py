"""What `verify` finds in effects, approvals, checkpoints, events and their payloads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from support.pasts import History
from support.stores import Store
from support.verifying import damages, first, lived, payload, payloads

from louver.canonical import fingerprint
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
)
from louver.maintenance import verify_ledger


def test_damaged_missing_and_cut_payloads_of_every_kind(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    found = payloads(store)
    assert set(found) == {
        *("approval", "definition", "event"),
        *("effect intent", "effect result", "checkpoint return_value", "checkpoint state"),
    }
    for row in found.values():
        for envelope in damages(row):
            store.put(replace(row, envelope=envelope))
            broken = first(ledger)
            assert (broken.table, broken.key) == ("payload", row.payload_id)
        store.remove(row)
        broken = first(ledger)
        assert (broken.table, broken.key, broken.what) == ("payload", row.payload_id, "it is missing")
        store.put(row)
    assert verify_ledger(ledger).findings == ()


def test_swapped_payloads(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    rows = list(payloads(store).values())
    for one, other in pairwise(rows):
        store.put(replace(one, envelope=other.envelope), replace(other, envelope=one.envelope))
        assert first(ledger).key in (one.payload_id, other.payload_id)
        store.put(one, other)


def test_an_older_value_of_a_checkpoint_put_back(store: Store, ledger: Ledger) -> None:
    history = History(ledger)
    token = history.launch("act")
    ledger.save_checkpoint(token, "state", 1, now=history.tick())
    old = payload(store, ":state")
    ledger.save_checkpoint(token, "state", 2, now=history.tick())
    store.put(old)
    found = first(ledger)
    assert (found.table, found.task_id, found.key) == ("checkpoint", "act", "1 state")
    assert "digest" in found.what


def test_hashes_that_are_not_those_of_the_payload(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    for kind, name in (
        (EffectRecord, "intent_hash"),
        (ApprovalRecord, "payload_fingerprint"),
        (EventRecord, "payload_fingerprint"),
    ):
        row = store.find(kind)[0]
        store.put(replace(row, **{name: "0" * 64}))
        findings = verify_ledger(ledger, limit=9).findings
        assert f"its {name} is not that of its payload" in {found.what for found in findings}
        assert {found.table for found in findings} == {kind.TABLE}
        store.put(row)


def test_rows_that_are_gone_while_their_payloads_are_left(store: Store, ledger: Ledger) -> None:
    for fate in ("succeeded", "unfinished"):
        lived(ledger, fate)
    for kind in (EffectRecord, ApprovalRecord, CheckpointRecord, EventRecord):
        for row in (store.find(kind)[0], store.find(kind)[-1]):
            store.remove(row)
            findings = verify_ledger(ledger, limit=99).findings
            assert kind.TABLE in {found.table for found in findings if "it is missing" in found.what}
            store.put(row)


def test_rows_of_a_finished_run_that_are_gone_with_their_payloads(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    for kind, ids in (
        (EffectRecord, lambda row: (row.intent_payload, row.result_payload)),
        (ApprovalRecord, lambda row: (row.payload,)),
        (CheckpointRecord, lambda row: (row.payload,)),
    ):
        row = next(row for row in store.find(kind) if getattr(row, "commit_sequence", 1) == 1)
        left = [payload(store, name) for name in ids(row)]
        store.remove(row, *left)
        findings = verify_ledger(ledger, limit=9).findings
        assert (kind.TABLE, "it is missing: the run was sealed with it") in {
            (found.table, found.what) for found in findings
        }
        store.put(row, *left)


def test_an_undo_that_says_what_its_effect_does_not(store: Store, ledger: Ledger) -> None:
    lived(ledger, "compensated")
    one, _ = store.find(EffectRecord, state="undone")
    for state in ("committed", "undo_failed", "unknown"):
        store.put(replace(one, state=state))
        assert (first(ledger).table, first(ledger).key) == ("effect", f"{one.scope} {one.reference}")
    store.put(one)
    undo = store.one(EffectRecord, key=f"undo:{one.reference}")
    store.put(replace(undo, undoes="other#1"))
    assert first(ledger).table == "effect"


def test_a_forged_decision_in_a_run_that_is_over(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    asked = store.one(ApprovalRecord)
    for change in ({"decided_by": "eve"}, {"decision": Decision.REJECTED}, {"approvers": ("eve",)}):
        store.put(replace(asked, **change))
        assert (first(ledger).table, first(ledger).key) == ("approval", asked.request_id)


def test_an_approval_that_another_effect_has_used(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    asked = store.one(ApprovalRecord)
    used = replace(asked, consumed_by=f"other#1:{fingerprint('other')}")
    store.put(used)
    findings = verify_ledger(ledger, limit=9).findings
    assert {"effect", "approval"} == {found.table for found in findings}
