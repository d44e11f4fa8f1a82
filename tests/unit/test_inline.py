"""The embedded engine: whole runs, their failures, their crashes and their second calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import run_inline
from louver.errors import (
    AttemptsExhausted,
    ConfigurationError,
    DefinitionChanged,
    DefinitionError,
    ValueRefused,
)
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import TransitionRecord
from louver.policies import Backoff, RetryPolicy
from louver.states import FailureKind, RunState, TaskState

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


def path(ledger: Ledger, task_id: str) -> list[str]:
    return [str(row.to_state) for row in trail(ledger, task_id)]


class Script:
    """A step that raises what it is told to, call by call, and then returns; ``None`` lets a call through."""

    def __init__(self, *errors: BaseException | None, value: Any = "done") -> None:
        self.errors = list(errors)
        self.value = value
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return self.value


# What a run is


def double(number: int, factor: int = 2) -> int:
    return number * factor


def add(left: int, right: int) -> int:
    return left + right


CHAIN = work(
    Step(name="first", task=f"{__name__}:double", params={"number": "start"}),
    Step(name="second", task=f"{__name__}:double", params={"number": "start"}, kwargs={"factor": 10}),
    Step(name="total", task=f"{__name__}:add", deps={"left": "first", "right": "second"}),
    params=["start"],
)


def test_a_run_without_anything_around_it() -> None:
    result = run_inline(CHAIN, params={"start": 3})
    assert (result.state, result.value) == (RunState.SUCCEEDED, 36)
    assert result.run_id.startswith("inline-")
    assert result.states == dict.fromkeys(("first", "second", "total"), TaskState.SUCCEEDED)
    assert (result.waiting, result.errors) == ((), {})
    # No payload is shown; without the id, which is random and may hold these digits too.
    assert "36" not in repr(result).replace(result.run_id, "")
    assert run_inline(CHAIN, params={"start": 3}).run_id != result.run_id


def test_functions_may_be_given_by_node_or_by_path() -> None:
    given = {
        "total": lambda left, right: [left, right],
        f"{__name__}:double": lambda number, factor=1: factor,
    }
    assert run_inline(CHAIN, given, {"start": 3}).value == [1, 10]


def test_functions_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="names other"):
        run_inline(CHAIN, {"other": double}, {"start": 3})
    with pytest.raises(DefinitionError, match=r"total.*no parameter 'left', 'right'"):
        run_inline(CHAIN, {"total": Script()}, {"start": 3})
    with pytest.raises(DefinitionError, match=r"first.*cannot be imported"):
        run_inline(work(step("first")))


@pytest.mark.parametrize("params", [None, {}, {"begin": 3}, {"start": 3, "stop": 4}])
def test_params_are_exactly_those_of_the_workflow(ledger: Ledger, params: dict[str, int] | None) -> None:
    with pytest.raises(ConfigurationError, match=r"takes the parameters \['start'\], not"):
        run_inline(CHAIN, params=params, ledger=ledger, run_id="run-1")
    assert ledger.get_run(RUN) is None


def test_the_sink_tells_the_result(clock: FixedClock) -> None:
    definition = work(*CHAIN.nodes, params=["start"], sink="first")
    assert run_inline(definition, params={"start": 3}, clock=clock).value == 6


def test_the_run_is_on_the_ledger(ledger: Ledger, clock: FixedClock) -> None:
    result = run_inline(
        CHAIN, params={"start": 3}, ledger=ledger, clock=clock, run_id="run-1", requester="ann"
    )
    run = ledger.get_run(RUN)
    assert run is not None
    assert (result.run_id, run.state, run.requester, run.reason) == (
        "run-1",
        RunState.SUCCEEDED,
        "ann",
        None,
    )
    assert ledger.load_result(TaskKey("work", "run-1", "second")) == 30
    assert path(ledger, "first") == ["queued", "starting", "running", "succeeded"]


def test_a_run_that_is_over_runs_nothing_again(ledger: Ledger, clock: FixedClock) -> None:
    script = Script(value={"total": 1})
    for _ in range(2):
        result = run_inline(work(step("one")), {"one": script}, ledger=ledger, clock=clock, run_id="run-1")
        assert result.value == {"total": 1}
    assert script.calls == 1


# Failures


def test_a_failed_step_skips_what_depends_on_it_alone(ledger: Ledger, clock: FixedClock) -> None:
    definition = work(step("bad"), step("child", after=["bad"]), step("other"))
    error = ValueError("card 4111")
    scripts = {"bad": Script(error), "child": Script(), "other": Script()}
    result = run_inline(definition, scripts, ledger=ledger, clock=clock, run_id="run-1")
    assert result.state is RunState.FAILED
    assert result.states == {
        "bad": TaskState.FAILED,
        "child": TaskState.SKIPPED,
        "other": TaskState.SUCCEEDED,
    }
    assert result.errors == {"bad": error}
    assert result.value is None
    assert scripts["child"].calls == 0
    run = ledger.get_run(RUN)
    assert run is not None
    assert run.reason == "bad failed"
    assert "4111" not in repr(trail(ledger, "bad"))


def test_a_failure_that_does_not_fail_the_run(clock: FixedClock) -> None:
    definition = work(step("extra", on_failure="continue"), step("main"))
    result = run_inline(definition, {"extra": Script(OSError()), "main": Script()}, clock=clock)
    assert (result.state, result.value) == (RunState.SUCCEEDED_WITH_FAILURES, "done")


def test_a_step_is_tried_as_often_as_its_policy_says(ledger: Ledger, clock: FixedClock) -> None:
    retry = RetryPolicy(max_attempts=3, delay=timedelta(seconds=10), backoff=Backoff.EXPONENTIAL)
    script = Script(OSError(), OSError())
    result = run_inline(
        work(step("one", retry=retry)), {"one": script}, ledger=ledger, clock=clock, run_id="run-1"
    )
    assert (result.state, result.value, script.calls) == (RunState.SUCCEEDED, "done", 3)
    assert clock.now() == NOW + timedelta(seconds=30)
    again = ["retry_wait", "queued", "starting", "running"]
    assert path(ledger, "one") == ["queued", "starting", "running", *again, *again, "succeeded"]
    begun = [row.attempt for row in trail(ledger, "one") if row.to_state is TaskState.STARTING]
    ended = [row.attempt for row in trail(ledger, "one") if row.to_state is TaskState.RETRY_WAIT]
    assert (begun, ended) == ([1, 2, 3], [1, 2])
    task = ledger.get_task(TaskKey("work", "run-1", "one"))
    assert task is not None
    assert (task.attempt, task.failures, task.losses, task.generation) == (3, 2, 0, 1)


def test_the_last_attempt_fails_the_step(ledger: Ledger, clock: FixedClock) -> None:
    errors = [OSError(), ValueError("the last")]
    script = Script(*errors)
    retry = RetryPolicy(max_attempts=2)
    result = run_inline(
        work(step("one", retry=retry)), {"one": script}, ledger=ledger, clock=clock, run_id="run-1"
    )
    assert (result.state, script.calls) == (RunState.FAILED, 2)
    assert result.errors == {"one": errors[1]}
    assert trail(ledger, "one")[-1].reason == "exception: ValueError; attempt 2 of 2 was the last"


@pytest.mark.parametrize(
    "value",
    [object(), {"total": [1, object()]}, {1: "one"}, float("inf"), datetime(2026, 1, 1)],  # noqa: DTZ001
)
def test_a_result_that_cannot_be_kept_is_refused(ledger: Ledger, clock: FixedClock, value: Any) -> None:
    """Another attempt cannot help, so there is none."""
    script = Script(value=value)
    retry = RetryPolicy(max_attempts=3)
    result = run_inline(
        work(step("one", retry=retry)), {"one": script}, ledger=ledger, clock=clock, run_id="run-1"
    )
    error = result.errors["one"]
    assert isinstance(error, ValueRefused)
    assert (result.state, script.calls) == (RunState.FAILED, 1)
    task = ledger.get_task(TaskKey("work", "run-1", "one"))
    assert task is not None
    assert task.failure_kind is FailureKind.RESULT_INVALID
    assert f"result_invalid: value refused at {error.path}: " in (trail(ledger, "one")[-1].reason or "")


def test_a_refused_result_names_its_place(clock: FixedClock) -> None:
    result = run_inline(work(step("one")), {"one": Script(value={"items": [1, object()]})}, clock=clock)
    error = result.errors["one"]
    assert isinstance(error, ValueRefused)
    assert error.path == "$.items[1]"


# Crashes


ACTED: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_acted() -> Iterator[None]:
    ACTED.clear()
    yield
    ACTED.clear()


class Charging:
    """A step with one effect; its process may be killed once, between the effect's commit and its own end."""

    def __init__(self, *, killed: int = 1) -> None:
        self.killed = killed
        self.attempts: list[int] = []

    def __call__(self, ctx: TaskContext) -> Any:
        self.attempts.append(ctx.attempt)
        receipt = ctx.effect("charge", intent={"amount": 5}, perform=self.charge)
        if self.killed:
            self.killed -= 1
            raise Killed
        return receipt

    @staticmethod
    def charge(key: str) -> dict[str, Any]:
        ACTED[key] += 1
        return {"receipt": key, "number": ACTED[key]}


