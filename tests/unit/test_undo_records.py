"""What an undo leaves in the ledger, and what later generations build on (semantics section 4, case E08)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.binding import bind
from louver.clock import FixedClock
from louver.closing import COMPENSATE, compensate_call, overview
from louver.compensation import Tally, Undo, tally
from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.engine.inline import run_inline
from louver.errors import EffectInProgress, EffectNotPerformed, UpstreamUndone
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, EffectState, OnUnknown, RunKey, TaskKey
from louver.ledger.records import TransitionRecord
from louver.ledger.requests import EffectRequest
from louver.lifecycle import Closing, Lifecycle
from louver.liveness import LocalProcesses
from louver.sessions import Change, Claim
from louver.states import RunState, Source, TaskState
from louver.steps import StepCalls, run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("saga", "run-1")
DONE: list[str] = []
MEANWHILE: list[Callable[[], object]] = []


class Receipt:
    """Nothing that a ledger can keep."""


def put_back(undo: Undo) -> None:
    DONE.append(f"undo {undo.name}")
    for meanwhile in MEANWHILE:
        meanwhile()


def put_back_with_a_receipt(undo: Undo) -> Receipt:
    DONE.append(f"undo {undo.name}")
    return Receipt()


def reserve(ctx: TaskContext) -> Any:
    return ctx.effect("reserve", intent={}, perform=lambda key: DONE.append(key), compensate=put_back)


def look_and_reserve(ctx: TaskContext) -> Any:
    ctx.effect("look", intent={}, perform=lambda key: DONE.append(key), compensate=put_back)
    return reserve(ctx)


def reserve_with_a_receipt(ctx: TaskContext) -> Any:
    return ctx.effect(
        "reserve", intent={}, perform=lambda key: DONE.append(key), compensate=put_back_with_a_receipt
    )


def fail() -> None:
    raise RuntimeError("never works")


def decline(ctx: TaskContext) -> Any:
    def perform(key: str) -> None:
        raise EffectNotPerformed("card 4711 declined")

    return ctx.effect("charge", intent={}, perform=perform)


def saga(function: str = "reserve", last: str = "fail") -> Definition:
    return Definition(
        name="saga",
        version="1",
        nodes=[
            Step(name="reserve", task=f"{__name__}:{function}"),
            Step(name="last", task=f"{__name__}:{last}", after=["reserve"]),
        ],
    )


class Quiet:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    DONE.clear()
    MEANWHILE.clear()
    with open_ledger("memory://") as ledger:
        yield ledger


class Process:
    """Lives tasks of the run, try after try, as Airflow would have it; more tries tell of a clear."""

    def __init__(self, ledger: Ledger, definition: Definition) -> None:
        self.ledger = ledger
        self.definition = definition
        self.start = run_start(definition, RUN)
        self.clock = FixedClock(NOW)
        self.processes = LocalProcesses()

    def claim(self, tries: int, cleared: int) -> Claim:
        return Claim(try_number=tries, max_tries=cleared, process="another/machine", source=Source.WORKER)

    def live(self, name: str, *, tries: int, cleared: int = 0) -> Closing:
        claim = self.claim(tries, cleared)
        life = Lifecycle(ledger=self.ledger, clock=self.clock, liveness=self.processes, log=Quiet())
        if name == COMPENSATE:
            return life.live(compensate_call(self.start, claim))
        calls = StepCalls(workflow=bind(self.definition), start=self.start, params=lambda _: {})
        return life.live(calls.node(name, key=TaskKey("saga", "run-1", name), claim=claim))


def test_an_undo_whose_answer_cannot_be_kept_has_undone_all_the_same(ledger: Ledger) -> None:
    result = run_inline(saga("reserve_with_a_receipt"), ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    assert result.state is RunState.FAILED_COMPENSATED
    assert DONE == ["run-1::reserve::-1::reserve#1", "undo reserve"]
    assert ledger.get_effect("dag:saga", "run-1::reserve::-1::reserve").state is EffectState.UNDONE  # type: ignore[union-attr]


def test_a_generation_that_reused_a_recorded_effect_loses_its_ground_with_it(ledger: Ledger) -> None:
    """Case E08, one clear later: the effect was begun by generation 1, but generation 2 builds on it."""
    process = Process(ledger, saga())
    assert process.live("reserve", tries=1).state is TaskState.SUCCEEDED
    assert process.live("reserve", tries=2, cleared=1).state is TaskState.SUCCEEDED
    assert process.live("last", tries=1).state is TaskState.FAILED
    assert process.live(COMPENSATE, tries=1).state is TaskState.SUCCEEDED

    refused = process.live("last", tries=2, cleared=1)

    assert isinstance(refused.error, UpstreamUndone)
    assert DONE == ["run-1::reserve::-1::reserve#1", "undo reserve"]
    # Cleared once more, it acts again, and the ground is firm.
    assert process.live("reserve", tries=3, cleared=2).state is TaskState.SUCCEEDED
    assert isinstance(process.live("last", tries=3, cleared=2).error, RuntimeError)


def test_an_undo_that_another_process_is_at_is_not_given_up(ledger: Ledger) -> None:
    """Two processes may compensate one run: Airflow's task, and one that a person started."""
    process = Process(ledger, saga("look_and_reserve"))
    process.live("reserve", tries=1)
    process.live("last", tries=1)
    look, _ = ledger.list_effects(RUN)
    other = ledger.open_task(TaskKey("saga", "run-1", "other"), process.claim(1, 0), now=NOW).token
    request = EffectRequest(
        scope=look.scope,
        key=f"undo:{look.reference}",
        name="undo:look",
        kind=EffectKind.UNDO,
        intent={},
        intent_hash=look.intent_hash,
        undo=None,
        undoes=look.reference,
        on_unknown=OnUnknown.MANUAL,
        provider_idempotent=False,
        # It is alive, and renews its lease.
        lease_until=NOW + timedelta(days=1),
        quiesce_seconds=30,
    )
    MEANWHILE.append(lambda: ledger.begin_effect(other, request, now=NOW))

    closing = process.live(COMPENSATE, tries=1)

    assert closing.state is TaskState.RETRY_WAIT
    assert isinstance(closing.error, EffectInProgress)
    states = {effect.name: effect.state for effect in ledger.list_effects(RUN)}
    assert (states["reserve"], states["look"]) == (EffectState.UNDONE, EffectState.COMMITTED)
    assert DONE[2:] == ["undo reserve"]
    assert overview(RUN, ledger).state is RunState.COMPENSATING


