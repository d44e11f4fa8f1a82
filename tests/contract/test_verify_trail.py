"""What `verify` finds in transitions, tasks, runs and seals, and which row it calls the first broken one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.pasts import FATES, History
from support.stores import Store
from support.verifying import chain, first, lived, place, without_tail

from louver.ledger.contract import Ledger
from louver.ledger.records import (
    CheckpointRecord,
    PayloadRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.maintenance import verify_ledger
from louver.states import RunState, TaskState
from louver.testing.scene import LAUNCHED

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