def test_a_crash_after_the_effect_and_before_the_end(ledger: Ledger, clock: FixedClock) -> None:
    """Case F01: the second process returns what is recorded."""
    script = Charging()
    with pytest.raises(Killed):
        run_inline(work(step("pay")), {"pay": script}, ledger=ledger, clock=clock, run_id="run-1")
    assert path(ledger, "pay") == ["queued", "starting", "running"]

    result = run_inline(work(step("pay")), {"pay": script}, ledger=ledger, clock=clock, run_id="run-1")

    assert result.state is RunState.SUCCEEDED
    assert result.value == {"receipt": "run-1::pay::-1::charge#1", "number": 1}
    assert ACTED == {"run-1::pay::-1::charge#1": 1}
    assert script.attempts == [1, 2]
    rows = [(str(row.to_state), row.attempt) for row in trail(ledger, "pay")]
    assert rows == [
        ("queued", 0),
        ("starting", 1),
        ("running", 1),
        ("retry_wait", 1),
        ("queued", 1),
        ("starting", 2),
        ("running", 2),
        ("succeeded", 2),
    ]
    assert [row.version for row in trail(ledger, "pay")] == list(range(1, 9))
    assert trail(ledger, "pay")[3].trigger == "runtime:attempt_lost"
    task = ledger.get_task(TaskKey("work", "run-1", "pay"))
    assert task is not None
    assert (task.failures, task.losses) == (0, 1)


