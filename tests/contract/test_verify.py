"""What `verify` lets be, how it tells of what it finds, and what it was not made for."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.earlier import at_revision
from support.pasts import FATES, KEYS, History
from support.stores import Store, store_of
from support.tampering import Tables
from support.verifying import chain, damages, first, lived, place, without_tail

from louver.audit import link
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey
from louver.ledger.owners import binding_in
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.sql.schema import upgrade
from louver.maintenance import verify_ledger, verify_runs
from louver.signing import SigningKeys, seal, unseal
from louver.states import RunState

CARD = "4111-1111-1111-1111"


# What is sound


@pytest.mark.parametrize("fate", FATES)
def test_a_ledger_that_nobody_has_changed_is_sound(ledger: Ledger, fate: str) -> None:
    lived(ledger, fate)
    verdict = verify_ledger(ledger, limit=100)
    assert verdict.findings == ()
    assert verdict.signed
    assert verdict.checked.runs == 1


def test_what_was_looked_at_is_counted(store: Store, ledger: Ledger) -> None:
    for fate in FATES:
        lived(ledger, fate)
    checked = verify_ledger(ledger).checked
    for name, kind in {
        "runs": RunRecord,
        "tasks": TaskRecord,
        "transitions": TransitionRecord,
        "seals": SealRecord,
        "effects": EffectRecord,
        "approvals": ApprovalRecord,
        "checkpoints": CheckpointRecord,
        "events": EventRecord,
    }.items():
        assert getattr(checked, name) == len(store.find(kind)) > 0, name
    # Each run has a definition, which several may share.
    definitions = [row for row in store.find(PayloadRecord) if row.payload_id.startswith("definition:")]
    assert checked.payloads == len(store.find(PayloadRecord)) - len(definitions) + len(store.find(RunRecord))


def test_an_empty_ledger_is_sound(ledger: Ledger) -> None:
    verdict = verify_ledger(ledger)
    assert (verdict.findings, verdict.checked.runs) == ((), 0)


def test_rows_of_an_older_key_are_sound_while_it_is_known(store: Store) -> None:
    old, new = ({name: KEYS[name]} for name in ("k1", "k2"))
    history = History(store.open(old))
    token = history.launch("act")
    history.ledger = rotated = store.open({**new, **old})
    history.complete(token, 1)
    history.end()
    assert verify_ledger(rotated).findings == ()
    assert {row.key_id for row in store.find(TransitionRecord)} == {"k1", "k2"}

    found = first(store.open(new))
    assert place(found) == ("transition", "act", "main", 1)
    assert "'k1', which is not configured" in found.what


def test_a_ledger_without_keys_says_that_it_protects_against_accidents_alone(store: Store) -> None:
    unsigned = store.open()
    lived(unsigned, "succeeded")
    verdict = verify_ledger(unsigned)
    assert (verdict.findings, verdict.signed) == ((), False)
    row = chain(store)[1]
    store.put(replace(row, reason="by accident"))
    assert place(first(unsigned)) == ("transition", "act", "main", 2)
    store.put(row)

    # Once keys are configured, a row that anybody could have written is none of theirs.
    findings = verify_ledger(store.open(KEYS), limit=999).findings
    assert {found.table for found in findings} == {"transition", "seal", "approval", "payload"}
    assert all("'-', which is not configured" in found.what for found in findings)


def test_a_signed_ledger_is_not_vouched_for_without_its_keys(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    assert "which is not configured" in first(store.open()).what


def test_a_run_of_more_rows_than_a_page_is_walked_through(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in ("louver.ledger.run_audit.PAGE", "louver.ledger.maintenance_operations.PAGE"):
        monkeypatch.setattr(page, 3)
    monkeypatch.setattr("louver.ledger.run_audit._TOGETHER", 2)
    monkeypatch.setattr("louver.ledger.run_audit._TOGETHER_BYTES", 400)
    monkeypatch.setattr("louver.maintenance._PAGE", 2)
    for fate in FATES:
        lived(ledger, fate)
    verdict = verify_ledger(ledger, limit=100)
    assert verdict.findings == ()
    assert verdict.checked.transitions == len(store.find(TransitionRecord))
    for kind in (EventRecord, PayloadRecord):
        row = store.find(kind)[-1]
        store.remove(row)
        assert verify_ledger(ledger).findings
        store.put(row)


def test_what_is_at_work_meanwhile_is_no_finding(store: Store, ledger: Ledger) -> None:
    other = ledger if store.url == "memory://" else store.open(KEYS)
    over = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not over.is_set():
                for fate in FATES:
                    lived(other, fate)
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(10):
            assert verify_ledger(ledger, limit=100).findings == ()
    finally:
        over.set()
        worker.join()
    assert errors == []


# How it is told


def test_nothing_of_a_payload_is_told(store: Store, ledger: Ledger) -> None:
    history = History(ledger)
    history.succeed("look", {"card": CARD})
    token = history.launch("act")
    history.committed(token, "pay", intent={"card": CARD}, result={"card": CARD})
    history.ask(token, payload={"card": CARD})
    for row in store.find(PayloadRecord):
        for envelope in (*damages(row), row.envelope.replace(CARD.encode(), CARD[::-1].encode())):
            store.put(replace(row, envelope=envelope))
        for found in verify_ledger(ledger, limit=99).findings:
            assert "4111" not in str(found)
            assert "1114" not in str(found)
    assert len(verify_ledger(ledger, limit=99).findings) == 4


def test_the_first_finding_ends_it_unless_all_are_wanted(store: Store, ledger: Ledger) -> None:
    keys = [lived(ledger, "cleared") for _ in range(3)]
    for row in store.find(TransitionRecord, version=2, chain="main", task_id="look"):
        store.put(replace(row, reason="changed"))
    verdict = verify_ledger(ledger)
    assert (len(verdict.findings), verdict.checked.runs) == (1, 1)
    everything = verify_ledger(ledger, limit=100)
    assert (len(everything.findings), everything.checked.runs) == (3, 3)
    assert [found.dag_id for found in everything.findings] == sorted(key.dag_id for key in keys)


def test_one_dag_or_one_run_alone(store: Store, ledger: Ledger) -> None:
    broken, sound = lived(ledger, "succeeded"), lived(ledger, "succeeded")
    store.put(replace(store.find(TransitionRecord, dag_id=broken.dag_id)[0], reason="changed"))
    assert verify_ledger(ledger, dag_id=sound.dag_id).findings == ()
    assert verify_ledger(ledger, dag_id=sound.dag_id).checked.events == 1
    assert len(verify_ledger(ledger, dag_id=broken.dag_id).findings) == 1
    assert verify_runs(ledger, [sound]).findings == ()
    assert len(verify_runs(ledger, [sound, broken]).findings) == 1


def test_names_that_hold_what_separates_them(store: Store, ledger: Ledger) -> None:
    for run_id in ("b:c", "b:c:act", "c#1", "manual__2026-01-02T03:04:05+00:00", "ü" * 700):
        history = History(ledger)
        history.run = RunKey("a", run_id)
        history.committed(history.launch("act"), "k:1#2", scope=f"run:a:{run_id}")
        history.succeed("act", 1, try_number=2)
        history.ledger.save_checkpoint(history.launch("b"), "x:-1:1", 2, now=history.tick())
        history.end()
    assert verify_ledger(ledger, limit=9).findings == ()
    for row in store.find(CheckpointRecord):
        store.remove(row)
        found = first(ledger)
        assert (found.dag_id, found.run_id, found.table) == (row.dag_id, row.run_id, "checkpoint")
        store.put(row)


GARBAGE = {
    "sqlite": {
        "run": {"state": "nonsense", "created_at": "yesterday", "run_id": b"\xff"},
        "task": {"state": "nonsense", "version": "many", "updated_at": b"\x00"},
        "transition": {"to_state": "nonsense", "at": "never", "version": "many", "actor": b"\xff"},
        "seal": {"sealed_at": "never", "envelope": "text"},
        "effect": {"state": "nonsense", "started_at": b"1", "epoch": "many"},
        "approval": {"approvers": "nobody", "decision": "nonsense"},
        "checkpoint": {"saved_at": "never", "name": "nu\0l"},
        "event": {"accepted_at": "never"},
        "payload": {"saved_at": "never", "envelope": "text"},
    },
    "postgresql": {
        "run": {"state": "nonsense"},
        "task": {"state": "nonsense"},
        "transition": {"to_state": "nonsense"},
        "effect": {"state": "nonsense"},
        "approval": {"approvers": "nobody", "decision": "nonsense"},
    },
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_rows_that_no_ledger_can_read_are_named(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = store_of(kind, request, tmp_path)
    ledger = store.open(KEYS)
    lived(ledger, "succeeded")
    lived(ledger, "unfinished")
    with Tables.of(store.url) as tables:
        for table, columns in GARBAGE[kind].items():
            for name, value in columns.items():
                row = tables.rows(table)[0]
                changed = tables.update(table, row, **{name: value})
                tables_named = {found.table for found in verify_ledger(ledger, limit=999).findings}
                assert table in tables_named, (table, name)
                tables.update(table, changed, **{name: row[name]})
    assert verify_ledger(ledger).findings == ()
    store.close()


def test_text_that_is_none_is_named(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = store_of("sqlite", request, tmp_path)
    ledger = store.open(KEYS)
    lived(ledger, "succeeded")
    with Tables.of(store.url) as tables:
        tables.run(
            "UPDATE louver_transition SET actor = CAST(X'ff' AS TEXT) WHERE version = 2 AND task_id = 'act'"
        )
    found = first(ledger)
    assert place(found) == ("transition", "act", "main", 2)
    store.close()


def test_a_row_forged_without_the_keys_is_found_and_one_with_them_is_not(
    store: Store, ledger: Ledger
) -> None:
    """Whoever has the keys and the tables can write what the ledger would; nothing here claims otherwise."""
    key = lived(ledger, "unfinished")
    task = store.one(TaskRecord, dag_id=key.dag_id, task_id="look")
    last = chain(store, "look")[-1]
    forged = replace(last, version=last.version + 1, from_state=last.to_state, reason="forged")
    for keys, found in (({"k2": b"x" * 16}, True), (KEYS, False)):
        row = link(forged, last.mac, keys=SigningKeys(secrets=keys))
        store.put(row, replace(task, version=row.version, head=row.mac))
        assert bool(verify_ledger(ledger).findings) is found


# A ledger of the release before


OLD_TABLES = ("run", "task", "transition", "effect", "approval", "checkpoint", "event", "payload")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_of_the_release_before_is_sealed_when_it_is_upgraded(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    source, old = (store_of("sqlite", request, tmp_path / "new"), store_of(kind, request, tmp_path))
    ledger = source.open(KEYS)
    for fate in ("succeeded", "compensated", "unfinished"):
        lived(ledger, fate)
    at_revision(old.url, "0001")
    with Tables.of(source.url) as given, Tables.of(old.url) as taken:
        for table in OLD_TABLES:
            names = taken.columns(table)
            for row in map(bound_to_less, given.rows(table)):
                taken.insert(table, {name: flag(name, row[name], kind) for name in names})
    source.close()

    upgrade(old.url, keys=SigningKeys(secrets=KEYS))

    upgraded = old.open(KEYS)
    verdict = verify_ledger(upgraded, limit=99)
    assert [str(found) for found in verdict.findings] == []
    assert (verdict.checked.runs, verdict.checked.seals) == (3, 2)
    effect = old.find(EffectRecord, key="pay")[0]
    assert upgraded.load_effect(effect)[0] == {"amount": 5}
    request = old.find(ApprovalRecord, decision=Decision.PENDING)[0]
    assert upgraded.get_approval(request.request_id) == request
    forged = replace(request, decision=Decision.APPROVED, decided_by="ann", decided_at=request.requested_at)
    old.put(forged)
    assert "does not match its signature" in first(upgraded).what
    old.put(request)
    key = old.find(RunRecord, state=RunState.SUCCEEDED)[0].key
    without_tail(old, key)
    assert "sealed" in first(upgraded).what
    old.close()


def bound_to_less(row: dict[str, Any]) -> dict[str, Any]:
    """The row as it was then: an intent's envelope was bound to the name of its effect alone."""
    binding = binding_in(row.get("envelope", b"")) or {}
    if binding.get("kind") != "effect-intent":
        return row
    keys = SigningKeys(secrets=KEYS)
    intent = unseal(row["envelope"], binding=binding, keys=keys)
    less = {name: binding[name] for name in ("kind", "scope", "effect")}
    return {**row, "envelope": seal(intent, binding=less, keys=keys)}


def flag(name: str, value: object, kind: str) -> object:
    """SQLite has numbers for yes and no."""
    return bool(value) if kind == "postgresql" and name in ("provider_idempotent", "four_eyes") else value
