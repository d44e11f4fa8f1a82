"""Which answers to an approval the API server passes on, and what a resumed task makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.approvals import Answer
from louver.ledger.names import Decision
from louver.ledger.records import ApprovalRecord
from louver.steps import ParkAnswer
from louver_provider.api.answers import judge_request
from louver_provider.approval_form import describe_request
from louver_provider.parks import judge_park
from louver_provider.runtime import answer_from_event

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

FIRST = ApprovalRecord(
    request_id="request-1",
    sequence=1,
    dag_id="orders",
    run_id="r1",
    task_id="approve",
    map_index=-1,
    generation=1,
    of="charge",
    definition_name="orders",
    definition_version="1.0.0",
    definition_fingerprint="d" * 64,
    payload_fingerprint="p" * 64,
    ancestors=("validate",),
    state_version=1,
    upstream_fingerprint="u" * 64,
    approvers=(),
    four_eyes=False,
    requester=None,
    requested_at=NOW,
    expires_at=NOW + timedelta(hours=1),
)
SECOND = replace(FIRST, request_id="request-2", sequence=2)


def body(*options: Any, **params: Any) -> bytes:
    return json.dumps({"chosen_options": list(options), "params_input": params}).encode()


@pytest.mark.parametrize("option", ["Approve", "Reject", "Stop"])
def test_one_legal_option_with_the_requests_id_passes(option: str) -> None:
    assert judge_request([FIRST], body(option, request_id="request-1"), now=NOW) is None


@pytest.mark.parametrize(
    "options", [(), ("Approve", "Reject"), ("approve",), ("Approve ",), (None,), (["Approve"],), (1,)]
)
def test_anything_but_exactly_one_legal_option_is_refused(options: tuple[Any, ...]) -> None:
    refusal = judge_request([FIRST], body(*options), now=NOW)
    assert refusal is not None
    assert refusal.status == 400
    assert "stays open" in refusal.detail


def test_without_an_id_an_answer_passes_only_while_there_can_be_no_doubt() -> None:
    assert judge_request([FIRST], body("Approve"), now=NOW) is None
    refusal = judge_request([replace(FIRST, decision=Decision.APPROVED), SECOND], body("Approve"), now=NOW)
    assert refusal is not None
    assert refusal.status == 409


def test_an_answer_to_an_earlier_question_is_refused() -> None:
    refusal = judge_request([FIRST, SECOND], body("Approve", request_id="request-1"), now=NOW)
    assert refusal is not None
    assert refusal.status == 409
    assert "another request" in refusal.detail


def test_a_late_answer_is_refused() -> None:
    late = FIRST.expires_at
    refusal = judge_request([FIRST], body("Approve", request_id="request-1"), now=late or NOW)
    assert refusal is not None
    assert (refusal.status, "expiry never approves" in refusal.detail) == (409, True)


def test_a_second_answer_is_refused() -> None:
    decided = replace(FIRST, decision=Decision.REJECTED)
    refusal = judge_request([decided], body("Approve", request_id="request-1"), now=NOW)
    assert refusal is not None
    assert (refusal.status, "rejected already" in refusal.detail) == (409, True)


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_answer_is_left_to_airflow(garbage: bytes) -> None:
    assert judge_request([FIRST], garbage, now=NOW) is None


def test_a_resume_event_is_a_persons_answer() -> None:
    event = {
        "chosen_options": ["Approve"],
        "params_input": {"request_id": "request-1"},
        "responded_by_user": {"id": "7", "name": "alice"},
        "timedout": False,
    }
    assert answer_from_event(event) == ParkAnswer(
        request_id="request-1", answer=Answer(decision=Decision.APPROVED, by="alice", user_id="7")
    )


def test_an_answer_that_the_task_gave_itself_has_no_person() -> None:
    answered = answer_from_event({"chosen_options": ["Approve"], "responded_by_user": None})
    assert answered.answer == Answer(decision=Decision.APPROVED, by=None)


@pytest.mark.parametrize(
    "event",
    [{"error": "too late", "error_type": "timeout"}, {"chosen_options": ["Approve"], "timedout": True}],
)
def test_a_time_out_is_no_answer(event: dict[str, Any]) -> None:
    assert answer_from_event(event) == ParkAnswer(timed_out=True)


@pytest.mark.parametrize("event", [None, {}, {"chosen_options": []}, {"chosen_options": ["Maybe"]}])
def test_no_answer_decides_nothing(event: dict[str, Any] | None) -> None:
    assert answer_from_event(event) == ParkAnswer()


def test_the_form_ties_the_answer_to_the_request() -> None:
    form = describe_request(FIRST, {"amount": "129.90"})
    assert form.params["request_id"]["value"] == "request-1"
    assert form.params["request_id"]["schema"]["const"] == "request-1"


def test_nothing_in_the_payload_becomes_markup() -> None:
    form = describe_request(FIRST, {"note": "a | b\n| [x](http://evil) <img src=x> `c` *d*"})
    (row,) = [line for line in form.body.splitlines() if line.startswith("| note")]
    assert row == (r"| note | a \| b \| \[x\]\(http://evil\) \<img src=x\> \`c\` \*d\* |")


PARK: dict[str, Any] = {
    "state": "awaiting_input",
    "parked_at": NOW,
    "examined_at": NOW + timedelta(seconds=3),
    "lingering": False,
    "guard": timedelta(seconds=2),
    "now": NOW + timedelta(seconds=4),
}


def test_a_park_that_the_scheduler_has_noticed_may_be_answered() -> None:
    assert judge_park(**PARK) is None


@pytest.mark.parametrize(
    ("difference", "retry_after"),
    [
        ({"now": NOW + timedelta(seconds=0.5)}, 2),
        ({"now": NOW + timedelta(seconds=1.9)}, 1),
        ({"lingering": True}, 1),
        ({"examined_at": NOW + timedelta(seconds=1)}, 1),
        ({"examined_at": None}, 1),
        ({"state": "running"}, 2),
        ({"state": "queued"}, 2),
        ({"state": "scheduled"}, 2),
    ],
)
def test_an_answer_that_comes_too_early_is_told_when_to_come_again(
    difference: dict[str, Any], retry_after: int
) -> None:
    refusal = judge_park(**{**PARK, **difference})
    assert refusal is not None
    assert (refusal.status, refusal.retry_after) == (409, retry_after)


@pytest.mark.parametrize("difference", [{"lingering": True}, {"examined_at": None}])
def test_a_park_of_half_a_minute_is_settled_whatever_cannot_be_told(difference: dict[str, Any]) -> None:
    assert judge_park(**{**PARK, **difference, "now": NOW + timedelta(seconds=30)}) is None


@pytest.mark.parametrize("state", ["success", "failed", "up_for_retry", "skipped", None])
def test_a_task_that_waits_for_nobody_takes_no_answer(state: str | None) -> None:
    refusal = judge_park(**{**PARK, "state": state})
    assert refusal is not None
    assert (refusal.status, refusal.retry_after) == (409, None)
