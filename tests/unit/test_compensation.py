"""What a run did is undone in reverse, once each, come what may (semantics section 4, cases E03 to E08)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.binding import bind
from louver.clock import FixedClock
from louver.closing import COMPENSATE, close_run, compensate_call, overview
from louver.compensation import Undo
from louver.context import TaskContext
from louver.control import send
from louver.definition import Definition, Step
from louver.effects import LEASE, Verification
from louver.engine.inline import RunResult, run_inline
from louver.errors import (
    CommandRefused,
    CompensationFailed,
    DefinitionChanged,
    EffectNotPerformed,
    LedgerUnavailable,
    UpstreamUndone,
)
from louver.exports import export_run
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, EffectState, RunKey, TaskKey, Verb
from louver.ledger.records import EffectRecord
from louver.ledger.requests import CommandRequest, RunFilter
from louver.lifecycle import Closing, Lifecycle
from louver.liveness import LocalProcesses
from louver.policies import Backoff, CompensationPolicy, RetryPolicy
from louver.pseudonyms import anonymised
from louver.replay import replay
from louver.sessions import Change, Claim
from louver.states import RunState, Source, TaskState
from louver.steps import StepCalls, run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("saga", "run-1")
WORD = Word(actor="ann", reason="seen to it", source=Source.CLI)
FAILED_BY_HAND = Change(to=TaskState.FAILED, trigger="user:marked")


class Killed(BaseException):
    """The process ends here."""


class World:
    """
    Somebody else's systems, and what is to go wrong with them.

    :ivar acted: what really happened, by provider key.
    :ivar undone: what was really undone, in order.
    :ivar given: what each undo was handed, by effect name.
    :ivar trouble: errors to raise, by effect name, before or after the work is done.
    :ivar meanwhile: what somebody else does in the middle of an undo.
    """

    def __init__(self) -> None:
        self.acted: Counter[str] = Counter()
        self.undone: list[str] = []
        self.given: dict[str, Undo] = {}
        self.before: dict[str, list[BaseException]] = {}
        self.after: dict[str, list[BaseException]] = {}
        self.broken: set[str] = set()
        self.says: Verification | None = None
        self.meanwhile: Callable[[Undo], None] | None = None

    def act(self, name: str, key: str) -> str:
        self.acted[key] += 1
        self._stumble(self.after, name)
        return f"receipt of {name}"

    def undo(self, undo: Undo) -> str:
        self.given[undo.name] = undo
        self._stumble(self.before, undo.name)
        if self.meanwhile is not None:
            self.meanwhile(undo)
        self.undone.append(undo.name)
        self._stumble(self.after, f"undo {undo.name}")
        return "undone"

    @staticmethod
    def _stumble(trouble: dict[str, list[BaseException]], name: str) -> None:
        if trouble.get(name):
            raise trouble[name].pop(0)


WORLDS: list[World] = []


def put_back(undo: Undo) -> str:
    return WORLDS[-1].undo(undo)


def look_up(key: str) -> Verification:
    said = WORLDS[-1].says
    if said is None:
        raise ConnectionError("no answer")
    return said


def act(
    name: str, ctx: TaskContext, *, compensate: Callable[[Undo], object] | None = put_back, **given: Any
) -> Any:
    """One step with one effect."""
    result = ctx.effect(
        name,
        intent={"what": name},
        perform=lambda key: WORLDS[-1].act(name, key),
        compensate=compensate,
        **given,
    )
    if name in WORLDS[-1].broken:
        raise RuntimeError(name)
    return result


def one(ctx: TaskContext) -> Any:
    return act("one", ctx)


def two(ctx: TaskContext) -> Any:
    return act("two", ctx)


def two_idempotent(ctx: TaskContext) -> Any:
    return act("two", ctx, provider_idempotent=True)


def two_verified(ctx: TaskContext) -> Any:
    return act("two", ctx, verify=look_up)


def two_for_good(ctx: TaskContext) -> Any:
    return act("two", ctx, compensate=None)


SLOW = timedelta(hours=1)


def two_slow(ctx: TaskContext) -> Any:
    return act("two", ctx, provider_timeout=SLOW, provider_idempotent=True)


def two_quick(ctx: TaskContext) -> Any:
    return act("two", ctx, provider_timeout=2)


def three(ctx: TaskContext) -> Any:
    return act("three", ctx)


def four(ctx: TaskContext) -> Any:
    return act("four", ctx)


def fail() -> None:
    raise RuntimeError("the last step never works")


def choose_last() -> str:
    return "last"


def saga(*names: str, version: str = "1", fails: bool = True, **given: Any) -> Definition:
    """The named steps in a row, and one at the end that fails."""
    steps: list[Step] = []
    for name in names:
        after = [step.name for step in steps[-1:]]
        steps.append(Step(name=name.partition("_")[0], task=f"{__name__}:{name}", after=after))
    if fails:
        steps.append(Step(name="last", task=f"{__name__}:fail", after=[steps[-1].name]))
    return Definition(name="saga", version=version, nodes=steps, **given)


@pytest.fixture
def world() -> Iterator[World]:
    WORLDS.append(World())
    yield WORLDS[-1]
    WORLDS.pop()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


def run(definition: Definition, ledger: Ledger, *, clock: FixedClock | None = None) -> RunResult:
    return run_inline(definition, ledger=ledger, clock=clock or FixedClock(NOW), run_id=RUN.run_id)


def effects(ledger: Ledger) -> dict[str, EffectRecord]:
    """The run's effects by name; an undo's name starts with ``undo:``."""
    return {effect.name: effect for effect in ledger.list_effects(RUN)}


def states(ledger: Ledger) -> dict[str, EffectState]:
    """States of the steps' own effects, by name."""
    found = effects(ledger).items()
    return {name: effect.state for name, effect in found if effect.kind is EffectKind.FORWARD}


