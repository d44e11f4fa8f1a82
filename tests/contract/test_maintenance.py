"""Garbage over a whole ledger: what is collected, what never is, and who may do it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from support.ledgers import schema_of
from support.pasts import KEYS, History, definition
from support.stores import Store
from support.upkeep import LATER, NOW, cleaned, collected, everything, lived_all

from louver.crash_points import at_every_point
from louver.errors import LedgerUnavailable
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey
from louver.ledger.owners import binding_in, own_id
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
)
from louver.ledger.sql.schema import upgrade
from louver.maintenance import clean_standing_effects, collect_garbage, verify_ledger
from louver.signing import SigningKeys
from louver.testing import CHECKS, ContractBroken


def test_a_ledger_in_use_has_no_orphans(store: Store, ledger: Ledger) -> None:
    lived_all(ledger)
    before = everything(store)
    assert collected(ledger, remove=False) == []
    assert collected(ledger) == []
    assert everything(store) == before


def test_every_payload_lies_under_the_id_that_its_binding_gives_it(store: Store, ledger: Ledger) -> None:
    lived_all(ledger)
    for row in store.find(PayloadRecord):
        binding = binding_in(row.envelope)
        assert binding is not None
        assert own_id(binding) == row.payload_id


def test_a_definition_that_no_run_has_any_more_is_collected(store: Store, ledger: Ledger) -> None:
    history = History(ledger, version="old")
    history.begin(marker="one")
    old = history.definition.fingerprint
    history.definition = definition("new")
    history.begin(marker="two")

    assert collected(ledger, remove=False) == [f"definition:{old}"]
    assert collected(ledger, before=history.now - timedelta(seconds=1)) == []
    (orphan,) = collect_garbage(ledger, saved_before=LATER, remove=True)
    assert (orphan.payload_id, orphan.saved_at) == (f"definition:{old}", history.now - timedelta(seconds=1))
    assert orphan.size > 100
    assert collected(ledger) == []
    assert ledger.load_definition(history.definition.fingerprint) == dict(history.definition.to_json())
    assert verify_ledger(ledger, limit=9).findings == ()


def test_a_run_opened_under_another_definition_than_its_own_leaves_that_one_to_be_collected(
    ledger: Ledger,
) -> None:
    history = History(ledger, version="1")
    history.succeed("look")
    history.definition = definition("2")
    history.begin()
    assert collected(ledger) == [f"definition:{history.definition.fingerprint}"]


def test_payloads_whose_rows_were_removed_by_hand_are_collected(store: Store, ledger: Ledger) -> None:
    lived_all(ledger, "succeeded", "unfinished")
    wanted = set()
    for kind in (CheckpointRecord, ApprovalRecord, EventRecord, EffectRecord):
        row = store.find(kind)[0]
        store.remove(row)
        ids = (row.intent_payload, row.result_payload) if kind is EffectRecord else (row.payload,)
        wanted |= set(ids) & {payload.payload_id for payload in store.find(PayloadRecord)}
    assert set(collected(ledger, remove=False)) == set(collected(ledger)) == wanted
    assert wanted.isdisjoint(row.payload_id for row in store.find(PayloadRecord))


def test_what_an_older_incarnation_left_is_collected(store: Store, ledger: Ledger) -> None:
    history = History(ledger)
    token = history.launch("act")
    ledger.save_checkpoint(token, "state", 1, now=history.tick())
    row = store.find(CheckpointRecord)[0]
    store.put(replace(row, incarnation=2))
    assert collected(ledger) == [row.payload]


def test_pages_of_any_size_find_each_orphan_once(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_all(ledger, "succeeded", "compensated", "succeeded")
    rows = [row for row in store.find(CheckpointRecord) if row.name == "return_value"]
    store.remove(*rows)
    for page in (1, 2, 3, 1000):
        monkeypatch.setattr("louver.maintenance._PAGE", page)
        assert sorted(collected(ledger, remove=False)) == sorted(row.payload for row in rows)
    monkeypatch.setattr("louver.maintenance._PAGE", 2)
    assert sorted(collected(ledger)) == sorted(row.payload for row in rows)


def test_what_is_not_what_was_signed_is_left_alone(store: Store, ledger: Ledger) -> None:
    """Its binding says whose it is, and where nobody vouches for that, a live value may be behind it."""
    lived_all(ledger, "succeeded")
    before = store.find(PayloadRecord)
    for row in before:
        for envelope in (
            row.envelope[: len(row.envelope) // 2],
            row.envelope.replace(b"run_id", b"nur_id"),
            row.envelope.replace(b'"evt-', b'"tve-'),
            row.envelope.replace(b":-1", b":-2").replace(b'"act"', b'"tca"'),
            b"",
            b'{"binding":',
            b'{"binding":{"kind":"checkpoint"},"key":',
        ):
            if envelope != row.envelope:
                store.put(replace(row, envelope=envelope))
                assert collected(ledger, remove=False) == []
                assert collected(ledger) == []
                assert verify_ledger(ledger).findings
        store.put(row)
    # One that lies under another id than its own.
    store.put(replace(before[0], payload_id="elsewhere"))
    assert collected(ledger) == []
    assert [found.key for found in verify_ledger(ledger, limit=9).findings] == ["elsewhere"]


def test_nothing_is_collected_whose_key_is_not_known(store: Store) -> None:
    history = History(store.open({"k1": KEYS["k1"]}))
    ledger = history.ledger
    ledger.save_checkpoint(history.launch("act"), "state", 1, now=history.tick())
    store.remove(*store.find(CheckpointRecord))
    assert collected(store.open({"k2": KEYS["k2"]})) == []
    assert len(collected(ledger)) == 1


def orphaned(store: Store, history: History, token: Any) -> str:
    """A payload that an earlier process has left under the id that this token's next checkpoint has."""
    history.ledger.save_checkpoint(token, "state", "old", now=NOW)
    (row,) = store.find(CheckpointRecord, name="state")
    store.remove(row)
    return row.payload


