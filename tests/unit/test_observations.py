"""The ledger is away for a while: what only tells is made up for, what decides is not done (row T13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock
from louver.definition import Definition, Step
from louver.effects import LEASE, EffectCall, run_effect
from louver.errors import IllegalTransition, LedgerError, LedgerUnavailable
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import EffectState, RunKey, TaskKey
from louver.ledger.rows import Rows
from louver.lifecycle import Lifecycle, TaskCall
from louver.observations import Observations
from louver.policies import RetryPolicy
from louver.ports import StepRuntime
from louver.sessions import Change, Claim
from louver.signing import SigningKeys
from louver.states import Precision, Source, TaskState
from louver.steps import run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
KEY = TaskKey("work", "run-1", "one")
DEFINITION = Definition(name="work", version="1", nodes=[Step(name="one", task="business:one")])


class Remote(MemoryLedger):
    """A ledger that can be out of reach."""

    def __init__(self) -> None:
        super().__init__(keys=SigningKeys.unsigned())
        self.away = False
        self.back_at: Callable[[], bool] = lambda: False

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Rows]:
        if self.away and not self.back_at():
            raise LedgerUnavailable("ledger memory://: out of reach")
        with super()._transaction(write=write) as rows:
            yield rows


class Told:
    """A log that remembers the actions told."""

    def __init__(self) -> None:
        self.actions: list[str] = []

    def tell(self, action: str, message: str, *args: object) -> None:
        self.actions.append(action)


class Nobody:
    def proves_dead(self, process: str) -> bool:
        return False


class Stage:
    """One task, its ledger and its clock."""

    def __init__(self) -> None:
        self.ledger = Remote()
        self.clock = FixedClock(NOW)
        self.log = Told()

    def live(self, body: Any, *, prepare: Any = None, tries: int = 1) -> Any:
        call = TaskCall(
            key=KEY,
            start=run_start(DEFINITION, RUN),
            claim=Claim(try_number=tries, max_tries=3, process="p", source=Source.WORKER),
            retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=7)),
            prepare=prepare,
            body=body,
        )
        life = Lifecycle(ledger=self.ledger, clock=self.clock, liveness=Nobody(), log=self.log)
        return life.live(call)

    def leave(self, *_: object) -> None:
        self.ledger.away = True

    def come_back(self, *_: object) -> None:
        self.ledger.away = False

    def rows(self) -> list[Any]:
        return self.ledger.list_transitions(RUN)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_missed_transition_is_written_with_its_own_time_before_the_next(stage: Stage) -> None:
    def body(runtime: StepRuntime) -> int:
        stage.clock.sleep(timedelta(minutes=10))
        stage.come_back()
        return 7

    closing = stage.live(body, prepare=stage.leave)

    assert (closing.state, closing.value) == (TaskState.SUCCEEDED, 7)
    rows = stage.rows()
    assert [str(row.to_state) for row in rows] == ["queued", "starting", "running", "succeeded"]
    assert [row.version for row in rows] == [1, 2, 3, 4]
    assert [row.at - NOW for row in rows[2:]] == [timedelta(0), timedelta(minutes=10)]
    assert rows[2].precision is Precision.EXACT
    assert "persist.failed" in stage.log.actions
    (touch,) = stage.ledger.list_touches(RUN)
    assert touch.persist_failures == 1


def test_user_code_does_not_notice_and_nothing_is_counted_without_need(stage: Stage) -> None:
    stage.live(lambda runtime: None)
    assert "persist.failed" not in stage.log.actions
    assert stage.ledger.list_touches(RUN) == []


def test_a_result_that_cannot_be_kept_is_no_success(stage: Stage) -> None:
    with pytest.raises(LedgerUnavailable):
        stage.live(stage.leave)

    stage.come_back()
    assert str(stage.rows()[-1].to_state) == "running"
    assert stage.live(lambda runtime: 8, tries=2).state is TaskState.SUCCEEDED
    assert [row.version for row in stage.rows()] == list(range(1, len(stage.rows()) + 1))


def test_the_error_of_user_code_is_not_hidden_by_a_ledger_that_is_away(stage: Stage) -> None:
    error = ValueError("the order is wrong")

    def body(runtime: StepRuntime) -> None:
        stage.leave()
        raise error

    closing = stage.live(body)

    assert closing.error is error
    assert (closing.state, closing.delay) == (TaskState.RETRY_WAIT, timedelta(seconds=7))


def call(perform: Any) -> EffectCall:
    return EffectCall(scope="dag:work", key="order-77", name="charge", intent={"amount": 5}, perform=perform)


def test_no_effect_begins_without_the_ledger(stage: Stage) -> None:
    acted: list[str] = []

    def body(runtime: StepRuntime) -> None:
        stage.leave()
        run_effect(call(acted.append), runtime)

    with pytest.raises(LedgerUnavailable):
        stage.live(body)

    assert acted == []


def test_an_effect_that_happened_waits_for_the_ledger_to_say_so(stage: Stage) -> None:
    def body(runtime: StepRuntime) -> Any:
        began = stage.clock.now()
        stage.ledger.back_at = lambda: stage.clock.now() - began >= LEASE / 2
        return run_effect(call(stage.leave), runtime)

    assert stage.live(body).state is TaskState.SUCCEEDED
    (effect,) = stage.ledger.list_effects(RUN)
    assert effect.state is EffectState.COMMITTED
    assert "effect.waiting" in stage.log.actions


def test_it_does_not_wait_longer_than_its_lease(stage: Stage) -> None:
    with pytest.raises(LedgerUnavailable):
        stage.live(lambda runtime: run_effect(call(stage.leave), runtime))

    assert stage.clock.now() - NOW == LEASE
    stage.come_back()
    (effect,) = stage.ledger.list_effects(RUN)
    assert effect.state is EffectState.STARTED


# Answers that never came


class Interruption(BaseException):
    """As by a signal, in the middle of anything."""


class Unanswered(MemoryLedger):
    """Does what it is asked, and raises instead of saying so, where it is told to."""

    def __init__(self) -> None:
        super().__init__(keys=SigningKeys.unsigned())
        self.instead: BaseException | None = None

    def _decide(self, name: str, work: Any) -> Any:
        answer = super()._decide(name, work)
        if name != "advance" or self.instead is None:
            return answer
        raised, self.instead = self.instead, None
        raise raised


def opened(ledger: MemoryLedger) -> Observations:
    ledger.open_run(run_start(DEFINITION, RUN), now=NOW)
    claim = Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER)
    token = ledger.open_task(KEY, claim, now=NOW).token
    return Observations(ledger=ledger, token=token, clock=FixedClock(NOW), log=Told())


LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")


@pytest.mark.parametrize("raised", [Interruption(), LedgerUnavailable("lost"), LedgerError("odd")], ids=repr)
def test_what_was_written_without_an_answer_is_not_written_again(raised: BaseException) -> None:
    ledger = Unanswered()
    told = opened(ledger)
    ledger.instead = raised
    with suppress(Interruption):
        assert not told.tell(LAUNCHED)

    told.tell_all(COMPLETED)

    assert [str(row.to_state) for row in ledger.list_transitions(RUN)][-2:] == ["running", "succeeded"]


def test_nor_is_it_where_several_were_asked_for_at_once() -> None:
    ledger = Unanswered()
    told = opened(ledger)
    ledger.instead = LedgerUnavailable("lost")
    pausing = Change(to=TaskState.PAUSING, trigger="user:pause")
    assert not told.tell(LAUNCHED, pausing)

    assert told.tell(Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back"))

    path = [str(row.to_state) for row in ledger.list_transitions(RUN)]
    assert path[2:] == ["running", "pausing", "running"]


def test_what_the_table_does_not_allow_is_refused_and_in_the_way_of_nothing() -> None:
    ledger = Unanswered()
    told = opened(ledger)
    with pytest.raises(IllegalTransition):
        told.tell(COMPLETED)

    assert told.tell(LAUNCHED)
    told.tell_all(COMPLETED)


def test_another_task_of_the_step_is_not_taken_for_this_one() -> None:
    """Of a mapped step each index has a chain of its own."""
    ledger = Unanswered()
    told = opened(ledger)
    claim = Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER)
    other = ledger.open_task(replace(KEY, map_index=1), claim, now=NOW).token
    ledger.advance(other, LAUNCHED, now=NOW)
    ledger.instead = LedgerUnavailable("lost")
    told.tell(LAUNCHED)

    told.tell_all(COMPLETED)

    assert ledger.get_task(KEY).state is TaskState.SUCCEEDED  # type: ignore[union-attr]