def test_everything_is_undone_in_reverse_order_of_commit(world: World, ledger: Ledger) -> None:
    """Case E04: the full walk; the step that failed did nothing, so nothing of it is undone."""
    result = run(saga("one", "two", "three"), ledger)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["three", "two", "one"]
    assert set(states(ledger).values()) == {EffectState.UNDONE}
    record = ledger.load_result(TaskKey("saga", "run-1", "compensate"))
    assert [reference.split("::")[-1] for reference in record["undone"]] == ["three#1", "two#1", "one#1"]
    assert record["standing"] == []


def test_the_failed_steps_own_effect_is_undone_first(world: World, ledger: Ledger) -> None:
    """Case E04: where it recorded one."""
    world.broken = {"four"}
    result = run(saga("one", "two", "three", "four", fails=False), ledger)
    assert result.states["four"] is TaskState.FAILED
    assert world.undone == ["four", "three", "two", "one"]


def test_order_is_that_of_commit_and_not_of_begin(world: World, ledger: Ledger) -> None:
    """The outer effect began first and committed last."""
    result = run(
        Definition(name="saga", version="1", nodes=[Step(name="nested", task=f"{__name__}:nest")]), ledger
    )
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["outer", "inner"]


def nest(ctx: TaskContext) -> None:
    def outer(key: str) -> str:
        act("inner", ctx)
        return WORLDS[-1].act("outer", key)

    ctx.effect("outer", intent="outer", perform=outer, compensate=put_back)
    raise RuntimeError("after both")


def test_a_skipped_step_is_not_compensated(world: World, ledger: Ledger) -> None:
    """Case E03."""
    definition = Definition(
        name="saga",
        version="1",
        nodes=[
            Step(name="one", task=f"{__name__}:one"),
            Step(name="last", task=f"{__name__}:fail", after=["one"]),
            Step(name="two", task=f"{__name__}:two", after=["last"]),
        ],
    )
    result = run(definition, ledger)
    assert result.states["two"] is TaskState.SKIPPED
    assert world.undone == ["one"]
    assert set(states(ledger)) == {"one"}


def test_what_a_branch_did_not_choose_is_not_compensated(world: World, ledger: Ledger) -> None:
    """Case E03, as it is written: a branch skips two, three fails."""
    definition = Definition(
        name="saga",
        version="1",
        nodes=[
            Step(name="one", task=f"{__name__}:one"),
            Step(name="choose", task=f"{__name__}:choose_last", after=["one"], branch=True),
            Step(name="two", task=f"{__name__}:two", after=["choose"]),
            Step(name="last", task=f"{__name__}:fail", after=["choose"]),
        ],
    )
    result = run(definition, ledger)
    assert (result.states["choose"], result.states["two"]) == (TaskState.SUCCEEDED, TaskState.SKIPPED)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["one"]
    assert set(states(ledger)) == {"one"}


