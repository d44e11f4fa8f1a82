"""What a step's own code may ask ``ctx`` for, and what it is told (row T8): on a real ledger file."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from louver.clock import FixedClock
from louver.context import TaskContext
from louver.control import send
from louver.definition import Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import TaskCancelled, ValueRefused
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.records import TaskRecord
from louver.ledger.requests import CommandRequest
from louver.policies import RetryPolicy
from louver.states import FailureKind, RunState, Source, TaskState
from louver.timeouts import Timeouts

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
KEYS = "k1:" + "s" * 32
SECOND = timedelta(seconds=1)
NAME = "louver.engine.inline"


class Stage:
    """One run on a ledger file, and people who want something of its step ``one``."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)

    def run(self, *nodes: Step, **tasks: Callable[..., Any]) -> RunResult:
        """As far as it goes; of the step ``one`` alone, unless nodes are given."""
        definition = Definition(name="work", version="1", nodes=nodes or (step("one"),))
        return run_inline(definition, tasks, ledger=self.ledger, clock=self.clock, run_id="run-1")

    def ask(self, verb: Verb) -> None:
        request = CommandRequest(
            command_id=uuid4().hex,
            task=TaskKey("work", "run-1", "one"),
            verb=verb,
            actor="ann",
            reason=None,
            source=Source.CLI,
        )
        send(self.ledger, request, now=self.clock.now())

    def task(self, name: str = "one") -> TaskRecord:
        found = self.ledger.get_task(TaskKey("work", "run-1", name))
        assert found is not None
        return found

    def path(self, name: str = "one") -> list[str]:
        return [str(row.to_state) for row in self.ledger.list_transitions(RUN, task_id=name)]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", KEYS) as ledger:
        yield Stage(ledger)


def step(name: str, **given: Any) -> Step:
    return Step(name=name, task=f"business:{name}", **given)


# Who it is


def who(ctx: TaskContext) -> dict[str, Any]:
    names = ("dag_id", "run_id", "task_id", "name", "map_index", "attempt")
    return {name: getattr(ctx, name) for name in names}


def test_a_step_knows_who_it_is(stage: Stage) -> None:
    said = {"dag_id": "work", "run_id": "run-1", "task_id": "one", "name": "one"}
    assert stage.run(one=lambda ctx: who(ctx)).value == {**said, "map_index": -1, "attempt": 1}


def test_each_index_of_a_mapped_step_knows_its_own(stage: Stage) -> None:
    nodes = (step("rows"), step("each", over={"row": "rows"}), step("all", deps={"found": "each"}))
    found = stage.run(
        *nodes,
        rows=lambda: ["a", "b", "c"],
        each=lambda row, ctx: (row, ctx.map_index, ctx.name),
        all=lambda found: found,
    )
    assert found.value == [("a", 0, "each"), ("b", 1, "each"), ("c", 2, "each")]


def test_attempts_are_counted_from_one(stage: Stage) -> None:
    seen: list[int] = []

    def one(ctx: TaskContext) -> int:
        seen.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError("not yet")
        return ctx.attempt

    assert stage.run(step("one", retry=RetryPolicy(max_attempts=3)), one=one).value == 3
    assert seen == [1, 2, 3]


# What came before


def test_input_is_the_result_or_the_default_where_there_is_none(stage: Stage) -> None:
    def skip(ctx: TaskContext) -> None:
        ctx.skip("nothing to do")

    def fail() -> None:
        raise ValueError("broken")

    def look(ctx: TaskContext) -> list[Any]:
        return [ctx.input(name, "default") for name in ("good", "nothing", "bad", "left_out", "nobody")]

    names = ["good", "nothing", "bad", "left_out"]
    found = stage.run(
        *(step(name, on_failure="continue") for name in names),
        step("look", after=names, join="all_settled"),
        good=lambda: 5,
        # A None that was delivered is a result, and not the lack of one.
        nothing=lambda: None,
        bad=fail,
        left_out=skip,
        look=look,
    )
    assert found.value == [5, None, "default", "default", "default"]


def test_without_a_default_what_is_missing_is_none(stage: Stage) -> None:
    nodes = (step("good"), step("look", after=["good"]))
    found = stage.run(*nodes, good=lambda: 5, look=lambda ctx: [ctx.input("good"), ctx.input("nobody")])
    assert found.value == [5, None]


