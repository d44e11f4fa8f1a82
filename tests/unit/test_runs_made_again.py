"""A run id that is used again: what the earlier run did is its own, unless it had not come to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest

from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, EffectState, RunKey
from louver.ledger.records import EffectRecord
from louver.maintenance import clean_runs, verify_ledger
from louver.states import RunState
from louver.steps import run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("nightly", "nightly-x")
DEFINITION = Definition(
    name="nightly",
    version="1",
    nodes=[
        Step(name="first", task=f"{__name__}:first"),
        Step(name="pay", task=f"{__name__}:pay", after=["first"]),
        Step(name="last", task=f"{__name__}:last", after=["pay"]),
    ],
)


class Killed(BaseException):
    """The process ends here."""


class Bank:
    """
    Somebody else's system, and what goes wrong in the steps around it.

    :ivar trouble: what the steps raise, by name.
    """

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.refunded: list[str] = []
        self.trouble: dict[str, BaseException] = {}

    def step(self, name: str) -> None:
        if name in self.trouble:
            raise self.trouble[name]

    def pay(self, key: str) -> str:
        self.paid.append(key)
        return f"receipt {len(self.paid)}"


BANKS: list[Bank] = []


def refund(undo: object) -> None:
    BANKS[-1].refunded.append("refunded")


def first() -> None:
    BANKS[-1].step("first")


def pay(ctx: TaskContext) -> str:
    receipt: str = ctx.effect(
        "pay", intent={"amount": 5}, perform=BANKS[-1].pay, compensate=refund, key="invoice-7"
    )
    return receipt


def last() -> None:
    BANKS[-1].step("last")


@pytest.fixture
def bank() -> Iterator[Bank]:
    BANKS.append(Bank())
    yield BANKS[-1]
    BANKS.pop()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def run(ledger: Ledger, clock: FixedClock, *, marker: str = "one") -> RunResult:
    """The run with this marker, as far as it goes: another marker is another run of the same id."""
    clock.sleep(timedelta(days=1))
    ledger.open_run(run_start(DEFINITION, RUN, marker=marker), now=clock.now())
    return run_inline(DEFINITION, ledger=ledger, clock=clock, run_id=RUN.run_id)


def clean(ledger: Ledger, clock: FixedClock) -> None:
    """Remove the run; its effects, which guard their keys, stay."""
    clock.sleep(timedelta(days=1))
    (cleaned,) = clean_runs(ledger, before=clock.now(), remove=True)
    assert (cleaned.kept, cleaned.standing) == (None, 1)


def delete(ledger: Ledger, clock: FixedClock) -> None:
    """In Airflow, which tells nobody."""


def payment(ledger: Ledger) -> EffectRecord:
    (effect,) = [each for each in ledger.list_effects(RUN) if each.kind is EffectKind.FORWARD]
    return effect


@pytest.mark.parametrize("gone", [clean, delete])
def test_what_a_run_that_succeeded_did_is_not_undone_by_the_next_of_its_id(
    bank: Bank, ledger: Ledger, clock: FixedClock, gone: Callable[[Ledger, FixedClock], None]
) -> None:
    assert run(ledger, clock).state is RunState.SUCCEEDED
    gone(ledger, clock)
    bank.trouble["first"] = RuntimeError()

    result = run(ledger, clock, marker="another")

    assert result.state is RunState.FAILED
    assert (len(bank.paid), bank.refunded) == (1, [])
    assert payment(ledger).state is EffectState.COMMITTED
    assert verify_ledger(ledger, limit=9).findings == ()


@pytest.mark.parametrize("gone", [clean, delete])
def test_what_was_undone_before_says_nothing_of_the_next_of_its_id(
    bank: Bank, ledger: Ledger, clock: FixedClock, gone: Callable[[Ledger, FixedClock], None]
) -> None:
    bank.trouble["last"] = RuntimeError()
    assert run(ledger, clock).state is RunState.FAILED_COMPENSATED
    if gone is clean:
        clock.sleep(timedelta(days=1))
        assert [one.kept for one in clean_runs(ledger, before=clock.now(), remove=True)] == [None]
    bank.trouble["first"] = RuntimeError()

    assert run(ledger, clock, marker="another").state is RunState.FAILED

    assert len(bank.refunded) == 1
    assert verify_ledger(ledger, limit=9).findings == ()


def test_what_an_unfinished_run_left_is_undone_by_the_next_of_its_id(
    bank: Bank, ledger: Ledger, clock: FixedClock
) -> None:
    """It was deleted after it had paid: nobody else is there to give the money back."""
    bank.trouble["last"] = Killed()
    with pytest.raises(Killed):
        run(ledger, clock)
    assert payment(ledger).state is EffectState.COMMITTED
    bank.trouble = {"first": RuntimeError()}

    assert run(ledger, clock, marker="another").state is RunState.FAILED_COMPENSATED

    assert (len(bank.refunded), payment(ledger).state) == (1, EffectState.UNDONE)
    assert verify_ledger(ledger, limit=9).findings == ()


def test_what_was_left_unfinished_stays_so_though_a_run_after_it_succeeds(
    bank: Bank, ledger: Ledger, clock: FixedClock
) -> None:
    """That one has not asked for it: its step acted under another key."""
    bank.trouble["last"] = Killed()
    with pytest.raises(Killed):
        run(ledger, clock)
    bank.trouble.clear()
    other = Definition(name="nightly", version="2", nodes=DEFINITION.nodes[:1])
    ledger.open_run(run_start(other, RUN, marker="another"), now=clock.now())
    done = run_inline(other, ledger=ledger, clock=clock, run_id=RUN.run_id)
    assert done.state is RunState.SUCCEEDED
    bank.trouble["first"] = RuntimeError()

    assert run(ledger, clock, marker="a third one").state is RunState.FAILED_COMPENSATED

    assert len(bank.refunded) == 1


@pytest.mark.parametrize("gone", [clean, delete])
def test_what_the_next_run_asks_for_again_is_its_own_to_undo(
    bank: Bank, ledger: Ledger, clock: FixedClock, gone: Callable[[Ledger, FixedClock], None]
) -> None:
    """It is built on what was done, as if it had done it; a third run finds it undone and pays anew."""
    run(ledger, clock)
    gone(ledger, clock)
    bank.trouble["last"] = RuntimeError()

    assert run(ledger, clock, marker="another").state is RunState.FAILED_COMPENSATED

    assert (len(bank.paid), len(bank.refunded)) == (1, 1)
    bank.trouble.clear()
    assert run(ledger, clock, marker="a third one").state is RunState.SUCCEEDED
    assert [key.rpartition("#")[2] for key in bank.paid] == ["1", "2"]
    assert verify_ledger(ledger, limit=9).findings == ()


def test_what_the_next_run_asked_for_and_kept_is_not_undone_by_the_one_after_it(
    bank: Bank, ledger: Ledger, clock: FixedClock
) -> None:
    for marker in ("one", "another"):
        assert run(ledger, clock, marker=marker).state is RunState.SUCCEEDED
    bank.trouble["first"] = RuntimeError()

    assert run(ledger, clock, marker="a third one").state is RunState.FAILED

    assert (len(bank.paid), bank.refunded) == (1, [])