def test_only_the_indexes_that_acted_are_undone(world: World, ledger: Ledger) -> None:
    """One of a mapped step that had nothing to do, and one that failed before it acted, did nothing."""
    definition = Definition(
        name="saga",
        version="1",
        nodes=[
            Step(name="rows", task=f"{__name__}:rows"),
            Step(name="each", task=f"{__name__}:each", over={"row": "rows"}),
        ],
    )
    result = run(definition, ledger)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["last", "first"]
    acted = [effect for effect in ledger.list_effects(RUN) if effect.kind is EffectKind.FORWARD]
    assert {effect.map_index: effect.state for effect in acted} == {
        0: EffectState.UNDONE,
        3: EffectState.UNDONE,
    }
    assert world.acted == {"run-1::each::0::first#1": 1, "run-1::each::3::last#1": 1}


def rows() -> list[str]:
    return ["first", "nothing", "broken", "last"]


def each(row: str, ctx: TaskContext) -> Any:
    if row == "broken":
        raise RuntimeError(row)
    return None if row == "nothing" else act(row, ctx)


def test_a_run_that_succeeds_undoes_nothing(world: World, ledger: Ledger) -> None:
    result = run(saga("one", "two", fails=False), ledger)
    assert result.state is RunState.SUCCEEDED
    assert world.undone == []
    assert ledger.get_task(TaskKey("saga", "run-1", "compensate")) is None


def test_what_an_undo_is_given(world: World, ledger: Ledger) -> None:
    run(saga("one"), ledger)
    undo = world.given["one"]
    assert undo.effect_key == "run-1::one::-1::one#1"
    assert undo.key == "undo:run-1::one::-1::one#1"
    assert (undo.intent, undo.result, undo.status) == ({"what": "one"}, "receipt of one", "committed")
    assert "receipt" not in repr(undo)
    assert "what" not in repr(undo)


def test_an_effect_without_a_compensation_stands(world: World, ledger: Ledger) -> None:
    result = run(saga("one", "two_for_good"), ledger)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["one"]
    assert states(ledger)["two"] is EffectState.COMMITTED
    record = ledger.load_result(TaskKey("saga", "run-1", "compensate"))
    assert record["standing"] == [effects(ledger)["two"].reference]


def test_with_nothing_to_undo_the_run_is_simply_failed(world: World, ledger: Ledger) -> None:
    result = run(saga("two_for_good"), ledger)
    assert result.state is RunState.FAILED
    assert world.undone == []


@pytest.mark.parametrize("done", [False, True], ids=["before it acted", "after it acted"])
def test_killed_in_the_middle_of_an_undo_and_resumed(world: World, ledger: Ledger, done: bool) -> None:
    """Case E07: each undo is done once; no undo of three again. The provider of two acts once per key."""
    trouble, name = (world.after, "undo two") if done else (world.before, "two")
    trouble[name] = [Killed()]
    definition = saga("one", "two_idempotent", "three")
    with pytest.raises(Killed):
        run(definition, ledger)
    assert "three" in world.undone
    assert effects(ledger)["undo:two"].state is EffectState.STARTED

    keys = {world.given["two"].key}
    result = run(definition, ledger)
    keys.add(world.given["two"].key)

    assert result.state is RunState.FAILED_COMPENSATED
    assert Counter(world.undone) == {"three": 1, "two": 2 if done else 1, "one": 1}
    assert len(keys) == 1
    assert list(dict.fromkeys(world.undone)) == ["three", "two", "one"]


def test_killed_inside_an_undo_that_nobody_may_repeat(world: World, ledger: Ledger) -> None:
    """Case E07: the provider is not idempotent, so a person finds out; the rest is undone."""
    world.after["undo two"] = [Killed()]
    definition = saga("one", "two", "three")
    with pytest.raises(Killed):
        run(definition, ledger)
    result = run(definition, ledger)
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["three", "two", "one"]
    assert states(ledger)["two"] is EffectState.UNDO_FAILED


