"""
What decides later about an effect or a request is vouched for at once, not only when its run is over.

Rows of an unfinished run are changed past the ledger, by somebody without the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.pasts import KEYS, History
from support.stores import Store

from louver.errors import IntegrityError
from louver.ledger.contract import Ledger
from louver.ledger.effect_operations import effect_binding
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import Decision, EffectKind, OnUnknown
from louver.ledger.records import ApprovalRecord, EffectRecord, PayloadRecord
from louver.maintenance import verify_ledger
from louver.sessions import Change
from louver.signing import SigningKeys, seal
from louver.states import Source, TaskState
from louver.testing.scene import PARKED, RESUMED

WORD = Word(actor="ann", reason="asked the bank", source=Source.CLI)

SIGNING = SigningKeys(secrets=KEYS)


@pytest.fixture
def history(ledger: Ledger) -> History:
    """A run at work."""
    return History(ledger)


def findings(ledger: Ledger) -> list[tuple[str, str]]:
    return [(found.table, found.what) for found in verify_ledger(ledger, limit=99).findings]


# Effects

EXCHANGED: dict[str, Any] = {
    "undo": "elsewhere:refund_twice",
    "verify": "elsewhere:say_no",
    "on_unknown": OnUnknown.RETRY,
    "provider_idempotent": False,
    "approval_id": "another",
    "name": "another",
    "run_id": "another",
    "task_id": "another",
    "map_index": 7,
}


@pytest.mark.parametrize("column", EXCHANGED)
def test_what_decides_about_an_effect_cannot_be_exchanged_while_its_run_is_at_work(
    column: str, store: Store, ledger: Ledger, history: History
) -> None:
    history.succeed("look")
    for effect in (
        history.committed(history.launch("act"), "pay"),
        history.lost(history.launch("other"), "call"),
    ):
        exchanged = replace(effect, **{column: EXCHANGED[column]})
        store.put(exchanged)

        with pytest.raises(IntegrityError, match=f"belongs elsewhere: {column} differ"):
            ledger.load_effect(exchanged)
        assert findings(ledger) != []

        store.put(effect)
    assert findings(ledger) == []


@pytest.mark.parametrize("column", ["undo", "verify"])
def test_what_was_registered_cannot_be_taken_away_either(
    column: str, store: Store, ledger: Ledger, history: History
) -> None:
    effect = history.committed(history.launch("act"))
    store.put(replace(effect, **{column: None}))

    with pytest.raises(IntegrityError, match=f"{column} differ"):
        ledger.load_effect(history.current(effect))
    assert [table for table, _ in findings(ledger)] == ["payload"]


def test_an_undo_cannot_be_turned_to_another_effect(store: Store, ledger: Ledger, history: History) -> None:
    token = history.launch("act")
    effect = history.committed(token)
    undo = ledger.begin_effect(token, history.undo_of(effect), now=history.tick()).record
    for changes in ({"undoes": "another#1"}, {"kind": EffectKind.FORWARD}):
        turned = replace(undo, **changes)
        store.put(turned)
        with pytest.raises(IntegrityError):
            ledger.load_effect(turned)
        assert findings(ledger) != []


def test_what_the_ledger_itself_changes_stays_vouched_for(ledger: Ledger, history: History) -> None:
    """Taken over by another task, settled by a person, renewed, begun again with another undo."""
    history.succeed("look")
    token, other = history.launch("act"), history.launch("other")
    lost = history.lost(token, "retried")
    again = ledger.retry_effect(other, lost, lease_until=history.after(60), now=history.tick())
    assert again is not None
    assert again.task == other.key
    stands = ledger.settle_effect(history.lost(token, "stands"), undone=False, word=WORD, now=history.tick())
    assert stands is not None
    assert stands.undo is None
    undone = ledger.settle_effect(history.lost(token, "undone"), undone=True, word=WORD, now=history.tick())
    renewed = ledger.renew_effect(history.committed(token, "renewed"), word=WORD, now=history.tick())
    ledger.fail_effect(token, history.started(token, "failed"), reason="no", now=history.tick())
    failed = history.started(token, "failed", undo=None, intent="corrected")

    intents = [ledger.load_effect(effect)[0] for effect in (again, stands, undone, renewed, failed) if effect]

    assert intents == [{"amount": 5}] * 4 + ["corrected"]
    assert findings(ledger) == []


def bound_to_less(store: Store, effect: EffectRecord) -> None:
    """Have the intent in the envelope that releases up to schema 0002 made."""
    binding = {"kind": "effect-intent", "scope": effect.scope, "effect": effect.reference}
    payload = store.one(PayloadRecord, payload_id=effect.intent_payload)
    store.put(replace(payload, envelope=seal({"amount": 5}, binding=binding, keys=SIGNING)))


def test_an_intent_that_an_earlier_release_bound_to_less_is_still_read(
    store: Store, ledger: Ledger, history: History
) -> None:
    token, other = history.launch("act"), history.launch("other")
    committed, lost = history.committed(token, "pay"), history.lost(token, "call")
    for effect in (committed, lost):
        bound_to_less(store, effect)

    assert ledger.load_effect(committed) == ({"amount": 5}, "receipt")
    assert findings(ledger) == []

    # Whoever takes it over binds it to all that it is bound to now.
    again = ledger.retry_effect(other, lost, lease_until=history.after(60), now=history.tick())
    assert again is not None
    assert ledger.load_effect(again)[0] == {"amount": 5}
    store.put(replace(again, undo="elsewhere:refund_twice"))
    assert findings(ledger) != []


def test_an_envelope_bound_to_less_helps_nobody_without_the_keys(
    store: Store, ledger: Ledger, history: History
) -> None:
    effect = history.committed(history.launch("act"))
    payload = store.one(PayloadRecord, payload_id=effect.intent_payload)
    binding = {"kind": "effect-intent", "scope": effect.scope, "effect": effect.reference}
    forged = seal({"amount": 5}, binding=binding, keys=SigningKeys(secrets={"k2": b"x" * 16}))
    store.put(replace(effect, undo="elsewhere:refund_twice"), replace(payload, envelope=forged))

    with pytest.raises(IntegrityError, match="signature"):
        ledger.load_effect(history.current(effect))
    assert findings(ledger) != []


def test_the_envelope_of_an_intent_says_all_that_it_vouches_for(history: History) -> None:
    effect = history.started(history.launch("act"))
    assert set(effect_binding(effect, "intent")) == {
        *("kind", "scope", "effect", "act", "dag_id", "run_id", "task_id", "map_index", "name", "undo"),
        *("verify", "on_unknown", "provider_idempotent"),
    }
    assert set(effect_binding(effect, "result")) == {"kind", "scope", "effect"}


# Requests


FORGED: dict[str, Callable[[ApprovalRecord], ApprovalRecord]] = {
    "approved by nobody's answer": lambda asked: replace(
        asked, decision=Decision.APPROVED, decided_by="ann", decided_at=asked.requested_at
    ),
    "more people may decide": lambda asked: replace(asked, approvers=(*asked.approvers, "eve")),
    "anybody may decide": lambda asked: replace(asked, approvers=()),
    "who asked may decide": lambda asked: replace(asked, four_eyes=not asked.four_eyes),
    "asked by somebody else": lambda asked: replace(asked, requester="eve"),
    "more time": lambda asked: replace(asked, expires_at=None),
    "another payload": lambda asked: replace(asked, payload_fingerprint="0" * 64),
    "another step": lambda asked: replace(asked, of="another"),
    "the newest one": lambda asked: replace(asked, sequence=99),
    "no signature": lambda asked: replace(asked, key_id="", mac=""),
    "as if there were no keys": lambda asked: replace(asked, key_id="-"),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_request_is_found_whoever_reads_it(
    how: str, store: Store, ledger: Ledger, history: History
) -> None:
    asked = history.ask(history.launch("approve"))
    store.put(FORGED[how](asked))

    readings: list[Callable[[], object]] = [
        lambda: ledger.get_approval(asked.request_id),
        lambda: ledger.list_approvals(history.run),
        lambda: history.decide(asked),
        lambda: ledger.expire_approval(asked.request_id, now=history.after(7200)),
    ]
    for read in readings:
        with pytest.raises(IntegrityError, match=r"request|key"):
            read()
    assert "approval" in {table for table, _ in findings(ledger)}


def test_a_forged_approval_allows_no_effect(store: Store, ledger: Ledger, history: History) -> None:
    history.succeed("look")
    asked = history.ask(history.launch("approve"))
    token = history.launch("act")
    store.put(replace(asked, decision=Decision.APPROVED, decided_by="bob", decided_at=history.now))

    with pytest.raises(IntegrityError, match="does not match its signature"):
        ledger.begin_effect(token, history.effect(guarded_by="act"), now=history.tick())

    assert ledger.list_effects(history.run) == []


def test_a_use_that_was_taken_back_allows_no_second_effect(
    store: Store, ledger: Ledger, history: History
) -> None:
    history.succeed("look")
    history.approved()
    token = history.launch("act")
    history.committed(token, "pay", guarded_by="act")
    (used,) = ledger.list_approvals(history.run)
    store.put(replace(used, consumed_by=None, consumed_at=None))

    with pytest.raises(IntegrityError, match="does not match its signature"):
        ledger.begin_effect(token, history.effect("again", guarded_by="act"), now=history.tick())


def test_a_newer_request_that_was_hidden_does_not_bring_an_older_one_back(
    store: Store, ledger: Ledger, history: History
) -> None:
    history.succeed("look")
    first = history.approved()
    second = history.ask_again(first, 2, expires_at=history.after(9000))
    history.decide(second, Decision.REJECTED)
    (rejected,) = (one for one in ledger.list_approvals(history.run) if one.request_id == second.request_id)
    store.put(replace(rejected, sequence=0))

    with pytest.raises(IntegrityError, match="does not match its signature"):
        ledger.begin_effect(history.launch("act"), history.effect(guarded_by="act"), now=history.tick())


def test_a_forged_request_is_not_kept_for_the_same_question(
    store: Store, ledger: Ledger, history: History
) -> None:
    """It is void and a new one asked; that it was forged is still to be found."""
    asked = history.ask(history.launch("approve"))
    store.put(replace(asked, requester="eve"))

    token = history.open("approve", nonce="nonce-1").token
    ledger.advance(token, RESUMED, now=history.tick())
    question = history.question(2, expires_at=asked.expires_at)
    fresh, _ = ledger.park(token, PARKED, nonce="nonce-2", request=question, now=history.tick())

    assert fresh.request_id != asked.request_id
    assert store.one(ApprovalRecord, request_id=asked.request_id).decision is Decision.VOID
    assert [table for table, _ in findings(ledger)] == ["approval"]


def test_a_forged_request_keeps_nobody_from_ending_its_task(
    store: Store, ledger: Ledger, history: History
) -> None:
    """It is void with the task, and what was forged is not signed with that."""
    asked = history.ask(history.launch("approve"))
    task = ledger.get_task(asked.task)
    assert task is not None
    store.put(replace(asked, approvers=("eve",)))

    skip = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann")
    ledger.mark(asked.task, skip, session=task.session, source=Source.API, now=history.tick())

    assert store.one(ApprovalRecord, request_id=asked.request_id).decision is Decision.VOID
    assert [table for table, _ in findings(ledger)] == ["approval"]


def test_requests_stay_vouched_for_whatever_becomes_of_them(ledger: Ledger, history: History) -> None:
    history.succeed("look")
    pending = history.ask(history.launch("approve"))
    late = history.ask(history.launch("late"), 2)
    ledger.expire_approval(late.request_id, now=history.now + timedelta(hours=2))
    rejected = history.ask(history.launch("no"), 3)
    history.decide(rejected, Decision.REJECTED)
    void = history.ask(history.launch("twice"), 4)
    history.ask_again(void, 5, payload="another", payload_fingerprint="0" * 64)

    told = {request.request_id: request.decision for request in ledger.list_approvals(history.run)}

    assert [told[one.request_id] for one in (pending, late, rejected, void)] == [
        Decision.PENDING,
        Decision.EXPIRED,
        Decision.REJECTED,
        Decision.VOID,
    ]
    assert [what for table, what in findings(ledger) if "signature" in what] == []
