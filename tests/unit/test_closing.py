"""What became of a run, told from its nodes and effects alone (semantics section 2, row W9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.canonical import fingerprint
from louver.clock import FixedClock
from louver.closing import COMPENSATE, close_run, compensate_call, definition_of, overview
from louver.compensation import Undo
from louver.definition import Definition, Step
from louver.errors import LedgerError, LouverError
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import OnUnknown, RunKey, TaskKey, Token
from louver.ledger.records import EffectRecord
from louver.ledger.requests import EffectRequest
from louver.lifecycle import Closing, Lifecycle
from louver.sessions import Change, Claim
from louver.states import FailureKind, RunState, Source, TaskState
from louver.steps import run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
DEFINITION = Definition(
    name="work",
    version="1",
    nodes=[
        Step(name="one", task="business:one"),
        Step(name="two", task="business:two", after=["one"]),
        Step(name="three", task="business:three", after=["two"]),
        Step(name="extra", task="business:extra", on_failure="continue"),
    ],
)
LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
SUCCEEDED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
FAILED = Change(to=TaskState.FAILED, trigger="runtime:error", failure_kind=FailureKind.EXCEPTION)
LOST = Change(to=TaskState.LOST, trigger="runtime:attempt_lost")
PARKED = Change(to=TaskState.PAUSED, trigger="approval:requested")
STOPPING = Change(to=TaskState.STOPPING, trigger="user:stop")
STOPPED = Change(to=TaskState.STOPPED, trigger="runtime:stop_confirmed")
CANCELLING = Change(to=TaskState.STOPPING, trigger="orchestrator:cascade")
CANCELLED = Change(to=TaskState.CANCELLED, trigger="runtime:cascade_confirmed")

undone: list[str] = []


def put_back(undo: Undo) -> None:
    undone.append(undo.effect_key)


class Quiet:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


class Nobody:
    def proves_dead(self, process: str) -> bool:
        return False


class Run:
    """A run whose steps are brought where a test wants them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)
        ledger.open_run(run_start(DEFINITION, RUN), now=NOW)

    def claim(self) -> Claim:
        return Claim(try_number=1, max_tries=0, process="elsewhere", source=Source.WORKER)

    def open(self, name: str) -> Token:
        key = TaskKey(RUN.dag_id, RUN.run_id, name)
        token = self.ledger.open_task(key, self.claim(), now=NOW).token
        self.ledger.advance(token, LAUNCHED, now=NOW)
        return token

    def end(self, name: str, *changes: Change) -> Token:
        token = self.open(name)
        self.ledger.advance(token, *changes, now=NOW)
        return token

    def succeed(self, *names: str) -> None:
        for name in names:
            self.ledger.complete(self.open(name), SUCCEEDED, name, now=NOW)

    def begin(self, token: Token, **changes: Any) -> EffectRecord:
        request = EffectRequest(
            scope="dag:work",
            key="order-7",
            name="charge",
            intent="charge",
            intent_hash=fingerprint("charge"),
            undo=f"{__name__}:put_back",
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=False,
            lease_until=NOW + timedelta(seconds=60),
            quiesce_seconds=30.0,
        )
        return self.ledger.begin_effect(token, replace(request, **changes), now=NOW).record

    def commit(self, token: Token, **changes: Any) -> EffectRecord:
        return self.ledger.commit_effect(token, self.begin(token, **changes), None, now=NOW)

    def compensate(self) -> Closing:
        life = Lifecycle(ledger=self.ledger, clock=self.clock, liveness=Nobody(), log=Quiet())
        return life.live(compensate_call(run_start(DEFINITION, RUN), self.claim()))

    def state(self) -> RunState:
        return overview(RUN, self.ledger).state


@pytest.fixture
def run() -> Iterator[Run]:
    undone.clear()
    with open_ledger("memory://") as ledger:
        yield Run(ledger)


def test_the_definition_is_that_of_the_beginning(run: Run) -> None:
    assert definition_of(RUN, run.ledger) == DEFINITION
    assert definition_of(RUN, run.ledger).fingerprint == DEFINITION.fingerprint


def test_a_run_that_is_not_in_the_ledger(run: Run) -> None:
    for tell in (definition_of, overview):
        with pytest.raises(LedgerError, match="run run-2 of work is not in the ledger"):
            tell(RunKey("work", "run-2"), run.ledger)


def test_a_run_that_goes_on(run: Run) -> None:
    assert run.state() is RunState.RUNNING
    run.succeed("one", "extra")
    seen = overview(RUN, run.ledger)
    assert seen.state is RunState.RUNNING
    assert seen.evaluation.ready == ("two",)
    assert seen.evaluation.states["three"] is TaskState.PENDING


def test_a_run_that_succeeds(run: Run) -> None:
    run.succeed("one", "two", "three", "extra")
    assert run.state() is RunState.SUCCEEDED


def test_a_failed_step_fails_the_run_and_skips_the_rest(run: Run) -> None:
    run.succeed("one", "extra")
    run.end("two", FAILED)
    seen = overview(RUN, run.ledger)
    assert seen.state is RunState.FAILED
    assert seen.evaluation.skipped == ("three",)