def test_killed_between_two_undos_and_resumed(world: World, ledger: Ledger) -> None:
    """The kill comes between the commit of one undo and the begin of the next."""
    definition = saga("one", "two", "three")
    killing = Killing(ledger, after=1)
    with pytest.raises(Killed):
        run(definition, killing)  # type: ignore[arg-type]
    assert world.undone == ["three"]
    assert run(definition, ledger).state is RunState.FAILED_COMPENSATED
    assert world.undone == ["three", "two", "one"]


class Killing:
    """The ledger of a process that is killed after it has committed so many undos."""

    def __init__(self, ledger: Ledger, *, after: int) -> None:
        self._ledger = ledger
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit_effect(self, token: Any, record: EffectRecord, result: Any, *, now: datetime) -> EffectRecord:
        committed = self._ledger.commit_effect(token, record, result, now=now)
        if record.kind is EffectKind.UNDO:
            self._left -= 1
            if not self._left:
                raise Killed
        return committed


def test_a_failing_undo_does_not_keep_the_rest_from_being_undone(world: World, ledger: Ledger) -> None:
    """Case E06: it is tried three times, where its provider acts once per key; then it waits for a person."""
    world.before["two"] = [ConnectionError("card 4111") for _ in range(9)]
    clock = FixedClock(NOW)
    result = run(saga("one", "two_idempotent", "three"), ledger, clock=clock)
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["three", "one"]
    assert len(world.before["two"]) == 6
    assert clock.now() == NOW + timedelta(seconds=2)
    assert states(ledger) == {
        "one": EffectState.UNDONE,
        "two": EffectState.UNDO_FAILED,
        "three": EffectState.UNDONE,
    }
    assert effects(ledger)["two"].reason == "attempt 3 of 3 was the last: ConnectionError"
    error = result.errors["compensate"]
    assert isinstance(error, CompensationFailed)
    assert effects(ledger)["two"].reference in str(error)
    assert "4111" not in str(error)


def test_a_failing_undo_is_not_repeated_where_that_is_not_safe(world: World, ledger: Ledger) -> None:
    world.before["two"] = [ConnectionError() for _ in range(9)]
    result = run(saga("one", "two"), ledger)
    assert result.state is RunState.COMPENSATION_FAILED
    assert len(world.before["two"]) == 8
    assert world.undone == ["one"]


# As the workflow says


STOP = CompensationPolicy(on_failure="stop")


def test_the_first_undo_that_fails_ends_it_where_the_workflow_says_so(world: World, ledger: Ledger) -> None:
    """Case E06: what was not come to stands, and the one that failed waits for a person."""
    world.before["two"] = [ConnectionError()]
    result = run(saga("one", "two", "three", compensation=STOP), ledger)
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["three"]
    assert states(ledger) == {
        "one": EffectState.COMMITTED,
        "two": EffectState.UNDO_FAILED,
        "three": EffectState.UNDONE,
    }
    assert [effect.name for effect in ledger.find_effects(states=[EffectState.UNDO_FAILED])] == ["two"]
    (made,) = ledger.list_runs(RunFilter())
    assert (made.state, made.reason) == (RunState.COMPENSATION_FAILED, "last failed")
    told = replay(anonymised(export_run(RUN, ledger)))
    assert (told.state, told.problems) == (RunState.COMPENSATION_FAILED, ())


def test_nothing_is_undone_behind_the_back_of_the_person_who_has_to_see_to_it(
    world: World, ledger: Ledger
) -> None:
    world.before["two"] = [ConnectionError()]
    definition = saga("one", "two", "three", compensation=STOP)
    run(definition, ledger)
    assert run(definition, ledger).state is RunState.COMPENSATION_FAILED
    again = live(COMPENSATE, definition, ledger, try_number=3, max_tries=1)
    assert isinstance(again.error, CompensationFailed)
    assert world.undone == ["three"]


def test_called_again_the_engine_goes_on_with_the_rest_once_it_is_to_be_tried_again(
    world: World, ledger: Ledger
) -> None:
    world.before["two"] = [ConnectionError()]
    definition = saga("one", "two_idempotent", "three", compensation=replace(STOP, retry=RetryPolicy()))
    assert run(definition, ledger).state is RunState.COMPENSATION_FAILED
    ledger.reopen_undo(effects(ledger)["two"], word=WORD, now=NOW)
    assert run(definition, ledger).state is RunState.FAILED_COMPENSATED
    assert world.undone == ["three", "two", "one"]