def test_what_is_unknown_is_outstanding_until_somebody_has_looked(ledger: Ledger) -> None:
    run_inline(saga(), ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    (effect,) = [known for known in ledger.list_effects(RUN) if known.kind is EffectKind.FORWARD]
    in_states = {state: tally([replace(effect, state=state)]) for state in EffectState}
    assert in_states == {
        EffectState.STARTED: Tally(undone=0, failed=0, outstanding=1),
        EffectState.COMMITTED: Tally(undone=0, failed=0, outstanding=1),
        EffectState.UNKNOWN: Tally(undone=0, failed=0, outstanding=1),
        EffectState.FAILED: Tally(undone=0, failed=0, outstanding=0),
        EffectState.UNDONE: Tally(undone=1, failed=0, outstanding=0),
        EffectState.UNDO_FAILED: Tally(undone=0, failed=1, outstanding=0),
    }
    assert tally([replace(effect, state=EffectState.COMMITTED, undo=None)]).outstanding == 0


def reasons(ledger: Ledger, name: str) -> list[TransitionRecord]:
    return [row for row in ledger.list_transitions(RUN, task_id=name) if row.reason]


def test_what_perform_says_is_not_written_down(ledger: Ledger) -> None:
    """Row O9: the words of EffectNotPerformed are the author's, and may hold anything."""
    run_inline(saga(last="decline"), ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    written = [row.reason for row in reasons(ledger, "last")]
    written += [effect.reason for effect in ledger.list_effects(RUN) if effect.reason]
    assert len(written) == 2
    assert not [text for text in written if text is None or "4711" in text]


def strange() -> dict[str, object]:
    return {"\0" * 3: object()}


def test_a_refused_result_is_told_whatever_its_path_is_made_of(ledger: Ledger) -> None:
    """No store can hold a NUL in a text; the failure must not fail to be recorded."""
    definition = Definition(
        name="saga", version="1", nodes=[Step(name="reserve", task=f"{__name__}:strange")]
    )
    result = run_inline(definition, ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    assert result.states["reserve"] is TaskState.FAILED
    (row,) = reasons(ledger, "reserve")
    assert row.reason is not None
    assert row.reason.startswith("result_invalid: value refused at $.\\0\\0\\0: ")


def test_a_change_of_definition_does_not_break_the_answer(ledger: Ledger) -> None:
    """The result is that of the definition that the run began under, whatever is deployed now."""
    first = Definition(name="saga", version="1", nodes=[Step(name="reserve", task=f"{__name__}:reserve")])
    run_inline(first, ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    renamed = Definition(name="saga", version="2", nodes=[Step(name="other", task=f"{__name__}:reserve")])
    result = run_inline(renamed, ledger=ledger, clock=FixedClock(NOW), run_id="run-1")
    assert (result.state, result.states) == (RunState.SUCCEEDED, {"reserve": TaskState.SUCCEEDED})


def test_a_mark_from_outside_is_no_earlier_process(ledger: Ledger) -> None:
    """A reconciler saw the task wait; the process that then opens it starts generation 1."""
    process = Process(ledger, saga())
    ledger.open_run(process.start, now=NOW)
    key = TaskKey("saga", "run-1", "reserve")
    blocked = Change(to=TaskState.BLOCKED, trigger="orchestrator:waiting")
    ledger.mark(key, blocked, session=0, source=Source.RECONCILER, now=NOW)
    opened = ledger.open_task(key, process.claim(1, 2), now=NOW)
    assert opened.token.generation == 1
    assert [row.to_state for row in opened.transitions] == [TaskState.QUEUED, TaskState.STARTING]