def test_upstream_holds_those_that_succeeded_and_cannot_be_changed(stage: Stage) -> None:
    def fail() -> None:
        raise ValueError("broken")

    def look(ctx: TaskContext) -> dict[str, Any]:
        with pytest.raises(TypeError):
            ctx.upstream["bad"] = 1  # type: ignore[index]
        assert isinstance(ctx.upstream, Mapping)
        return dict(ctx.upstream)

    nodes = (
        step("far"),
        step("good", after=["far"]),
        step("bad", on_failure="continue"),
        step("look", after=["good", "bad"], join="all_settled"),
    )
    found = stage.run(*nodes, far=lambda: 1, good=lambda: 2, bad=fail, look=look)
    # What the step does not depend on directly is nothing that it is given.
    assert found.value == {"good": 2}


# What it says


def test_what_a_step_says_has_its_level_and_its_task(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def one(ctx: TaskContext) -> None:
        ctx.log("read %s", "a-1")
        ctx.log.info("read %s of %s", "a-2", 7)
        ctx.log.warning("odd %s", "a-3")
        ctx.log.error("wrong")

    with caplog.at_level(logging.DEBUG, NAME):
        stage.run(one=one)

    said = [
        (record.__dict__["action"], record.levelno, record.getMessage())
        for record in caplog.records
        if record.__dict__.get("action", "").startswith("log.")
    ]
    one_key = TaskKey("work", "run-1", "one")
    assert said == [
        ("log.info", logging.INFO, f"{one_key}: read a-1"),
        ("log.info", logging.INFO, f"{one_key}: read a-2 of 7"),
        ("log.warning", logging.WARNING, f"{one_key}: odd a-3"),
        ("log.error", logging.ERROR, f"{one_key}: wrong"),
    ]


def test_who_listens_from_warnings_on_hears_no_more(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def one(ctx: TaskContext) -> None:
        ctx.log("in passing")
        ctx.log.warning("odd")

    with caplog.at_level(logging.WARNING, NAME):
        stage.run(one=one)

    assert [record.__dict__["action"] for record in caplog.records if record.name == NAME] == ["log.warning"]


# What is wanted of it


def test_a_stop_that_was_asked_for_can_be_seen_before_it_is_met(stage: Stage) -> None:
    seen: list[tuple[bool, bool]] = []

    def look(ctx: TaskContext) -> None:
        seen.append((ctx.is_stop_requested, ctx.is_pause_requested))

    def one(ctx: TaskContext) -> str:
        look(ctx)
        stage.ask(Verb.STOP)
        look(ctx)
        stage.clock.advance(2 * SECOND)
        try:
            ctx.checkpoint()
        except TaskCancelled:
            look(ctx)
            raise
        return "nobody stopped it"

    assert stage.run(one=one).state is RunState.STOPPED
    # The ledger is asked at checkpoints here, and not by a look.
    assert seen == [(False, False), (False, False), (True, False)]
    assert stage.path()[-2:] == ["stopping", "stopped"]


def test_a_stop_that_code_swallows_is_still_wanted_and_met_again(stage: Stage) -> None:
    swallowed: list[bool] = []

    def one(ctx: TaskContext) -> None:
        stage.ask(Verb.STOP)
        for _ in range(3):
            stage.clock.advance(2 * SECOND)
            try:
                ctx.heartbeat()
            except Exception:
                swallowed.append(ctx.is_stop_requested)
        # It has tidied up, and goes.
        ctx.checkpoint()

    assert stage.run(one=one).state is RunState.STOPPED
    assert swallowed == [True, True, True]


def test_a_pause_is_wanted_until_it_is_reached(stage: Stage) -> None:
    seen: list[bool] = []

    class Resuming(FixedClock):
        """While the step waits in place, somebody resumes it."""

        def sleep(self, duration: timedelta) -> None:
            super().sleep(duration)
            if stage.task().state is TaskState.PAUSED:
                stage.ask(Verb.RESUME)

    stage.clock = Resuming(NOW)

    def one(ctx: TaskContext) -> str:
        stage.ask(Verb.PAUSE)
        seen.append(ctx.is_pause_requested)
        stage.clock.advance(2 * SECOND)
        ctx.checkpoint()
        seen.append(ctx.is_pause_requested)
        seen.append(ctx.is_stop_requested)
        return "went on"

    assert stage.run(one=one).value == "went on"
    assert seen == [False, False, False]
    assert stage.path() == ["queued", "starting", "running", "pausing", "paused", "running", "succeeded"]


# Signs of life


def test_a_heartbeat_is_a_checkpoint_without_a_state(stage: Stage) -> None:
    def one(ctx: TaskContext) -> Any:
        ctx.checkpoint({"row": 7})
        stage.clock.advance(8 * SECOND)
        ctx.heartbeat()
        return ctx.restore()

    # What was saved stays what it was.
    assert stage.run(one=one).value == {"row": 7}
    (touch,) = stage.ledger.list_touches(RUN)
    assert touch.heartbeat_at == NOW + 8 * SECOND


def test_a_heartbeat_keeps_the_idle_limit_away_and_progress_does_not(stage: Stage) -> None:
    limits = Timeouts(idle=10 * SECOND)

    def beats(ctx: TaskContext) -> str:
        for _ in range(5):
            stage.clock.advance(8 * SECOND)
            ctx.heartbeat()
        return "lives"

    def tells(ctx: TaskContext) -> str:
        for number in range(5):
            stage.clock.advance(8 * SECOND)
            ctx.progress(number, 5)
        ctx.heartbeat()
        return "lives"

    nodes = (step("beats", timeouts=limits), step("tells", timeouts=limits))
    found = stage.run(*nodes, beats=beats, tells=tells)

    assert found.states == {"beats": TaskState.SUCCEEDED, "tells": TaskState.FAILED}
    assert stage.task("tells").failure_kind is FailureKind.TIMEOUT_IDLE


# In async code


def test_an_async_checkpoint_saves_and_is_found_by_the_next_attempt(stage: Stage) -> None:
    done: list[int] = []

    async def rows(ctx: TaskContext) -> int:
        for number in range(ctx.restore(0), 6):
            done.append(number)
            await ctx.acheckpoint(number + 1)
            if number == 2 and ctx.attempt == 1:
                raise OSError("half way")
        return len(done)

    def one(ctx: TaskContext) -> int:
        return asyncio.run(rows(ctx))

    assert stage.run(step("one", retry=RetryPolicy(max_attempts=2)), one=one).value == 6
    assert done == [0, 1, 2, 3, 4, 5]


def test_without_a_state_an_async_checkpoint_saves_none(stage: Stage) -> None:
    async def rows(ctx: TaskContext) -> Any:
        await ctx.acheckpoint(None)
        saved = ctx.restore("nothing")
        await ctx.acheckpoint()
        return [saved, ctx.restore("nothing")]

    # None is a state like any other.
    assert stage.run(one=lambda ctx: asyncio.run(rows(ctx))).value == [None, None]


def test_the_event_loop_goes_on_while_a_checkpoint_is_written(stage: Stage) -> None:
    begun, went_on = threading.Event(), threading.Event()

    class Slow(FixedClock):
        """A checkpoint asks for the time, and gets it only once the loop has done something else."""

        def now(self) -> datetime:
            if begun.is_set():
                assert went_on.wait(30), "the loop stands still"
            return super().now()

    stage.clock = Slow(NOW)

    async def other() -> None:
        went_on.set()

    async def both(ctx: TaskContext) -> Any:
        begun.set()
        await asyncio.gather(ctx.acheckpoint({"row": 1}), other())
        return ctx.restore()

    assert stage.run(one=lambda ctx: asyncio.run(both(ctx))).value == {"row": 1}


def test_a_stop_is_met_at_an_async_checkpoint(stage: Stage) -> None:
    tidied: list[bool] = []

    async def rows(ctx: TaskContext) -> str:
        stage.ask(Verb.STOP)
        stage.clock.advance(2 * SECOND)
        try:
            await ctx.acheckpoint("half")
        finally:
            tidied.append(ctx.is_stop_requested)
        return "nobody stopped it"

    assert stage.run(one=lambda ctx: asyncio.run(rows(ctx))).state is RunState.STOPPED
    assert tidied == [True]
    assert stage.path()[-2:] == ["stopping", "stopped"]


def test_a_pause_is_met_at_an_async_checkpoint_and_the_step_goes_on_from_there(stage: Stage) -> None:
    done: list[int] = []

    async def rows(ctx: TaskContext) -> int:
        for number in range(ctx.restore(0), 4):
            done.append(number)
            if number == 1:
                stage.ask(Verb.PAUSE)
            stage.clock.advance(2 * SECOND)
            await ctx.acheckpoint(number + 1)
        return len(done)

    def one(ctx: TaskContext) -> int:
        return asyncio.run(rows(ctx))

    parked = stage.run(one=one)
    assert (parked.state, parked.paused) == (RunState.PAUSED, ("one",))
    stage.ask(Verb.RESUME)

    assert stage.run(one=one).value == 4
    assert done == [0, 1, 2, 3]


def test_an_async_checkpoint_refuses_what_a_checkpoint_refuses(stage: Stage) -> None:
    async def rows(ctx: TaskContext) -> None:
        await ctx.acheckpoint({"rows": {1: "an int as a key"}})

    found = stage.run(one=lambda ctx: asyncio.run(rows(ctx)))
    assert found.state is RunState.FAILED
    assert isinstance(found.errors["one"], ValueRefused)