def test_the_rest_goes_on_once_a_person_wants_it_tried_again(world: World, ledger: Ledger) -> None:
    """What ``compensations retry`` does: the effect is opened again, and the closing task runs again."""
    world.before["two"] = [EffectNotPerformed()] * 3
    definition = saga("one", "two", "three", compensation=STOP)
    run(definition, ledger)
    ledger.reopen_undo(effects(ledger)["two"], word=WORD, now=NOW)
    assert overview(RUN, ledger).state is RunState.COMPENSATING

    ended = live(COMPENSATE, definition, ledger, try_number=2, max_tries=1)
    assert ended.state is TaskState.SUCCEEDED
    assert world.undone == ["three", "two", "one"]
    assert close_run(RUN, ledger, now=NOW).state is RunState.FAILED_COMPENSATED


@pytest.mark.parametrize("undone", [True, False], ids=["undone by hand", "to stand"])
def test_the_rest_goes_on_once_a_person_has_settled_it(world: World, ledger: Ledger, undone: bool) -> None:
    """What ``compensations resolve`` does; the rest is outstanding then, and the reconciler sees to it."""
    world.before["two"] = [ConnectionError()]
    definition = saga("one", "two", "three", compensation=STOP)
    run(definition, ledger)
    ledger.settle_effect(effects(ledger)["two"], undone=undone, word=WORD, now=NOW)
    assert close_run(RUN, ledger, now=NOW).state is RunState.COMPENSATING
    assert live(COMPENSATE, definition, ledger, try_number=2, max_tries=1).state is TaskState.SUCCEEDED
    assert world.undone == ["three", "one"]
    assert close_run(RUN, ledger, now=NOW).state is RunState.FAILED_COMPENSATED


def test_one_that_nobody_can_find_out_about_ends_it_too(world: World, ledger: Ledger) -> None:
    lose_answer(world)
    result = run(saga("one", "two", fails=False, compensation=STOP), ledger)
    assert result.state is RunState.COMPENSATION_FAILED
    assert (world.undone, states(ledger)["one"]) == ([], EffectState.COMMITTED)


def test_killed_right_after_it_gave_up_it_still_stops(world: World, ledger: Ledger) -> None:
    class Dying(Killing):
        def give_up_undo(self, *args: Any, **given: Any) -> Any:
            self._ledger.give_up_undo(*args, **given)
            raise Killed

    world.before["two"] = [ConnectionError()]
    definition = saga("one", "two", "three", compensation=STOP)
    with pytest.raises(Killed):
        run(definition, Dying(ledger, after=9))  # type: ignore[arg-type]
    assert run(definition, ledger).state is RunState.COMPENSATION_FAILED
    assert world.undone == ["three"]


def test_where_nothing_fails_a_stop_changes_nothing(world: World, ledger: Ledger) -> None:
    assert run(saga("one", "two", compensation=STOP), ledger).state is RunState.FAILED_COMPENSATED
    assert world.undone == ["two", "one"]


def test_an_undo_is_tried_as_often_as_the_workflow_says(world: World, ledger: Ledger) -> None:
    retry = RetryPolicy(max_attempts=5, delay=timedelta(seconds=7), backoff=Backoff.EXPONENTIAL)
    world.before["two"] = [ConnectionError() for _ in range(9)]
    clock = FixedClock(NOW)
    policy = CompensationPolicy(retry=retry)
    result = run(saga("one", "two_idempotent", compensation=policy), ledger, clock=clock)
    assert result.state is RunState.COMPENSATION_FAILED
    assert (len(world.before["two"]), world.undone) == (4, ["one"])
    assert clock.now() == NOW + timedelta(seconds=7 * (1 + 2 + 4 + 8))


def test_the_policy_is_that_of_the_runs_own_definition(world: World, ledger: Ledger) -> None:
    """Whatever is deployed when it is compensated (row O14)."""
    world.after["two"] = [Killed()]
    with pytest.raises(Killed):
        run(saga("one", "two", "three", compensation=STOP), ledger)
    run(saga("one", "two", "three", version="2"), ledger)
    assert (world.undone, states(ledger)["one"]) == ([], EffectState.COMMITTED)
    assert overview(RUN, ledger).state is RunState.COMPENSATION_FAILED


