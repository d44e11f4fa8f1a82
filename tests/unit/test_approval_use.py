"""One approval, one effect; and who may answer (semantics section 6, cases G04 to G06)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.approvals import Answer, answer_from
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import ApprovalClosed, ConfigurationError
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision
from louver.ledger.requests import RunFilter
from louver.states import RunState, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
INTENT = {"amount": 45000, "to": "acct-1"}
YES = Answer(decision=Decision.APPROVED, by="bob")
PAID: list[str] = []
SCOPES: list[str] = []


def intent() -> dict[str, Any]:
    return INTENT


def pay(ctx: TaskContext) -> None:
    """The same key and intent in each of the scopes: so many effects."""
    for scope in SCOPES:
        ctx.effect(
            "pay", key="order-1", scope=scope, intent=INTENT, perform=lambda key, s=scope: PAID.append(s)
        )


def workflow(**approve: Any) -> Definition:
    return Definition(
        name="orders",
        version="1",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload=f"{__name__}:intent", **approve),
            Step(name="pay", task=f"{__name__}:pay", after=["ask"], approval="ask"),
        ],
    )


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    PAID.clear()
    SCOPES[:] = ["dag"]
    with open_ledger("memory://") as ledger:
        yield ledger


def run(ledger: Ledger, **approve: Any) -> RunResult:
    return run_inline(workflow(**approve), ledger=ledger, clock=FixedClock(NOW), run_id="r", requester="ann")


def test_the_same_key_and_intent_in_another_scope_needs_an_approval_of_its_own(ledger: Ledger) -> None:
    SCOPES[:] = ["dag", "global", "run"]
    for number in range(1, 4):
        (request,) = run(ledger).waiting
        ledger.decide_approval(request.request_id, replace(YES), now=NOW)
        # One more of them each time: the earlier ones return what is recorded.
        assert len(PAID) == number - 1
    assert run(ledger).state is RunState.SUCCEEDED
    assert PAID == ["dag", "global", "run"]
    (made,) = ledger.list_runs(RunFilter())
    assert len({request.consumed_by for request in ledger.list_approvals(made.key)}) == 1


@pytest.mark.parametrize("by", [None, ""])
@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.REJECTED, Decision.STOPPED])
def test_nobody_decides_nothing(ledger: Ledger, by: str | None, decision: Decision) -> None:
    (request,) = run(ledger).waiting
    with pytest.raises(ApprovalClosed, match="without a person"):
        ledger.decide_approval(request.request_id, Answer(decision=decision, by=by), now=NOW)
    assert ledger.get_approval(request.request_id) == request


@pytest.mark.parametrize("decision", [Decision.PENDING, Decision.EXPIRED, Decision.VOID])
def test_a_person_cannot_answer_what_only_louver_decides(decision: Decision) -> None:
    with pytest.raises(ConfigurationError, match=f"{decision} is no answer"):
        Answer(decision=decision, by="bob")


@pytest.mark.parametrize(("name", "user_id"), [("ann", None), ("ann", "7"), ("Ann Archer", "ann")])
def test_who_started_the_run_may_not_approve_it_under_any_name(
    ledger: Ledger, name: str, user_id: str | None
) -> None:
    (request,) = run(ledger, four_eyes=True).waiting
    own = Answer(decision=Decision.APPROVED, by=name, user_id=user_id)
    with pytest.raises(ApprovalClosed, match="may not approve it"):
        ledger.decide_approval(request.request_id, own, now=NOW)
    # To say no needs no second pair.
    rejected = ledger.decide_approval(request.request_id, replace(own, decision=Decision.REJECTED), now=NOW)
    assert rejected.decision is Decision.REJECTED


def test_a_request_that_nobody_could_approve_is_not_made(ledger: Ledger) -> None:
    """Case G06: seen when it would be asked, and not by somebody who waits for it."""
    result = run(ledger, four_eyes=True, approvers=["ann"])
    assert (result.state, result.waiting) == (RunState.FAILED, ())
    assert (result.states["ask"], result.states["pay"]) == (TaskState.FAILED, TaskState.SKIPPED)
    error = result.errors["ask"]
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        "approval 'ask' would wait for ever: only 'ann' may decide it (approvers), and with four_eyes may "
        "not approve it, having started the run. Start the run as somebody else, or name another approver in "
        "the definition"
    )
    (made,) = ledger.list_runs(RunFilter())
    last = ledger.list_transitions(made.key, task_id="ask")[-1]
    assert last.reason == f"exception: {error}; another attempt cannot help"
    assert ledger.list_approvals(made.key) == []
    assert PAID == []


@pytest.mark.parametrize(
    "approve",
    [
        {"four_eyes": True},
        {"approvers": ["ann"]},
        {"four_eyes": True, "approvers": ["ann", "bob"]},
        {"four_eyes": True, "approvers": ["bob"]},
        # Perhaps the same person's; nobody knows before she answers.
        {"four_eyes": True, "approvers": ["7"]},
    ],
)
def test_a_request_that_somebody_could_approve_is_made(ledger: Ledger, approve: dict[str, Any]) -> None:
    assert len(run(ledger, **approve).waiting) == 1


def test_four_eyes_keep_nobody_from_it_where_nobody_knows_who_started_the_run(ledger: Ledger) -> None:
    definition = workflow(four_eyes=True, approvers=["ann"])
    (request,) = run_inline(definition, ledger=ledger, clock=FixedClock(NOW), run_id="r").waiting
    # Nor does it count who calls for the run later on.
    assert run(ledger, four_eyes=True, approvers=["ann"]).waiting == (request,)
    answer = Answer(decision=Decision.APPROVED, by="ann")
    assert ledger.decide_approval(request.request_id, answer, now=NOW).decision is Decision.APPROVED


def test_who_started_the_run_is_who_opened_it_and_not_who_goes_on_with_it(ledger: Ledger) -> None:
    SCOPES[:] = ["dag", "global"]
    definition = workflow(four_eyes=True, approvers=["ann"])

    def call(requester: str) -> RunResult:
        return run_inline(definition, ledger=ledger, clock=FixedClock(NOW), run_id="r", requester=requester)

    (request,) = call("bob").waiting
    ledger.decide_approval(request.request_id, Answer(decision=Decision.APPROVED, by="ann"), now=NOW)
    # The second effect is asked for anew, by the acting step.
    (anew,) = call("ann").waiting
    assert (anew.task_id, anew.requester) == ("pay", "bob")


@pytest.mark.parametrize(
    "chosen", [[["Approve"]], [None], [{"Approve": 1}], ["Approve", "Approve"], "Approve"]
)
def test_an_answer_of_another_shape_is_none(chosen: Any) -> None:
    with pytest.raises(ApprovalClosed, match="exactly one"):
        answer_from(chosen, by="bob")


def test_an_approval_that_expired_before_its_use_is_asked_anew(ledger: Ledger) -> None:
    (request,) = run(ledger, expires_after=60).waiting
    ledger.decide_approval(request.request_id, YES, now=NOW)
    late = FixedClock(NOW + timedelta(seconds=60))
    result = run_inline(workflow(expires_after=60), ledger=ledger, clock=late, run_id="r", requester="ann")
    assert result.state is RunState.WAITING_APPROVAL
    assert [(asked.task_id, asked.decision) for asked in result.waiting] == [("pay", Decision.PENDING)]
    assert PAID == []
