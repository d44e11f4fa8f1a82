"""An approval allows one effect, once, while nothing changes (semantics section 6, cases G03 to G05)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.approvals import (
    OPTIONS,
    Answer,
    Evidence,
    answer_from,
    check_answerable,
    check_facts,
    check_use,
    decide,
    evidence_of,
    expire,
    usage,
)
from louver.canonical import fingerprint
from louver.errors import ApprovalClosed, ApprovalExpired, ApprovalStale, ConfigurationError
from louver.ledger.names import Decision
from louver.ledger.records import ApprovalRecord, CheckpointRecord

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
EXPIRY = NOW + timedelta(hours=1)
JUST_BEFORE = EXPIRY - timedelta(microseconds=1)
TRANSFER: dict[str, Any] = {"amount": 45_000, "to": "acct-1"}
EVIDENCE = Evidence(state_version=2, fingerprint="upstream-1")


def asked(**changes: Any) -> ApprovalRecord:
    """A request that nobody has answered."""
    record = ApprovalRecord(
        request_id="request-1",
        sequence=1,
        dag_id="bank",
        run_id="run-1",
        task_id="approve_transfer",
        map_index=-1,
        generation=1,
        of="transfer",
        definition_name="bank",
        definition_version="1.4.0",
        definition_fingerprint="definition-1",
        payload_fingerprint=fingerprint(TRANSFER),
        ancestors=("look", "price"),
        state_version=EVIDENCE.state_version,
        upstream_fingerprint=EVIDENCE.fingerprint,
        approvers=(),
        four_eyes=False,
        requester="ann",
        requested_at=NOW,
        expires_at=EXPIRY,
    )
    return replace(record, **changes)


def approved(**changes: Any) -> ApprovalRecord:
    return asked(decision=Decision.APPROVED, decided_by="bob", decided_at=NOW, **changes)


def say(
    decision: Decision = Decision.APPROVED, *, by: str | None = "bob", user_id: str | None = None
) -> Answer:
    return Answer(decision=decision, by=by, user_id=user_id)


def facts(record: ApprovalRecord | None, **changes: Any) -> ApprovalRecord:
    current: dict[str, Any] = {
        "definition_fingerprint": "definition-1",
        "definition_version": "1.4.0",
        "evidence": EVIDENCE,
        "payload_fingerprint": fingerprint(TRANSFER),
    }
    return check_facts(record, **{**current, **changes})


def use(record: ApprovalRecord | None, **changes: Any) -> ApprovalRecord:
    current: dict[str, Any] = {
        "definition_fingerprint": "definition-1",
        "definition_version": "1.4.0",
        "evidence": EVIDENCE,
        "intent_hash": fingerprint(TRANSFER),
        "reference": "transfer-7#1",
        "now": NOW,
    }
    return check_use(record, **{**current, **changes})


# Answers


@pytest.mark.parametrize(
    ("option", "decision"),
    [("Approve", Decision.APPROVED), ("Reject", Decision.REJECTED), ("Stop", Decision.STOPPED)],
)
def test_each_option_is_a_decision(option: str, decision: Decision) -> None:
    assert option in OPTIONS
    assert answer_from([option], by="bob", user_id="7") == Answer(decision=decision, by="bob", user_id="7")


@pytest.mark.parametrize(
    "chosen",
    [
        [],
        ["Approve", "Reject"],
        ["Approve", "Approve"],
        ["approve"],
        ["APPROVE"],
        ["Approve "],
        ["approved"],
        [""],
        "Approve",
    ],
)
def test_anything_but_exactly_one_legal_option_decides_nothing(chosen: list[str]) -> None:
    """Case G05."""
    with pytest.raises(ApprovalClosed, match="exactly one of Approve, Reject, Stop; the request stays open"):
        answer_from(chosen, by="bob")


# Decisions


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.REJECTED, Decision.STOPPED])
def test_a_decision_is_recorded_with_its_person_and_time(decision: Decision) -> None:
    decided = decide(asked(), say(decision), now=NOW)
    assert decided == asked(decision=decision, decided_by="bob", decided_at=NOW)


@pytest.mark.parametrize("known", [state for state in Decision if state is not Decision.PENDING])
def test_a_request_is_decided_once(known: Decision) -> None:
    with pytest.raises(ApprovalClosed, match=f"is {known} already"):
        decide(asked(decision=known), say(), now=NOW)


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.REJECTED, Decision.STOPPED])
def test_an_answer_may_come_up_to_the_expiry_and_no_later(decision: Decision) -> None:
    assert decide(asked(), say(decision), now=JUST_BEFORE).decision is decision
    with pytest.raises(ApprovalExpired, match="expired at 2026-03-01T13:00:00"):
        decide(asked(), say(decision), now=EXPIRY)


def test_a_request_without_expiry_waits_for_ever() -> None:
    late = NOW + timedelta(days=3650)
    assert decide(asked(expires_at=None), say(), now=late).decision is Decision.APPROVED


def test_expiry_never_approves_and_changes_no_decision() -> None:
    assert expire(asked(), now=EXPIRY) == asked(decision=Decision.EXPIRED, decided_at=EXPIRY)
    for record in (approved(), asked(decision=Decision.REJECTED), asked(decision=Decision.VOID)):
        assert expire(record, now=EXPIRY) is record
    with pytest.raises(ApprovalStale):
        facts(expire(asked(), now=EXPIRY))


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.REJECTED, Decision.STOPPED])
def test_an_answer_without_a_person_decides_nothing(decision: Decision) -> None:
    with pytest.raises(ApprovalClosed, match="without a person"):
        decide(asked(), say(decision, by=None), now=NOW)


def test_approvers_are_named_by_id_or_by_name() -> None:
    """Auth managers tell users apart by id; the simple one's ids are the names."""
    record = asked(approvers=("bob", "7"))
    assert decide(record, say(by="bob"), now=NOW).decided_by == "bob"
    assert decide(record, say(by="carol", user_id="7"), now=NOW).decided_by == "carol"
    for by, user_id in (("carol", None), ("carol", "8"), ("Bob", None), ("bo", "77")):
        for decision in (Decision.APPROVED, Decision.REJECTED):
            with pytest.raises(ApprovalClosed, match="may not decide"):
                decide(record, say(decision, by=by, user_id=user_id), now=NOW)