# What other processes are at


def test_a_provider_that_goes_on_is_waited_for_beyond_the_usual_patience(
    world: World, ledger: Ledger
) -> None:
    """Nothing is undone while the effect may still happen, and the undo takes the same care."""
    world.after["two"] = [Killed()]
    definition = saga("one", "two_slow", fails=False)
    with pytest.raises(Killed):
        run(definition, ledger)
    token = ledger.get_task(TaskKey("saga", "run-1", "two"))
    assert token is not None
    ledger.mark(token.key, FAILED_BY_HAND, session=token.session, source=Source.API, now=NOW)
    clock = FixedClock(NOW)

    assert run(definition, ledger, clock=clock).state is RunState.FAILED_COMPENSATED

    assert clock.now() == NOW + LEASE + SLOW
    assert world.undone == ["two", "one"]
    kept = {name: effect.quiesce_seconds for name, effect in effects(ledger).items()}
    assert kept == {"one": 30.0, "undo:one": 30.0, "two": 3600.0, "undo:two": 3600.0}


def test_an_undo_takes_no_less_care_than_usual(world: World, ledger: Ledger) -> None:
    run(saga("two_quick"), ledger)
    kept = {name: effect.quiesce_seconds for name, effect in effects(ledger).items()}
    assert kept == {"two": 2.0, "undo:two": 30.0}


def test_a_stop_does_not_interrupt_what_undoes_the_run(world: World, ledger: Ledger) -> None:
    """Neither one that is sent to the closing task nor one to the steps (semantics section 4)."""
    told: list[str] = []

    def stop_all(undo: Undo) -> None:
        for task in ledger.list_tasks(RUN):
            asked = CommandRequest(
                command_id=f"stop {task.task_id} {len(told)}",
                task=task.key,
                verb=Verb.STOP,
                actor="eve",
                reason="enough",
                source=Source.CLI,
            )
            try:
                send(ledger, asked, now=NOW)
                told.append(f"{task.task_id} was asked")
            except CommandRefused:
                told.append(f"{task.task_id} is over")

    world.meanwhile = stop_all
    result = run(saga("one", "two", "three"), ledger)

    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["three", "two", "one"]
    assert result.errors.keys() == {"last"}
    assert {"compensate was asked", "one is over", "last is over"} <= set(told)
    closed = ledger.get_task(TaskKey("saga", "run-1", COMPENSATE))
    assert closed is not None
    assert closed.state is TaskState.SUCCEEDED


def test_an_undo_that_works_the_second_time(world: World, ledger: Ledger) -> None:
    world.before["two"] = [ConnectionError()]
    assert run(saga("one", "two_idempotent"), ledger).state is RunState.FAILED_COMPENSATED
    assert world.undone == ["two", "one"]


def test_what_was_given_up_stays_given_up(world: World, ledger: Ledger) -> None:
    """Called again, the run does not turn green, and nothing is tried behind the person's back."""
    world.before["two"] = [ConnectionError()]
    definition = saga("one", "two")
    run(definition, ledger)
    assert run(definition, ledger).state is RunState.COMPENSATION_FAILED
    assert world.undone == ["one"]

    cleared = live(COMPENSATE, definition, ledger, try_number=2, max_tries=1)
    assert cleared.state is TaskState.FAILED
    assert isinstance(cleared.error, CompensationFailed)
    assert world.undone == ["one"]


def test_an_undo_that_cannot_be_found_is_a_failure_and_not_silence(
    world: World, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was renamed by a deploy between the effect and its undo."""
    definition = saga("one", "vanish")
    result = run_inline(
        definition,
        {"vanish": Vanishing(monkeypatch)},
        ledger=ledger,
        clock=FixedClock(NOW),
        run_id=RUN.run_id,
    )
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["one"]
    vanished = effects(ledger)["vanish"]
    assert vanished.state is EffectState.UNDO_FAILED
    assert "cannot be imported" in (vanished.reason or "")


def renamed(undo: Undo) -> None:
    put_back(undo)


class Vanishing:
    """A step whose compensation is gone once it has acted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, ctx: TaskContext) -> None:
        act("vanish", ctx, compensate=renamed)
        self._monkeypatch.delitem(globals(), "renamed")