def test_a_value_that_is_being_saved_is_never_removed(store: Store, ledger: Ledger) -> None:
    """In the middle of the transaction that saves it, and at any other moment."""
    other = ledger if store.url == "memory://" else store.open(KEYS)
    history = History(ledger)
    token = history.launch("act")
    for number in range(15):
        payload_id = orphaned(store, history, token)
        removed = history.at_once(
            lambda name=payload_id: other.remove_orphans([name], saved_before=LATER),
            lambda value=number: ledger.save_checkpoint(token, "state", value, now=NOW),
        )
        assert [type(answer) for answer in removed] == [tuple, type(None)], removed
        assert ledger.load_checkpoint(token, "state", None) == number
    assert verify_ledger(ledger, limit=9).findings == ()


# In memory there is one transaction at a time.
@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_a_value_whose_transaction_is_open_is_never_removed(store: Store, ledger: Ledger) -> None:
    other = store.open(KEYS)
    history = History(ledger)
    token = history.launch("act")
    effect = history.committed(token, "pay", scope="global")
    store.remove(effect)
    assert set(collected(ledger, remove=False)) == {effect.intent_payload, effect.result_payload}
    answers: list[Any] = []
    collector = threading.Thread(
        target=lambda: answers.append(other.remove_orphans([effect.intent_payload], saved_before=LATER))
    )

    def collect(point: str) -> None:
        # Begun, written, and not committed: the collector comes now, and has to wait.
        if point == "begin_effect.inside":
            collector.start()
            collector.join(0.3)
            assert answers == []

    history.approved()
    at_every_point(collect)
    try:
        # Guarded, since only that is a transaction of several statements on every store.
        begun = history.started(token, "pay", scope="global", guarded_by="act")
    finally:
        at_every_point(None)
        collector.join()
    assert answers == [()]
    assert ledger.load_effect(begun) == ({"amount": 5}, None)


# In memory there is one transaction at a time.
@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_a_definition_that_a_run_is_about_to_have_is_never_removed(store: Store, ledger: Ledger) -> None:
    other = store.open(KEYS)
    old = History(ledger, version="old")
    old.begin(marker="one")
    old.definition = definition("new")
    old.begin(marker="two")
    (orphan,) = collected(ledger, remove=False)
    answers: list[Any] = []
    collector = threading.Thread(
        target=lambda: answers.append(other.remove_orphans([orphan], saved_before=LATER))
    )

    def collect(point: str) -> None:
        if point == "open_run.inside":
            collector.start()
            collector.join(0.3)
            assert answers == []

    at_every_point(collect)
    try:
        History(ledger, version="old").begin()
    finally:
        at_every_point(None)
        collector.join()
    assert answers == [()]
    assert verify_ledger(ledger, limit=9).findings == ()


# Rights, and plans


def limited(postgres: Any, url: str, rights: str) -> str:
    role = postgres.fresh_role()
    schema = schema_of(url)
    for statement in (
        f"GRANT USAGE ON SCHEMA {schema} TO {role.name}",
        f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {role.name}",
    ):
        postgres.execute(statement, database=postgres.database)
    return str(postgres.url(role=role, options=f"-csearch_path={schema}"))


