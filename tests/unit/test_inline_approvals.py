"""A run in the calling thread parks, is answered and goes on (semantics section 6, cases G03 and G04)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.approvals import Answer
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.control import send
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import ApprovalExpired, ApprovalRejected, TaskCancelled
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, Decision, EffectState, RunKey, TaskKey, Verb
from louver.ledger.records import TransitionRecord
from louver.ledger.requests import CommandRequest
from louver.policies import RetryPolicy
from louver.states import RunState, Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def step(name: str, **given: Any) -> Step:
    return Step(name=name, task=f"business:{name}", **given)


def work(*nodes: Step | ApprovalNode, **given: Any) -> Definition:
    return Definition(**{"name": "work", "version": "1", "nodes": nodes, **given})


def trail(ledger: Ledger, task_id: str) -> list[TransitionRecord]:
    return ledger.list_transitions(RUN, task_id=task_id)


ACTED: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_acted() -> Iterator[None]:
    ACTED.clear()
    yield
    ACTED.clear()


class Bank:
    """Looks a price up, asks whether to pay it, and pays."""

    def __init__(self, *, price: int = 100) -> None:
        self.price = price
        self.pays: int | None = None
        self.trips: list[BaseException] = []

    def tasks(self) -> dict[str, Any]:
        return {"look": self.look, "approve": self.payload, "pay": self.pay}

    def look(self) -> int:
        return self.price

    @staticmethod
    def payload(price: int) -> dict[str, int]:
        return {"amount": price}

    def pay(self, price: int, ctx: TaskContext) -> Any:
        amount = price if self.pays is None else self.pays
        paid = ctx.effect("pay", intent={"amount": amount}, perform=self.charge)
        if self.trips:
            raise self.trips.pop()
        return paid

    @staticmethod
    def charge(key: str) -> str:
        ACTED[key] += 1
        return f"paid {key}"


def payment(**approval: Any) -> Definition:
    return work(
        step("look"),
        ApprovalNode(
            name="approve", of="pay", payload="business:payload", deps={"price": "look"}, **approval
        ),
        step(
            "pay",
            deps={"price": "look"},
            after=["approve"],
            approval="approve",
            retry=RetryPolicy(max_attempts=2),
        ),
    )


class Desk:
    """The desk where a run is called for again and again, and people answer in between."""

    def __init__(self, ledger: Ledger, clock: FixedClock, definition: Definition, bank: Bank) -> None:
        self.ledger = ledger
        self.clock = clock
        self.definition = definition
        self.bank = bank

    def run(self) -> RunResult:
        return run_inline(
            self.definition,
            self.bank.tasks(),
            ledger=self.ledger,
            clock=self.clock,
            run_id="run-1",
            requester="ann",
        )

    def answer(self, result: RunResult, decision: Decision = Decision.APPROVED, *, by: str = "bob") -> None:
        (request,) = result.waiting
        answer = Answer(decision=decision, by=by)
        self.ledger.decide_approval(request.request_id, answer, now=self.clock.now())


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def desk(ledger: Ledger, clock: FixedClock, bank: Bank) -> Desk:
    return Desk(ledger, clock, payment(expires_after=3600), bank)


KEY = "run-1::pay::-1::pay#1"


def test_a_run_parks_and_goes_on_once_it_is_approved(desk: Desk) -> None:
    parked = desk.run()
    assert parked.state is RunState.WAITING_APPROVAL
    assert parked.states["approve"] is TaskState.PAUSED
    (request,) = parked.waiting
    assert (request.of, request.task_id, request.requester) == ("pay", "approve", "ann")
    assert request.expires_at == NOW + timedelta(hours=1)
    assert desk.ledger.load_approval(request) == {"amount": 100}
    assert ACTED == {}

    desk.answer(parked)
    result = desk.run()

    assert (result.state, result.value, result.waiting) == (RunState.SUCCEEDED, f"paid {KEY}", ())
    assert ACTED == {KEY: 1}
    used = desk.ledger.get_approval(request.request_id)
    assert used is not None
    assert (used.consumed_by or "").startswith(f"{KEY}:")
    granted = next(row for row in trail(desk.ledger, "approve") if row.trigger == "approval:granted")
    assert granted.actor == "bob"


def test_without_an_answer_nothing_goes_on(desk: Desk) -> None:
    first, second = desk.run(), desk.run()
    assert first.waiting == second.waiting
    assert second.state is RunState.WAITING_APPROVAL
    run = desk.ledger.get_run(RUN)
    assert run is not None
    assert run.state is RunState.WAITING_APPROVAL
    assert len(trail(desk.ledger, "approve")) == 4


@pytest.mark.parametrize(
    ("decision", "state", "error", "run_state"),
    [
        (Decision.REJECTED, TaskState.FAILED, ApprovalRejected, RunState.FAILED),
        (Decision.STOPPED, TaskState.STOPPED, TaskCancelled, RunState.STOPPED),
    ],
)
def test_an_answer_that_is_no_approval_ends_the_run(
    desk: Desk, decision: Decision, state: TaskState, error: type[Exception], run_state: RunState
) -> None:
    desk.answer(desk.run(), decision)
    result = desk.run()
    assert (result.state, result.states["approve"], result.states["pay"]) == (
        run_state,
        state,
        TaskState.SKIPPED,
    )
    assert isinstance(result.errors["approve"], error)
    assert trail(desk.ledger, "approve")[-1].actor == "bob"
    assert ACTED == {}


def test_expiry_never_approves(desk: Desk) -> None:
    (request,) = desk.run().waiting
    desk.clock.advance(timedelta(hours=1))
    result = desk.run()
    assert result.state is RunState.FAILED
    assert isinstance(result.errors["approve"], ApprovalExpired)
    expired = desk.ledger.get_approval(request.request_id)
    assert expired is not None
    assert expired.decision is Decision.EXPIRED
    assert trail(desk.ledger, "approve")[-1].trigger == "approval:expired"
    assert ACTED == {}


def test_a_stale_approval_is_asked_anew_by_the_acting_step(desk: Desk) -> None:
    """Case G04: nothing was done; the trail says why; the new answer allows the new intent."""
    desk.answer(desk.run())
    desk.bank.pays = 101
    parked = desk.run()

    assert parked.state is RunState.WAITING_APPROVAL
    assert parked.states["pay"] is TaskState.PAUSED
    assert ACTED == {}
    (request,) = parked.waiting
    assert (request.task_id, request.of, request.sequence) == ("pay", "pay", 2)
    assert desk.ledger.load_approval(request) == {"amount": 101}
    row = trail(desk.ledger, "pay")[-1]
    assert row.trigger == "approval:requested"
    assert (row.reason or "").startswith("approval_stale: the payload")

    desk.answer(parked)
    result = desk.run()
    assert result.state is RunState.SUCCEEDED
    assert ACTED == {KEY: 1}
    first, second = desk.ledger.list_approvals(RUN)
    assert (first.consumed_by, second.consumed_by is None) == (None, False)


def test_an_approval_that_runs_out_before_the_effect_is_asked_anew(desk: Desk) -> None:
    """Case G04: approved in time, used too late."""
    desk.answer(desk.run())
    desk.clock.advance(timedelta(hours=1))
    parked = desk.run()
    assert parked.states["pay"] is TaskState.PAUSED
    assert ACTED == {}
    assert "approval_stale: it expired at" in (trail(desk.ledger, "pay")[-1].reason or "")
    desk.answer(parked)
    assert desk.run().state is RunState.SUCCEEDED
    assert ACTED == {KEY: 1}


def test_an_intent_that_changes_again_is_asked_for_again(desk: Desk) -> None:
    """Each renewed request is one of its own; the old answers stay in the history."""
    desk.answer(desk.run())
    for amount in (101, 102):
        desk.bank.pays = amount
        desk.answer(desk.run())
    assert desk.run().state is RunState.SUCCEEDED
    assert ACTED == {KEY: 1}
    asked = desk.ledger.list_approvals(RUN)
    assert [desk.ledger.load_approval(request)["amount"] for request in asked] == [100, 101, 102]
    assert [request.decision for request in asked] == [Decision.APPROVED] * 3
    assert [request.consumed_by is not None for request in asked] == [False, False, True]


def test_a_renewed_request_that_is_rejected_ends_the_step(desk: Desk) -> None:
    desk.answer(desk.run())
    desk.bank.pays = 101
    desk.answer(desk.run(), Decision.REJECTED)
    result = desk.run()
    assert result.state is RunState.FAILED
    assert isinstance(result.errors["pay"], ApprovalRejected)
    assert ACTED == {}


def test_a_retry_needs_no_second_approval(desk: Desk) -> None:
    """Case G03: the effect is committed, so the approval was used for what happened, once."""
    desk.answer(desk.run())
    desk.bank.trips = [OSError()]
    result = desk.run()
    assert result.state is RunState.SUCCEEDED
    assert ACTED == {KEY: 1}
    assert len(desk.ledger.list_approvals(RUN)) == 1


def test_a_crash_after_the_approval_was_used(desk: Desk) -> None:
    desk.answer(desk.run())
    desk.bank.trips = [Killed()]
    with pytest.raises(Killed):
        desk.run()
    assert desk.run().state is RunState.SUCCEEDED
    assert ACTED == {KEY: 1}
    effect = desk.ledger.list_effects(RUN)[0]
    assert (effect.state, effect.approval_id) == (
        EffectState.COMMITTED,
        desk.ledger.list_approvals(RUN)[0].request_id,
    )


def test_other_branches_go_on_while_a_person_is_asked(ledger: Ledger, clock: FixedClock, bank: Bank) -> None:
    done: list[str] = []
    definition = work(*payment().nodes, step("side"), sink="pay")
    tasks = {**bank.tasks(), "side": lambda: done.append("side")}
    result = run_inline(definition, tasks, ledger=ledger, clock=clock, run_id="run-1")
    assert result.state is RunState.WAITING_APPROVAL
    assert result.states["side"] is TaskState.SUCCEEDED
    assert done == ["side"]


# Commands


def ask(desk: Desk, verb: Verb) -> None:
    request = CommandRequest(
        command_id=f"{verb}-1",
        task=TaskKey(RUN.dag_id, RUN.run_id, "approve"),
        verb=verb,
        actor="eve",
        reason="enough",
        source=Source.CLI,
    )
    send(desk.ledger, request, now=desk.clock.now())


@pytest.mark.parametrize("answered", [False, True])
def test_a_stop_ends_what_waits_for_an_approval_whatever_was_answered(desk: Desk, answered: bool) -> None:
    parked = desk.run()
    if answered:
        desk.answer(parked)
    ask(desk, Verb.STOP)

    result = desk.run()

    assert (result.state, result.states["approve"]) == (RunState.STOPPED, TaskState.STOPPED)
    last = trail(desk.ledger, "approve")[-1]
    assert (last.trigger, last.actor, last.reason) == ("user:stop", "eve", "enough")
    (command,) = desk.ledger.list_commands(RUN)
    assert (command.state, command.outcome) == (CommandState.DONE, "stopped while it waited for an approval")
    (request,) = desk.ledger.list_approvals(RUN)
    assert request.decision is (Decision.APPROVED if answered else Decision.VOID)
    assert ACTED == {}


def test_a_pause_of_what_waits_for_an_approval_is_honoured_once_it_is_granted(desk: Desk) -> None:
    parked = desk.run()
    ask(desk, Verb.PAUSE)
    assert desk.run().waiting == parked.waiting

    desk.answer(parked)
    paused = desk.run()

    assert (paused.states["approve"], paused.paused) == (TaskState.PAUSED, ("approve",))
    ask(desk, Verb.RESUME)
    assert desk.run().state is RunState.SUCCEEDED
