"""What `verify` finds, what it calls the first broken row, and what it lets be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from support.pasts import FATES, KEYS, History
from support.stores import STORES, Store, store_of
from support.tampering import Tables

from louver.audit import link
from louver.canonical import fingerprint
from louver.ledger.contract import Ledger
from louver.ledger.findings import Finding
from louver.ledger.names import Decision, RunKey
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
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.schema import MIGRATIONS, upgrade
from louver.maintenance import verify_ledger, verify_runs
from louver.signing import SigningKeys
from louver.states import RunState, TaskState
from louver.testing.scene import LAUNCHED

CARD = "4111-1111-1111-1111"


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = store_of(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return store.open(KEYS)


def lived(ledger: Ledger, fate: str, **given: object) -> RunKey:
    return FATES[fate](History(ledger, **given)).run


def first(ledger: Ledger) -> Finding:
    """The first broken row; what is told of it is one line."""
    verdict = verify_ledger(ledger)
    assert len(verdict.findings) == 1
    found = verdict.findings[0]
    assert len(str(found).splitlines()) == 1
    assert found.what in str(found)
    return found


def chain(store: Store, task_id: str = "act", name: str = "main") -> list[TransitionRecord]:
    return store.find(TransitionRecord, task_id=task_id, chain=name)


def place(found: Finding) -> tuple[object, ...]:
    return found.table, found.task_id, found.chain, found.version


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
    assert {found.table for found in findings} == {"transition", "seal", "payload"}
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


# Transitions


@pytest.mark.parametrize("fate", ["succeeded", "unfinished"])
@pytest.mark.parametrize(
    "change",
    [
        {"to_state": TaskState.FAILED},
        {"actor": "eve"},
        {"reason": "it was nothing"},
        {"attempt": 7},
        {"mac": "0" * 64},
        {"key_id": "k1"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_edited_transition(store: Store, ledger: Ledger, fate: str, change: dict[str, object]) -> None:
    lived(ledger, fate)
    for version in (1, 2, len(chain(store))):
        row = chain(store)[version - 1]
        store.put(replace(row, **change))
        assert place(first(ledger)) == ("transition", "act", "main", version)
        # The rows behind it are as they were written.
        assert [found.version for found in verify_ledger(ledger, limit=9).findings if found.version] == [
            version
        ]
        store.put(row)


@pytest.mark.parametrize("fate", ["succeeded", "unfinished"])
def test_a_deleted_transition(store: Store, ledger: Ledger, fate: str) -> None:
    lived(ledger, fate)
    rows = chain(store)
    for version in (1, 3, len(rows)):
        store.remove(rows[version - 1])
        found = first(ledger)
        assert place(found) == ("transition", "act", "main", version)
        assert "it is missing" in found.what
        store.put(rows[version - 1])
    store.remove(*rows)
    assert place(first(ledger)) == ("transition", "act", "main", 1)


def test_two_transitions_that_were_swapped(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    one, other = chain(store)[1:3]
    store.put(replace(one, version=3), replace(other, version=2))
    assert place(first(ledger)) == ("transition", "act", "main", 2)


def test_a_transition_that_was_copied_to_the_end(store: Store, ledger: Ledger) -> None:
    lived(ledger, "unfinished")
    row = chain(store)[1]
    end = len(chain(store)) + 1
    store.put(replace(row, version=end))
    assert place(first(ledger)) == ("transition", "act", "main", end)


def test_a_transition_of_another_task_put_here(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    store.put(replace(chain(store, "look")[2], task_id="act"))
    assert place(first(ledger)) == ("transition", "act", "main", 3)


def test_a_transition_of_another_run_put_here(store: Store, ledger: Ledger) -> None:
    key, other = lived(ledger, "cleared"), lived(ledger, "cleared")
    (row,) = store.find(TransitionRecord, dag_id=other.dag_id, task_id="look", version=2)
    store.put(replace(row, dag_id=key.dag_id))
    found = first(ledger)
    assert (found.dag_id, *place(found)) == (key.dag_id, "transition", "look", "main", 2)


def test_a_transition_in_a_chain_that_there_is_not(store: Store, ledger: Ledger) -> None:
    lived(ledger, "succeeded")
    store.put(replace(chain(store)[0], chain="other"))
    assert place(first(ledger)) == ("transition", "act", "other", 1)


def test_a_side_chain_is_followed_as_the_main_one(store: Store, ledger: Ledger) -> None:
    lived(ledger, "marked")
    (row,) = chain(store, name="side")
    store.put(replace(row, actor="eve"))
    assert place(first(ledger)) == ("transition", "act", "side", 1)
    store.remove(row)
    assert place(first(ledger)) == ("transition", "act", "side", 1)


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


def test_a_tail_cut_together_with_its_task_is_found_by_the_seal(store: Store, ledger: Ledger) -> None:
    key = lived(ledger, "succeeded")
    end = len(chain(store))
    without_tail(store, key)
    found = first(ledger)
    assert place(found) == ("transition", "act", "main", end)
    assert "sealed" in found.what


def test_a_tail_cut_together_with_its_task_in_an_unfinished_run_is_not_found(
    store: Store, ledger: Ledger
) -> None:
    without_tail(store, lived(ledger, "unfinished"), "other")
    assert verify_ledger(ledger).findings == ()


def test_what_was_written_with_the_keys_after_the_seal_is_no_finding_and_its_tail_is(
    store: Store, ledger: Ledger
) -> None:
    key = lived(ledger, "cleared")
    sealed = ledger.get_seal(key)
    assert verify_ledger(ledger).findings == ()
    store.remove(chain(store)[-1])
    assert place(first(ledger)) == ("transition", "act", "main", len(chain(store)) + 1)
    assert ledger.get_seal(key) == sealed


# Tasks and runs


@pytest.mark.parametrize(
    "change",
    [
        {"state": TaskState.FAILED},
        {"version": 99},
        {"head": "0" * 64},
        {"side_version": 1},
        {"side_head": "0" * 64},
        {"generation": 2},
        {"attempt": 9},
        {"incarnation": 2},
        {"failures": 5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_task_row(store: Store, ledger: Ledger, change: dict[str, object]) -> None:
    key = lived(ledger, "succeeded")
    task = store.one(TaskRecord, run_id=key.run_id, task_id="act")
    store.put(replace(task, **change))
    assert place(first(ledger))[:2] == ("task", "act")


def test_a_deleted_task_row(store: Store, ledger: Ledger) -> None:
    for fate in ("succeeded", "unfinished"):
        key = lived(ledger, fate)
        task = store.one(TaskRecord, dag_id=key.dag_id, task_id="act")
        store.remove(task)
        found = first(ledger)
        assert (*place(found)[:2], found.run_id) == ("task", "act", key.run_id)
        assert "transitions of it are left" in found.what
        store.put(task)


def test_a_task_of_a_finished_run_that_is_gone_with_all_that_told_of_it(store: Store, ledger: Ledger) -> None:
    key = lived(ledger, "cleared")
    for kind in (TransitionRecord, TaskRecord, CheckpointRecord):
        store.remove(*store.find(kind, task_id="look"))
    store.remove(*(row for row in store.find(PayloadRecord) if f"{key.run_id}:look" in row.payload_id))
    found = first(ledger)
    assert place(found)[:2] == ("task", "look")
    assert "sealed" in found.what


@pytest.mark.parametrize("fate", FATES)
def test_a_deleted_run_row(store: Store, ledger: Ledger, fate: str) -> None:
    key = lived(ledger, fate)
    store.remove(store.one(RunRecord, dag_id=key.dag_id))
    found = first(ledger)
    assert (found.table, found.dag_id, found.run_id) == ("run", key.dag_id, key.run_id)
    assert "task" in found.what


@pytest.mark.parametrize(
    "change",
    [
        {"state": RunState.FAILED},
        {"state": RunState.RUNNING},
        {"reason": "nothing"},
        {"requester": "eve"},
        {"definition_version": "9"},
        {"definition_fingerprint": "0" * 64},
        {"marker": "another"},
        {"incarnation": 2},
        {"commits": 0},
    ],
    ids=lambda change: "=".join(map(str, next(iter(change.items())))),
)
def test_a_changed_run_row(store: Store, ledger: Ledger, change: dict[str, object]) -> None:
    key = lived(ledger, "succeeded")
    store.put(replace(store.one(RunRecord, dag_id=key.dag_id), **change))
    assert first(ledger).table in ("run", "seal", "payload")


def test_a_run_that_is_over_without_a_seal(store: Store, ledger: Ledger) -> None:
    key = lived(ledger, "compensated")
    seal = store.one(SealRecord)
    store.remove(seal)
    found = first(ledger)
    assert (found.table, found.run_id) == ("seal", key.run_id)
    assert "it is missing" in found.what
    store.put(seal)
    # Nor may a run that goes on be taken for one.
    other = lived(ledger, "unfinished")
    store.put(replace(store.one(RunRecord, dag_id=other.dag_id), state=RunState.SUCCEEDED))
    assert (first(ledger).table, first(ledger).dag_id) == ("seal", other.dag_id)


def test_exchanged_seals(store: Store, ledger: Ledger) -> None:
    for _ in range(2):
        lived(ledger, "compensated")
    one, other = store.find(SealRecord)
    store.put(replace(one, envelope=other.envelope), replace(other, envelope=one.envelope))
    found = first(ledger)
    assert (found.table, found.dag_id) == ("seal", one.dag_id)
    assert "dag_id differ" in found.what


def test_an_earlier_seal_of_the_run_put_back(store: Store, ledger: Ledger) -> None:
    history = History(ledger).cleared()
    old = store.one(SealRecord)
    history.end()
    assert verify_ledger(ledger).findings == ()
    # Of the same state, so that the run's row is as it was then; what has gone on since is told by the chain.
    store.put(replace(old, sealed_at=store.one(SealRecord).sealed_at))
    assert first(ledger).table == "seal"


def test_a_seal_of_a_run_that_was_deleted_and_made_again(store: Store, ledger: Ledger) -> None:
    history = History(ledger).made_again()
    old = store.one(SealRecord)
    history.ledger.advance(history.open("look", try_number=2).token, LAUNCHED, now=history.tick())
    history.end(RunState.FAILED)
    assert verify_ledger(ledger).findings == ()
    store.put(old)
    found = first(ledger)
    assert found.table == "seal"
    assert "incarnation 1, its run of 2" in found.what


# Effects, approvals, checkpoints, events and their payloads


def payload(store: Store, ending: str) -> PayloadRecord:
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
    middle = len(row.envelope) // 2
    return [
        row.envelope[:middle] + bytes([row.envelope[middle] ^ 1]) + row.envelope[middle + 1 :],
        row.envelope[:-1],
        b"",
    ]


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
            for row in given.rows(table):
                taken.insert(table, {name: flag(name, row[name], kind) for name in names})
    source.close()

    upgrade(old.url, keys=SigningKeys(secrets=KEYS))

    upgraded = old.open(KEYS)
    verdict = verify_ledger(upgraded, limit=99)
    assert [str(found) for found in verdict.findings] == []
    assert (verdict.checked.runs, verdict.checked.seals) == (3, 2)
    key = old.find(RunRecord, state=RunState.SUCCEEDED)[0].key
    without_tail(old, key)
    assert "sealed" in first(upgraded).what
    old.close()


def flag(name: str, value: object, kind: str) -> object:
    """SQLite has numbers for yes and no."""
    return bool(value) if kind == "postgresql" and name in ("provider_idempotent", "four_eyes") else value


def at_revision(url: str, revision: str) -> None:
    """Make the tables as they were at that revision."""
    engines = Engines(parse_url(url))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engines.begin() as connection:
        config.attributes["connection"] = connection
        config.attributes["keys"] = SigningKeys.unsigned()
        command.upgrade(config, revision)
    engines.close()