def test_a_role_without_the_right_to_delete_is_told_and_may_look(postgres: Any) -> None:
    url = postgres.fresh_schema()
    upgrade(url)
    mine = limited(postgres, url, "SELECT, INSERT, UPDATE")
    with open_ledger(mine, KEYS) as ledger:
        history = History(ledger, version="old").succeeded()
        history.begin(marker="another")
        orphans = History(ledger, version="older")
        orphans.begin(marker="one")
        orphans.definition = definition("new")
        orphans.begin(marker="two")
        before = [row.payload_id for row in collect_garbage(ledger, saved_before=LATER, remove=False)]
        lived_all(ledger, "succeeded")
        assert cleaned(ledger, remove=False)
        assert before
        assert verify_ledger(ledger).findings == ()
        for remove in (lambda: cleaned(ledger), lambda: collected(ledger)):
            with pytest.raises(LedgerUnavailable, match="permission denied for table louver_") as caught:
                remove()
            assert "DELETE" in str(caught.value)
        assert verify_ledger(ledger).findings == ()
        assert collected(ledger, remove=False) == before


def test_on_sqlite_no_step_reads_a_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the runs, once for each definition that looks like an orphan."""
    ledger: Any = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", KEYS)
    lived_all(ledger)
    statements: dict[str, Any] = {}
    with ledger._engines.connect(write=False) as connection:
        engine = connection.engine
    event.listen(engine, "before_cursor_execute", lambda *given: statements.setdefault(given[2], given[3]))
    monkeypatch.setattr("louver.maintenance._PAGE", 2)
    verify_ledger(ledger)
    collected(ledger)
    cleaned(ledger)
    list(clean_standing_effects(ledger, before=LATER, remove=True))
    scans = []
    with ledger._engines.connect(write=False) as connection:
        for statement, parameters in list(statements.items()):
            if statement.split()[0] not in ("SELECT", "DELETE", "UPDATE"):
                continue
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            # By its index from a place on is a SEARCH; SCAN ... USING INDEX with a limit reads a page.
            scans += [
                (row[-1], statement)
                for row in plan
                if (row[-1].startswith("SCAN louver_") and "LIMIT" not in statement)
                or "USE TEMP B-TREE FOR DISTINCT" in row[-1]
            ]
    ledger.close()
    assert len(statements) > 20
    assert scans == []


# The checks can tell


class CleansWhatIsStoredAsOver(MemoryLedger):
    def _kept(self, rows: Any, found: Any, approvals: Any, *, before: Any) -> str | None:
        return None if found.run.state.terminal else "it is running"


class CleansAllEffects(MemoryLedger):
    def clean_run(self, key: Any, *, before: Any, effects: bool = False) -> Any:
        return super().clean_run(key, before=before, effects=True)


class CollectsWhatIsYoung(MemoryLedger):
    def list_orphans(self, *, saved_before: Any, after: Any = None, limit: int = 500) -> Any:
        return super().list_orphans(saved_before=LATER, after=after, limit=limit)


class CollectsWhatItIsTold(MemoryLedger):
    def remove_orphans(self, payload_ids: Any, *, saved_before: Any) -> Any:
        ids = list(payload_ids)
        with self._transaction(write=True) as rows:
            rows.discard(PayloadRecord, [(payload_id,) for payload_id in ids])
        return ()


class PlansBySeeing(MemoryLedger):
    def plan_cleaning(self, key: Any, *, before: Any, effects: bool = False) -> Any:
        return self.clean_run(key, before=before, effects=effects)


class VerifiesNothing(MemoryLedger):
    def verify_run(self, key: Any, *, limit: int = 1) -> Any:
        return super().verify_run(RunKey("", ""), limit=limit)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CleansWhatIsStoredAsOver, "check_clean_run_keeps_what_is_not_over"),
        (CleansAllEffects, "check_clean_run_leaves_effects_that_guard_beyond_it"),
        (CollectsWhatIsYoung, "check_list_orphans_are_payloads_that_no_row_has"),
        (CollectsWhatItIsTold, "check_remove_orphans_leaves_what_is_in_use"),
        (CollectsWhatItIsTold, "check_remove_orphans_at_once_with_a_run_that_needs_one"),
        (PlansBySeeing, "check_plan_cleaning_tells_what_clean_run_does"),
        (VerifiesNothing, "check_verify_run_that_nobody_changed_finds_nothing"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_store_that_removes_too_much_is_found_out(kind: Callable[..., Ledger], name: str) -> None:
    check = next(check for check in CHECKS if check.__name__ == name)
    ledger = kind(keys=SigningKeys.unsigned())
    with pytest.raises(ContractBroken, match=name):
        check(lambda: ledger)