def test_a_stored_state_is_a_cache_and_not_believed(run: Run) -> None:
    run.succeed("one", "two", "three", "extra")
    run.ledger.set_run_state(RUN, RunState.FAILED, reason="somebody wrote so", now=NOW)
    assert run.state() is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ([FAILED], RunState.FAILED, "two failed"),
        ([LOST], RunState.FAILED, "two lost"),
        ([STOPPING, STOPPED], RunState.STOPPED, "two stopped"),
        ([CANCELLING, CANCELLED], RunState.CANCELLED, "two cancelled"),
    ],
)
def test_closing_a_run_says_which_step_it_was(
    run: Run, changes: list[Change], state: RunState, reason: str
) -> None:
    run.succeed("one", "extra")
    run.end("two", *changes)
    assert close_run(RUN, run.ledger, now=NOW).state is state
    stored = run.ledger.get_run(RUN)
    assert stored is not None
    assert (stored.state, stored.reason) == (state, reason)


def test_closing_names_every_step_to_blame_in_declared_order(run: Run) -> None:
    run.end("extra", FAILED)
    run.end("one", LOST)
    close_run(RUN, run.ledger, now=NOW)
    stored = run.ledger.get_run(RUN)
    assert stored is not None
    assert (stored.state, stored.reason) == (RunState.FAILED, "one lost, extra failed")


def test_closing_a_success_has_no_reason(run: Run) -> None:
    run.succeed("one", "two", "three", "extra")
    for _ in range(2):
        close_run(RUN, run.ledger, now=NOW)
        stored = run.ledger.get_run(RUN)
        assert stored is not None
        assert (stored.state, stored.reason) == (RunState.SUCCEEDED, None)


def test_closing_a_run_with_a_failure_that_may_be(run: Run) -> None:
    run.succeed("one", "two", "three")
    run.end("extra", FAILED)
    assert close_run(RUN, run.ledger, now=NOW).state is RunState.SUCCEEDED_WITH_FAILURES
    stored = run.ledger.get_run(RUN)
    assert stored is not None
    assert stored.reason == "extra failed"


# Effects


def test_what_still_has_to_be_undone(run: Run) -> None:
    run.succeed("extra")
    token = run.open("one")
    run.commit(token)
    assert run.state() is RunState.RUNNING
    run.ledger.advance(token, FAILED, now=NOW)
    assert run.state() is RunState.COMPENSATING
    assert run.compensate().state is TaskState.SUCCEEDED
    assert run.state() is RunState.FAILED_COMPENSATED
    assert undone == ["order-7#1"]


@pytest.mark.parametrize(
    ("changes", "before"),
    [([STOPPING, STOPPED], RunState.STOPPED), ([CANCELLING, CANCELLED], RunState.CANCELLED)],
)
@pytest.mark.parametrize("acted", [True, False])
def test_a_run_that_was_stopped_compensates_too(
    run: Run, changes: list[Change], before: RunState, acted: bool
) -> None:
    """With nothing to undo it stays what it was (semantics section 2)."""
    run.succeed("extra")
    token = run.open("one")
    if acted:
        run.commit(token)
    run.ledger.advance(token, *changes, now=NOW)
    assert run.compensate().state is TaskState.SUCCEEDED
    assert run.state() is (RunState.FAILED_COMPENSATED if acted else before)
    assert undone == (["order-7#1"] if acted else [])


def test_a_run_that_succeeds_keeps_what_it_did(run: Run) -> None:
    token = run.open("extra")
    run.commit(token)
    run.ledger.advance(token, FAILED, now=NOW)
    run.succeed("one", "two", "three")
    closing = run.compensate()
    assert closing.value == {"forward": "succeeded_with_failures", "undone": [], "standing": []}
    assert run.state() is RunState.SUCCEEDED_WITH_FAILURES
    assert undone == []


def test_a_run_that_goes_on_cannot_be_compensated(run: Run) -> None:
    """It is tried again: the step may end in the meantime."""
    run.commit(run.open("one"))
    closing = run.compensate()
    assert closing.state is TaskState.RETRY_WAIT
    assert isinstance(closing.error, LouverError)
    assert "unfinished steps" in str(closing.error)
    assert closing.delay == timedelta(seconds=5)
    assert undone == []


def test_compensating_waits_until_nobody_can_be_inside_an_effect(run: Run) -> None:
    """Lease and quiesce; then the effect is unknown, and nobody can find out but a person."""
    run.succeed("extra")
    token = run.open("one")
    run.begin(token)
    run.ledger.advance(token, FAILED, now=NOW)
    assert run.state() is RunState.COMPENSATING
    closing = run.compensate()
    assert run.clock.now() == NOW + timedelta(seconds=90)
    assert closing.state is TaskState.FAILED
    assert "order-7#1" in str(closing.error)
    assert run.state() is RunState.COMPENSATION_FAILED
    assert undone == []


def test_the_result_of_compensating_names_effects_alone(run: Run) -> None:
    run.succeed("extra")
    token = run.open("one")
    run.commit(token)
    run.commit(token, key="order-8", undo=None)
    run.ledger.advance(token, FAILED, now=NOW)
    run.compensate()
    assert run.ledger.load_result(TaskKey(RUN.dag_id, RUN.run_id, COMPENSATE)) == {
        "forward": "failed",
        "undone": ["order-7#1"],
        "standing": ["order-8#1"],
    }
