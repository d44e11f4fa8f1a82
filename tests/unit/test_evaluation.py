"""What follows from the states of the nodes, and nothing else (rows W6, W7, W9)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.definition import ApprovalNode, Definition, Node, Step
from louver.evaluation import evaluate, final_state
from louver.states import RunState, TaskState

UNSTARTED = {TaskState.PENDING, TaskState.BLOCKED}
ENDED = [state for state in TaskState if state.terminal]
LIVE = [state for state in TaskState if not state.terminal]


def step(name: str, *after: str, on_failure: str = "fail") -> Step:
    return Step(name=name, task="shop:act", after=after, on_failure=on_failure)


def workflow(*nodes: Node) -> Definition:
    return Definition(name="orders", version="1", nodes=nodes)


# a -> b -> d, a -> c -> d, and e by itself
DIAMOND = workflow(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"), step("e"))


@st.composite
def graphs(draw: st.DrawFn) -> Definition:
    """Acyclic by construction, declared in any order."""
    count = draw(st.integers(min_value=1, max_value=7))
    nodes = [
        step(
            f"n{index}",
            *(f"n{other}" for other in range(index) if draw(st.booleans())),
            on_failure=draw(st.sampled_from(["fail", "continue"])),
        )
        for index in range(count)
    ]
    return workflow(*draw(st.permutations(nodes)))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Definition, dict[str, TaskState]]:
    definition = draw(graphs())
    states = st.dictionaries(st.sampled_from(definition.names), st.sampled_from(TaskState))
    return definition, draw(states)


@settings(max_examples=60)
@given(situations())
def test_nothing_is_ready_before_everything_above_it_has_succeeded(
    situation: tuple[Definition, dict[str, TaskState]],
) -> None:
    definition, states = situation
    seen = evaluate(definition, states)
    for name in definition.names:
        upstream = {states.get(other, TaskState.PENDING) for other in definition.node(name).upstream}
        unstarted = states.get(name, TaskState.PENDING) in UNSTARTED
        assert (name in seen.ready) == (unstarted and upstream <= {TaskState.SUCCEEDED})


@settings(max_examples=60)
@given(situations())
def test_what_will_never_run_is_skipped_and_nothing_else_is_changed(
    situation: tuple[Definition, dict[str, TaskState]],
) -> None:
    definition, states = situation
    seen = evaluate(definition, states)
    for name in definition.names:
        before = states.get(name, TaskState.PENDING)
        # What cannot deliver: it has ended otherwise, or will never run itself.
        undelivered = any(
            seen.states[other].terminal and seen.states[other] is not TaskState.SUCCEEDED
            for other in definition.node(name).upstream
        )
        expected = TaskState.SKIPPED if before in UNSTARTED and undelivered else before
        assert seen.states[name] is expected
        assert (name in seen.skipped) == (expected is not before)
    assert not set(seen.ready) & set(seen.skipped)


@settings(max_examples=60)
@given(situations())
def test_advancing_twice_is_the_same(situation: tuple[Definition, dict[str, TaskState]]) -> None:
    definition, states = situation
    once = evaluate(definition, states)
    twice = evaluate(definition, once.states)
    assert (twice.ready, twice.states, twice.forward) == (once.ready, once.states, once.forward)
    assert twice.skipped == ()


@settings(max_examples=60)
@given(graphs(), st.data())
def test_a_run_comes_to_an_end_whatever_its_steps_do(definition: Definition, data: st.DataObject) -> None:
    states: dict[str, TaskState] = {}
    for _ in definition.names:
        seen = evaluate(definition, states)
        if not seen.ready:
            break
        states[data.draw(st.sampled_from(seen.ready))] = data.draw(st.sampled_from(ENDED))
    seen = evaluate(definition, states)
    assert all(state.terminal for state in seen.states.values())
    assert seen.forward.terminal


@settings(max_examples=60)
@given(situations())
def test_a_run_is_over_when_all_its_steps_are(situation: tuple[Definition, dict[str, TaskState]]) -> None:
    definition, states = situation
    seen = evaluate(definition, states)
    assert seen.forward.terminal == all(state.terminal for state in seen.states.values())


def test_roots_start_and_the_rest_waits() -> None:
    seen = evaluate(DIAMOND, {})
    assert seen.ready == ("a", "e")
    assert seen.forward is RunState.RUNNING


def test_a_join_waits_for_all() -> None:
    states = {"a": TaskState.SUCCEEDED, "b": TaskState.SUCCEEDED, "c": TaskState.RUNNING}
    assert evaluate(DIAMOND, states).ready == ("e",)
    assert evaluate(DIAMOND, {**states, "c": TaskState.SUCCEEDED}).ready == ("d", "e")


@pytest.mark.parametrize("ended", [state for state in ENDED if state is not TaskState.SUCCEEDED])
def test_downstream_is_skipped_and_other_branches_finish(ended: TaskState) -> None:
    seen = evaluate(DIAMOND, {"a": TaskState.SUCCEEDED, "b": ended})
    assert seen.skipped == ("d",)
    assert seen.ready == ("c", "e")
    assert seen.forward is RunState.RUNNING


def test_skipping_goes_all_the_way_down_in_any_order_of_declaration() -> None:
    backwards = workflow(step("c", "b"), step("b", "a"), step("a"))
    assert evaluate(backwards, {"a": TaskState.FAILED}).skipped == ("c", "b")


@pytest.mark.parametrize("state", LIVE)
def test_what_is_at_work_is_neither_ready_nor_skipped(state: TaskState) -> None:
    chain = workflow(step("a"), step("b", "a"))
    seen = evaluate(chain, {"a": state})
    assert ("a" in seen.ready) == (state in UNSTARTED)
    assert "b" not in seen.ready
    assert seen.skipped == ()


def finished(**states: TaskState) -> RunState:
    definition = workflow(step("a"), step("b", on_failure="continue"), step("c"))
    every = dict.fromkeys(definition.names, TaskState.SUCCEEDED)
    return evaluate(definition, every | states).forward


def test_the_runs_state_once_all_is_over() -> None:
    assert finished() is RunState.SUCCEEDED
    assert finished(a=TaskState.FAILED) is RunState.FAILED
    assert finished(a=TaskState.LOST) is RunState.FAILED
    assert finished(b=TaskState.FAILED) is RunState.SUCCEEDED_WITH_FAILURES
    assert finished(a=TaskState.FAILED, b=TaskState.FAILED) is RunState.FAILED
    assert finished(a=TaskState.SKIPPED) is RunState.SUCCEEDED
    assert finished(a=TaskState.CANCELLED) is RunState.CANCELLED
    assert finished(a=TaskState.CANCELLED, c=TaskState.FAILED) is RunState.FAILED
    assert finished(b=TaskState.FAILED, c=TaskState.CANCELLED) is RunState.CANCELLED
    assert finished(a=TaskState.STOPPED, c=TaskState.FAILED) is RunState.STOPPED


def test_a_run_waits_for_a_person_only_while_nothing_else_can_be_done() -> None:
    ask = ApprovalNode(name="ask", of="pay", payload="shop:intent")
    pay = Step(name="pay", task="shop:pay", after=["ask"], approval="ask")
    definition = workflow(ask, pay, step("look"), step("mail", "pay"))
    parked = {"ask": TaskState.PAUSED}
    assert evaluate(definition, parked).forward is RunState.RUNNING
    assert evaluate(definition, {**parked, "look": TaskState.RUNNING}).forward is RunState.RUNNING
    assert evaluate(definition, {**parked, "look": TaskState.RETRY_WAIT}).forward is RunState.RUNNING
    assert evaluate(definition, {**parked, "look": TaskState.SUCCEEDED}).forward is RunState.WAITING_APPROVAL


@pytest.mark.parametrize("forward", RunState)
@pytest.mark.parametrize("undone", [0, 1])
@pytest.mark.parametrize("failed", [0, 1])
@pytest.mark.parametrize("outstanding", [0, 1])
@pytest.mark.parametrize("stop", [False, True])
def test_the_final_state(forward: RunState, undone: int, failed: int, outstanding: int, stop: bool) -> None:
    final = final_state(forward, undone=undone, failed=failed, outstanding=outstanding, stop=stop)
    if forward.success or not forward.terminal:
        assert final is forward
    elif stop and failed:
        # What is outstanding waits as well.
        assert final is RunState.COMPENSATION_FAILED
    elif outstanding:
        assert final is RunState.COMPENSATING
    elif failed:
        assert final is RunState.COMPENSATION_FAILED
    elif undone:
        assert final is RunState.FAILED_COMPENSATED
    else:
        # With nothing to undo it stays what it was: failed, stopped or cancelled.
        assert final is forward