def test_a_step_whose_processes_keep_dying_is_lost(ledger: Ledger, clock: FixedClock) -> None:
    script = Charging(killed=9)
    for _ in range(3):
        with pytest.raises(Killed):
            run_inline(work(step("pay")), {"pay": script}, ledger=ledger, clock=clock, run_id="run-1")
    result = run_inline(work(step("pay")), {"pay": script}, ledger=ledger, clock=clock, run_id="run-1")
    assert result.states == {"pay": TaskState.LOST}
    assert result.state is RunState.FAILED
    assert isinstance(result.errors["pay"], AttemptsExhausted)
    assert script.attempts == [1, 2, 3]
    assert ACTED == {"run-1::pay::-1::charge#1": 1}


class Walking:
    """A step in ten parts that saves where it is, and stumbles once."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.done: list[int] = []

    def __call__(self, ctx: TaskContext) -> int:
        for part in range(ctx.restore(default=0), 10):
            self.done.append(part)
            ctx.checkpoint(part + 1)
            if part == 3 and self.error is not None:
                error, self.error = self.error, None
                raise error
        return len(self.done)


def test_a_retry_goes_on_from_the_checkpoint(ledger: Ledger, clock: FixedClock) -> None:
    script = Walking(OSError())
    result = run_inline(
        work(step("walk", retry=RetryPolicy(max_attempts=2))),
        {"walk": script},
        ledger=ledger,
        clock=clock,
        run_id="run-1",
    )
    assert (result.value, script.done) == (10, list(range(10)))


def test_the_next_process_goes_on_from_the_checkpoint(ledger: Ledger, clock: FixedClock) -> None:
    script = Walking(Killed())
    with pytest.raises(Killed):
        run_inline(work(step("walk")), {"walk": script}, ledger=ledger, clock=clock, run_id="run-1")
    result = run_inline(work(step("walk")), {"walk": script}, ledger=ledger, clock=clock, run_id="run-1")
    assert (result.value, script.done) == (10, list(range(10)))


def test_a_definition_that_changed_under_the_run(ledger: Ledger, clock: FixedClock) -> None:
    """Row O14: the run stops clearly, before user code."""
    scripts = {"one": Script(), "two": Script(Killed())}
    nodes = (step("one"), step("two", after=["one"]))
    with pytest.raises(Killed):
        run_inline(work(*nodes), scripts, ledger=ledger, clock=clock, run_id="run-1")

    changed = work(*nodes, version="2")
    result = run_inline(changed, scripts, ledger=ledger, clock=clock, run_id="run-1")

    assert result.state is RunState.FAILED
    assert isinstance(result.errors["two"], DefinitionChanged)
    assert "work 1 (" in str(result.errors["two"])
    assert (scripts["one"].calls, scripts["two"].calls) == (1, 1)
    task = ledger.get_task(TaskKey("work", "run-1", "two"))
    assert task is not None
    assert task.failure_kind is FailureKind.DEFINITION_CHANGED
