"""
An embedded run that is broken off at any point, and called again.

Here the process is not killed, it only leaves everything as it is; ``tests/crash`` kills real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.approvals import Answer
from louver.clock import FixedClock
from louver.compensation import Undo
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.effects import Verification
from louver.engine.inline import RunResult, run_inline
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, EffectState, RunKey
from louver.states import RunState
from louver.testing import crashes

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")

DONE: Counter[str] = Counter()


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def _nothing_done() -> Iterator[None]:
    DONE.clear()
    yield
    crashes.disarm()


def price() -> int:
    return 100


def payload(price: int) -> dict[str, int]:
    return {"amount": price}


def pay(price: int, ctx: TaskContext) -> Any:
    return ctx.effect(
        "pay",
        intent={"amount": price},
        perform=charge,
        compensate=refund,
        verify=find,
        provider_idempotent=True,
    )


def charge(key: str) -> str:
    DONE[f"charge {key}"] += 1
    return key


def find(key: str) -> Verification:
    return Verification.committed(key) if DONE[f"charge {key}"] else Verification.absent()


def refund(undo: Undo) -> None:
    # Once for each key, as a provider should.
    DONE[f"refund {undo.key}"] = 1


def ship() -> str:
    return "on its way"


def fail() -> None:
    raise OSError("no way")


def work(last: Callable[[], Any]) -> Definition:
    def step(name: str, function: Callable[..., Any], **given: Any) -> Step:
        return Step(name=name, task=f"{__name__}:{function.__name__}", **given)

    return Definition(
        name="work",
        version="1",
        nodes=[
            step("price", price),
            ApprovalNode(
                name="approve",
                of="pay",
                payload=f"{__name__}:payload",
                deps={"price": "price"},
                expires_after=3600,
            ),
            step("pay", pay, deps={"price": "price"}, after=["approve"], approval="approve"),
            step("last", last, after=["pay"]),
        ],
    )


KEY = "run-1::pay::-1::pay#1"
PAID = {f"charge {KEY}": 1}
PAID_BACK = {**PAID, f"refund undo:{KEY}": 1}

ENDS = {
    "approved": (ship, Decision.APPROVED, RunState.SUCCEEDED, PAID),
    "approved, and it fails": (fail, Decision.APPROVED, RunState.FAILED_COMPENSATED, PAID_BACK),
    "rejected": (ship, Decision.REJECTED, RunState.FAILED, {}),
    "stopped": (ship, Decision.STOPPED, RunState.STOPPED, {}),
    "nobody answers": (ship, None, RunState.FAILED, {}),
}


class Desk:
    """Where the run is called for until it is over, and answered."""

    def __init__(self, ledger: Ledger, definition: Definition, decision: Decision | None) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)
        self.definition = definition
        self.decision = decision
        self.killed = 0

    def to_the_end(self) -> RunResult:
        for _ in range(20):
            try:
                result = self.once()
            except Killed:
                self.killed += 1
                self.clock.advance(timedelta(seconds=1))
                continue
            if result.state.terminal:
                return result
        raise AssertionError(f"it is {result.state} for ever: {result}")

    def once(self) -> RunResult:
        result = run_inline(self.definition, ledger=self.ledger, clock=self.clock, run_id="run-1")
        for request in result.waiting:
            if self.decision is None:
                self.clock.advance(timedelta(hours=2))
            else:
                answer = Answer(decision=self.decision, by="bob")
                self.ledger.decide_approval(request.request_id, answer, now=self.clock.now())
        return result


def kill() -> None:
    raise Killed


def hits(points: list[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    counted = []
    for point in points:
        seen[point] += 1
        counted.append((point, seen[point]))
    return counted


@pytest.mark.parametrize("name", ENDS)
def test_broken_off_at_any_point_it_comes_to_the_same_end(name: str) -> None:
    last, decision, state, done = ENDS[name]
    with open_ledger("memory://") as ledger, crashes.recording() as points:
        assert Desk(ledger, work(last), decision).to_the_end().state is state
    assert len(points) > 60

    for point, hit in hits(points):
        DONE.clear()
        with open_ledger("memory://") as ledger:
            desk = Desk(ledger, work(last), decision)
            crashes.act_at(point, kill, hit=hit)

            result = desk.to_the_end()

            assert (result.state, desk.killed) == (state, 1), (point, hit)
            assert dict(+DONE) == done, (point, hit)
            # Whoever answered is not asked again.
            assert len(ledger.list_approvals(RUN)) == 1, (point, hit)


def test_however_many_processes_die_undoing_it_is_undone() -> None:
    with open_ledger("memory://") as ledger:
        desk = Desk(ledger, work(fail), Decision.APPROVED)
        assert desk.once().state is RunState.WAITING_APPROVAL
        for times in range(1, 9):
            crashes.act_at("undo.perform.before", kill)
            with pytest.raises(Killed):
                desk.once()
            effects = {effect.key: effect.state for effect in ledger.list_effects(RUN)}
            assert effects[KEY.removesuffix("#1")] is EffectState.COMMITTED, times
        crashes.disarm()

        result = desk.to_the_end()

    assert result.state is RunState.FAILED_COMPENSATED
    assert dict(+DONE) == PAID_BACK
    assert "compensate" not in result.errors
