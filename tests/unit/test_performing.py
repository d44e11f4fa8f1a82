"""Inside ``perform`` nobody parks: what was begun there would be left behind (semantics section 3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.supervised import NOW, RUN, SECOND, Stage, wait

from louver.approvals import Answer
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import run_inline
from louver.errors import ConfigurationError
from louver.ledger import open_ledger
from louver.ledger.names import Decision, EffectState, Verb
from louver.policies import RetryPolicy
from louver.ports import Parked
from louver.states import RunState, TaskState


class Turned(FixedClock):
    """Time in which somebody does something."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__(NOW)
        self.then = then

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        self.then()


def undo(record: Any) -> None:
    """Takes it back."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_ledger("memory://") as ledger:
        stage = Stage(ledger)
        stage.clock = Turned(lambda: resume_what_waits(stage))
        yield stage


def resume_what_waits(stage: Stage) -> None:
    if stage.path()[-1] == "paused" and stage.clock.now() - stage.rows()[-1].at >= 60 * SECOND:
        stage.ask(Verb.RESUME, actor="bob")


def effect_of(stage: Stage) -> Any:
    (effect,) = stage.ledger.list_effects(RUN)
    return effect


def saves(stage: Stage, ctx: TaskContext, wish: Verb) -> int:
    """Three pieces of work, each with a state; something is wanted during the second one."""
    for number in range(ctx.restore(0), 3):
        if number == 1:
            stage.ask(wish)
        wait(stage, ctx, state=number + 1)
    return 3


def as_a_step_with_an_undo(stage: Stage, wish: Verb) -> Callable[[TaskContext], Any]:
    stage.given = {"compensate": f"{__name__}:undo"}
    return lambda ctx: saves(stage, ctx, wish)


def as_an_effect_in_a_step(stage: Stage, wish: Verb) -> Callable[[TaskContext], Any]:
    return lambda ctx: ctx.effect("copy", intent={"rows": 3}, perform=lambda key: saves(stage, ctx, wish))


class Asked:
    """A ledger that tells whether the step could park while an effect was about to begin."""

    def __init__(self, stage: Stage) -> None:
        self.ledger = stage.ledger
        self.could_park: list[bool] = []
        self.ctx: TaskContext | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ledger, name)
        if name != "begin_effect":
            return found

        def begin(*given: Any, **named: Any) -> Any:
            supervision = self.ctx._runtime.supervision
            self.could_park.append(supervision.may_park)
            return found(*given, **named)

        return begin


def test_nobody_parks_from_before_an_effect_begins(stage: Stage) -> None:
    """Another thread of the step may come to a checkpoint while the ledger is asked."""
    asked = stage.ledger = Asked(stage)

    def work(ctx: TaskContext) -> Any:
        asked.ctx = ctx
        return ctx.effect("charge", intent=1, perform=lambda key: key)

    assert stage.live(work).state is TaskState.SUCCEEDED
    assert asked.could_park == [False]


WAYS = pytest.mark.parametrize("way", [as_a_step_with_an_undo, as_an_effect_in_a_step])


@WAYS
def test_a_pause_inside_keeps_the_slot_though_there_is_a_state(
    stage: Stage, way: Callable[[Stage, Verb], Callable[[TaskContext], Any]]
) -> None:
    assert stage.live(way(stage, Verb.PAUSE)).value == 3

    assert stage.path()[-4:] == ["pausing", "paused", "running", "succeeded"]
    assert stage.outcomes()[0] == ("pause", "done", "paused in place")
    assert effect_of(stage).state is EffectState.COMMITTED
    assert stage.clock.now() - NOW > 60 * SECOND


@WAYS
def test_a_stop_inside_ends_the_step_and_leaves_open_whether_it_happened(
    stage: Stage, way: Callable[[Stage, Verb], Callable[[TaskContext], Any]]
) -> None:
    assert stage.live(way(stage, Verb.STOP)).state is TaskState.STOPPED

    assert effect_of(stage).state is EffectState.UNKNOWN
    assert effect_of(stage).reason == "perform raised a stop was asked for"


def test_once_it_is_over_a_pause_gives_the_slot_back(stage: Stage) -> None:
    def work(ctx: TaskContext) -> int:
        ctx.effect("copy", intent={"rows": 3}, perform=lambda key: "copied")
        return saves(stage, ctx, Verb.PAUSE)

    with pytest.raises(Parked):
        stage.live(work)
    assert stage.outcomes() == [("pause", "done", "paused, slot given back")]


def test_also_where_it_failed(stage: Stage) -> None:
    def fail(key: str) -> None:
        raise ValueError("broken")

    def work(ctx: TaskContext) -> int:
        with pytest.raises(ValueError, match="broken"):
            ctx.effect("copy", intent={"rows": 3}, perform=fail)
        return saves(stage, ctx, Verb.PAUSE)

    with pytest.raises(Parked):
        stage.live(work)


def test_nobody_parks_while_another_thread_is_inside(stage: Stage) -> None:
    inside, over = threading.Event(), threading.Event()

    def perform(key: str) -> str:
        inside.set()
        assert over.wait(30), "nobody let it go"
        return "copied"

    def work(ctx: TaskContext) -> str:
        given = {"intent": {"rows": 3}, "perform": perform}
        other = threading.Thread(target=ctx.effect, args=("copy",), kwargs=given)
        other.start()
        assert inside.wait(30), "it never began"
        try:
            saves(stage, ctx, Verb.PAUSE)
        finally:
            over.set()
            other.join()
        return "done"

    assert stage.live(work).value == "done"
    assert stage.outcomes()[0] == ("pause", "done", "paused in place")
    assert effect_of(stage).state is EffectState.COMMITTED


# An approval that is needed inside


def test_nobody_is_asked_from_inside() -> None:
    """Once there is an answer, what was begun outside would be unknown."""
    paid: list[str] = []

    def pay(amount: int, ctx: TaskContext) -> Any:
        def perform(key: str) -> Any:
            return ctx.effect("pay", intent={"amount": amount + 1}, perform=paid.append)

        return ctx.effect("file", intent={"paper": 1}, perform=perform, approval=False)

    definition = Definition(
        name="work",
        version="1",
        nodes=[
            Step(name="look", task="business:look"),
            ApprovalNode(name="allow", payload="business:show", of="pay", deps={"amount": "look"}),
            Step(
                name="pay",
                task="business:pay",
                after=["allow"],
                deps={"amount": "look"},
                approval="allow",
                retry=RetryPolicy(max_attempts=3),
            ),
        ],
    )
    tasks = {"look": lambda: 5, "allow": lambda amount: {"amount": amount}, "pay": pay}
    with open_ledger("memory://") as ledger:
        clock = FixedClock(NOW)
        (asked,) = run_inline(definition, tasks, ledger=ledger, clock=clock, run_id="run-1").waiting
        ledger.decide_approval(
            asked.request_id, Answer(decision=Decision.APPROVED, by="bob"), now=clock.now()
        )

        found = run_inline(definition, tasks, ledger=ledger, clock=clock, run_id="run-1")

        assert (found.waiting, paid) == ((), [])
        assert isinstance(found.errors["pay"], ConfigurationError)
        assert "inside perform" in str(found.errors["pay"])
        assert found.states["pay"] is TaskState.FAILED
        # What was begun outside raised half way: a person has to look at it.
        assert found.state is RunState.COMPENSATION_FAILED
        assert len(ledger.list_approvals(RUN)) == 1