# Effects whose rows were changed past the ledger


def forge(undo: Undo) -> str:
    WORLDS[-1].undone.append("forged")
    return "forged"


def say_no(key: str) -> Verification:
    WORLDS[-1].undone.append("asked")
    return Verification.absent()


class Tampering:
    """A step that fails, after somebody has changed the row of an effect."""

    def __init__(self, ledger: Ledger, name: str, **changes: Any) -> None:
        self._ledger: Any = ledger
        self._name, self._changes = name, changes

    def __call__(self) -> None:
        effect = effects(self._ledger)[self._name]
        with self._ledger._transaction(write=True) as rows:
            rows.update(replace(effect, **self._changes))
        raise RuntimeError("it fails")


@pytest.mark.parametrize("undo", [f"{__name__}:forge", None], ids=["another", "none"])
def test_a_compensation_that_nobody_registered_is_not_called(
    world: World, ledger: Ledger, undo: str | None
) -> None:
    """Nor does the effect stand in silence where it was taken away: a person has to see to it."""
    tampering = Tampering(ledger, "two", undo=undo)
    result = run_inline(
        saga("one", "two"), {"last": tampering}, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id
    )
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["one"]
    given_up = effects(ledger)["two"]
    assert given_up.state is EffectState.UNDO_FAILED
    assert "undo differ" in (given_up.reason or "")


def test_a_verify_that_nobody_registered_is_not_asked(world: World, ledger: Ledger) -> None:
    lose_answer(world)
    world.says = None
    definition = saga("one", "two_verified", fails=False)
    two = definition.nodes[-1]

    def act_and_tamper(ctx: TaskContext) -> None:
        try:
            two_verified(ctx)
        except ConnectionError:
            Tampering(ledger, "two", verify=f"{__name__}:say_no")()

    result = run_inline(
        definition, {two.name: act_and_tamper}, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id
    )

    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["one"]
    assert states(ledger)["two"] is EffectState.UNDO_FAILED


# Effects that nobody knows of


def lose_answer(world: World) -> None:
    world.after["two"] = [ConnectionError("it did happen")]


def test_an_unknown_effect_is_undone_by_an_undo_that_can_check(world: World, ledger: Ledger) -> None:
    """Case E05: first of all, since it began after everything that its step knew to be committed."""
    lose_answer(world)
    result = run(saga("one", "two_idempotent", "three", fails=False), ledger)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["two", "one"]
    assert (world.given["two"].status, world.given["two"].result) == ("unknown", None)
    assert world.given["two"].intent == {"what": "two"}


def test_an_unknown_effect_that_nobody_can_check_waits_for_a_person(world: World, ledger: Ledger) -> None:
    lose_answer(world)
    result = run(saga("one", "two", fails=False), ledger)
    assert result.state is RunState.COMPENSATION_FAILED
    assert world.undone == ["one"]
    assert states(ledger)["two"] is EffectState.UNDO_FAILED


@pytest.mark.parametrize(
    ("says", "undone", "state"),
    [
        (Verification.committed("found"), ["two", "one"], EffectState.UNDONE),
        (Verification.absent(), ["one"], EffectState.FAILED),
        (Verification.unknown(), ["one"], EffectState.UNDO_FAILED),
        (None, ["one"], EffectState.UNDO_FAILED),
    ],
    ids=["it happened", "it did not", "nobody can tell", "no answer"],
)
def test_an_unknown_effect_is_verified_first(
    world: World, ledger: Ledger, says: Verification | None, undone: list[str], state: EffectState
) -> None:
    lose_answer(world)
    world.says = says
    result = run(saga("one", "two_verified", fails=False), ledger)
    assert world.undone == undone
    assert states(ledger)["two"] is state
    ended_well = state is not EffectState.UNDO_FAILED
    assert result.state is (RunState.FAILED_COMPENSATED if ended_well else RunState.COMPENSATION_FAILED)
    if undone[0] == "two":
        assert (world.given["two"].status, world.given["two"].result) == ("committed", "found")