def test_a_user_without_an_id_is_not_everybody() -> None:
    with pytest.raises(ApprovalClosed, match="may not decide"):
        decide(asked(approvers=("None",)), say(by="carol", user_id=None), now=NOW)


def test_four_eyes_keep_who_started_the_run_from_approving() -> None:
    record = asked(four_eyes=True)
    with pytest.raises(ApprovalClosed, match="who started the run may not approve it"):
        decide(record, say(by="ann"), now=NOW)
    assert decide(record, say(by="bob"), now=NOW).decision is Decision.APPROVED
    assert decide(asked(), say(by="ann"), now=NOW).decision is Decision.APPROVED
    for decision in (Decision.REJECTED, Decision.STOPPED):
        assert decide(record, say(decision, by="ann"), now=NOW).decision is decision


def test_four_eyes_hold_for_an_approver_too() -> None:
    record = asked(four_eyes=True, approvers=("ann", "bob"))
    with pytest.raises(ApprovalClosed, match="who started the run"):
        decide(record, say(by="ann"), now=NOW)


# A request that nobody could approve (case G06)


PEOPLE = ("ann", "bob", "7", "Ann Archer")


@given(
    approvers=st.lists(st.sampled_from(PEOPLE), max_size=4),
    four_eyes=st.booleans(),
    requester=st.sampled_from([None, *PEOPLE]),
)
def test_a_request_is_refused_exactly_where_nobody_could_approve_it(
    approvers: list[str], four_eyes: bool, requester: str | None
) -> None:
    """By the decision itself, for everybody there may be: with a name, and with an id or without."""
    record = asked(approvers=tuple(approvers), four_eyes=four_eyes, requester=requester)
    answers = [say(by=by, user_id=user_id) for by in PEOPLE for user_id in (None, *PEOPLE)]

    def allowed(answer: Answer) -> bool:
        try:
            return decide(record, answer, now=NOW).decision is Decision.APPROVED
        except ApprovalClosed:
            return False

    request = {"approvers": approvers, "four_eyes": four_eyes, "requester": requester}
    if any(map(allowed, answers)):
        check_answerable("ask", **request)
    else:
        with pytest.raises(ConfigurationError, match=f"'ask'.*{requester!r}.*four_eyes.*somebody else"):
            check_answerable("ask", **request)