def test_a_ledger_that_fails_decides_nothing(world: World, ledger: Ledger) -> None:
    """Nothing is taken for undone, nor given up; called again, it goes on."""

    class Failing(Killing):
        def load_effect(self, record: EffectRecord) -> Any:
            raise LedgerUnavailable("no route")

    definition = saga("one", "two")
    with pytest.raises(LedgerUnavailable):
        run(definition, Failing(ledger, after=0))  # type: ignore[arg-type]
    assert set(states(ledger).values()) == {EffectState.COMMITTED}
    assert run(definition, ledger).state is RunState.FAILED_COMPENSATED
    assert world.undone == ["two", "one"]


# After the compensation


def live(name: str, definition: Definition, ledger: Ledger, *, try_number: int, max_tries: int) -> Closing:
    """A process lives one task; a larger ``max_tries`` than before tells of a clear."""
    claim = Claim(try_number=try_number, max_tries=max_tries, process="elsewhere", source=Source.WORKER)
    start = run_start(definition, RUN)
    calls = StepCalls(workflow=bind(definition), start=start, params=lambda _: {})
    life = Lifecycle(ledger=ledger, clock=FixedClock(NOW), liveness=LocalProcesses(), log=Quiet())
    if name == COMPENSATE:
        return life.live(compensate_call(start, claim))
    return life.live(calls.node(name, key=TaskKey("saga", "run-1", name), claim=claim))


class Quiet:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


def test_a_cleared_step_refuses_to_run_on_undone_ground(world: World, ledger: Ledger) -> None:
    """Case E08: until what it builds on is cleared too and acts again, in a new epoch."""
    definition = saga("one", "two")
    run(definition, ledger)

    refused = live("last", definition, ledger, try_number=2, max_tries=1)
    assert refused.state is TaskState.FAILED
    assert isinstance(refused.error, UpstreamUndone)
    assert "clear that step too" in str(refused.error)

    for name in ("one", "two"):
        assert live(name, definition, ledger, try_number=2, max_tries=1).state is TaskState.SUCCEEDED
    ran = live("last", definition, ledger, try_number=3, max_tries=2)
    assert isinstance(ran.error, RuntimeError)
    assert world.acted == {
        f"run-1::{name}::-1::{name}#{epoch}": 1 for name in ("one", "two") for epoch in (1, 2)
    }


def test_the_new_epoch_is_undone_in_its_turn(world: World, ledger: Ledger) -> None:
    definition = saga("one")
    run(definition, ledger)
    live("one", definition, ledger, try_number=2, max_tries=1)
    assert [effect.state for effect in ledger.list_effects(RUN) if effect.kind is EffectKind.FORWARD] == [
        EffectState.UNDONE,
        EffectState.COMMITTED,
    ]
    assert live(COMPENSATE, definition, ledger, try_number=2, max_tries=1).value["undone"] == [
        "run-1::one::-1::one#2"
    ]
    assert world.undone == ["one", "one"]
    assert world.given["one"].key == "undo:run-1::one::-1::one#2"
    assert overview(RUN, ledger).state is RunState.FAILED_COMPENSATED


def test_a_changed_definition_stops_the_steps_but_not_the_undoing(world: World, ledger: Ledger) -> None:
    """What undoes a run works from what was recorded (row O14)."""
    world.after["two"] = [Killed()]
    with pytest.raises(Killed):
        run(saga("one", "two_idempotent"), ledger)

    result = run(saga("one", "two_idempotent", version="2"), ledger)

    assert isinstance(result.errors["two"], DefinitionChanged)
    assert result.state is RunState.FAILED_COMPENSATED
    assert world.undone == ["two", "one"]
    assert world.acted == {"run-1::one::-1::one#1": 1, "run-1::two::-1::two#1": 1}


def test_a_step_with_retries_is_undone_once(world: World, ledger: Ledger) -> None:
    world.broken = {"one"}
    definition = Definition(
        name="saga",
        version="1",
        nodes=[
            Step(
                name="one",
                task=f"{__name__}:one",
                retry=RetryPolicy(max_attempts=3, delay=timedelta(seconds=1)),
            )
        ],
    )
    assert run(definition, ledger).state is RunState.FAILED_COMPENSATED
    assert world.acted == {"run-1::one::-1::one#1": 1}
    assert world.undone == ["one"]