# What it is bound to


def test_an_approval_holds_while_nothing_has_changed() -> None:
    """Case G03: on a retry with the same facts it still holds."""
    record = approved()
    assert facts(record) is record


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"definition_version": "1.4.1"}, "the definition's version"),
        ({"definition_fingerprint": "definition-2"}, "the definition's fingerprint"),
        ({"evidence": replace(EVIDENCE, state_version=3)}, "the number of committed upstream results"),
        ({"evidence": replace(EVIDENCE, fingerprint="upstream-2")}, "an upstream result"),
    ],
)
def test_an_approval_is_stale_once_a_fact_has_changed(changes: dict[str, Any], fact: str) -> None:
    with pytest.raises(ApprovalStale, match=f"{fact} differs"):
        facts(approved(), **changes)
    with pytest.raises(ApprovalStale, match=f"{fact} differs"):
        use(approved(), **changes)


@pytest.mark.parametrize(
    "other",
    [{**TRANSFER, "amount": 45_001}, {**TRANSFER, "to": "acct-2"}, {**TRANSFER, "amount": 45_000.0}, {}],
)
def test_an_approval_allows_what_was_shown_and_nothing_else(other: dict[str, Any]) -> None:
    """Case G04."""
    with pytest.raises(ApprovalStale, match="payload") as caught:
        facts(approved(), payload_fingerprint=fingerprint(other))
    assert "45" not in str(caught.value)
    with pytest.raises(ApprovalStale, match="payload"):
        use(approved(), intent_hash=fingerprint(other))


@pytest.mark.parametrize("known", [state for state in Decision if state is not Decision.APPROVED])
def test_what_is_not_approved_allows_nothing(known: Decision) -> None:
    for check in (facts, use):
        with pytest.raises(ApprovalStale, match=f"the request is {known}"):
            check(asked(decision=known))


def test_what_was_not_asked_for_allows_nothing() -> None:
    for check in (facts, use):
        with pytest.raises(ApprovalStale, match="no approval was asked for"):
            check(None)


# Using it


def test_an_approval_is_used_by_one_effect() -> None:
    used = use(approved())
    assert used == approved(consumed_by=usage("transfer-7#1", fingerprint(TRANSFER)), consumed_at=NOW)
    for reference in ("transfer-8#1", "transfer-7#2"):
        with pytest.raises(ApprovalStale, match="used already, by another effect"):
            use(used, reference=reference)


def test_the_same_effect_may_begin_again() -> None:
    """Its process died, or nothing happened; also after the expiry, for it began in time."""
    used = use(approved())
    assert use(used, now=NOW + timedelta(minutes=1)) is used
    assert use(used, now=EXPIRY + timedelta(days=1)) is used


def test_an_approval_can_be_used_up_to_its_expiry_and_no_later() -> None:
    """Case G04."""
    assert use(approved(), now=JUST_BEFORE).consumed_at == JUST_BEFORE
    with pytest.raises(ApprovalStale, match="it expired at"):
        use(approved(), now=EXPIRY)
    assert use(approved(expires_at=None), now=EXPIRY).consumed_by is not None


# Evidence


def result(task: str, **changes: Any) -> CheckpointRecord:
    record = CheckpointRecord(
        dag_id="bank",
        run_id="run-1",
        task_id=task,
        map_index=-1,
        generation=1,
        name="return_value",
        incarnation=1,
        digest=f"digest of {task}",
        saved_at=NOW,
    )
    return replace(record, **changes)


def test_the_order_of_results_does_not_matter() -> None:
    rows = [result("look"), result("price")]
    assert evidence_of(rows) == evidence_of(reversed(rows))
    assert evidence_of(rows).state_version == 2
    assert evidence_of([]).state_version == 0


@pytest.mark.parametrize(
    "changes", [{"task_id": "other"}, {"map_index": 0}, {"generation": 2}, {"digest": "another"}]
)
def test_another_result_is_other_evidence(changes: dict[str, Any]) -> None:
    before = evidence_of([result("look"), result("price")])
    after = evidence_of([result("look"), result("price", **changes)])
    assert after.state_version == before.state_version
    assert after.fingerprint != before.fingerprint


def test_when_a_result_was_saved_does_not_matter() -> None:
    assert evidence_of([result("look", saved_at=EXPIRY)]) == evidence_of([result("look")])
