"""The table of semantics section 1, written a second time by hand and held against the code, both ways."""

from __future__ import annotations

import itertools

import pytest

from louver.errors import IllegalTransition
from louver.states import TRANSITIONS, RunState, TaskState, transition, triggers_between

# From the spec: a state and what it may become, besides a person's mark and a clear.
TABLE = {
    "pending": "blocked queued skipped cancelled stopped",
    "blocked": "queued skipped cancelled stopped",
    "queued": "starting failed stopped cancelled skipped",
    "starting": "running blocked paused retry_wait failed stopping stopped cancelled lost",
    "running": "succeeded failed skipped retry_wait queued pausing paused stopping lost",
    "pausing": "paused running succeeded failed retry_wait stopping lost",
    "paused": "running queued stopping stopped cancelled retry_wait failed lost",
    "retry_wait": "queued stopped cancelled",
    "stopping": "stopped cancelled succeeded failed retry_wait lost",
    "succeeded": "",
    "failed": "",
    "stopped": "",
    "cancelled": "",
    "skipped": "",
    "lost": "",
}
NOT_TERMINAL = "pending blocked queued starting running pausing paused retry_wait stopping"
MARKS = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SKIPPED}

# The spec names these triggers.
NAMED = {
    ("pending", "blocked"): "orchestrator:waiting",
    ("pending", "queued"): "orchestrator:dependencies_resolved",
    ("blocked", "queued"): "orchestrator:dependencies_resolved",
    ("blocked", "skipped"): "orchestrator:upstream",
    ("blocked", "cancelled"): "orchestrator:cascade",
    ("blocked", "stopped"): "user:stop",
    ("queued", "starting"): "scheduler:dispatch",
    ("queued", "failed"): "timeout:start",
    ("starting", "running"): "executor:launched",
    ("starting", "blocked"): "resource:waiting",
    ("running", "skipped"): "task:skip",
    ("running", "queued"): "executor:restarting",
    ("running", "pausing"): "user:pause",
    ("running", "paused"): "approval:requested",
    ("running", "stopping"): "user:stop",
    ("pausing", "paused"): "runtime:pause_reached",
    ("pausing", "running"): "runtime:pause_rolled_back",
    ("paused", "running"): "user:resume",
    ("paused", "queued"): "approval:granted",
    ("paused", "failed"): "approval:rejected",
    ("retry_wait", "queued"): "policy:retry_due",
    ("stopping", "stopped"): "runtime:stop_confirmed",
    ("stopping", "cancelled"): "runtime:cascade_confirmed",
}

PAIRS = [pytest.param(*pair, id=f"{pair[0]}-{pair[1]}") for pair in itertools.product(TaskState, repeat=2)]


def listed(current: TaskState, to: TaskState) -> bool:
    return str(to) in TABLE[str(current)].split()


def test_the_table_speaks_of_every_state() -> None:
    assert set(TABLE) == {str(state) for state in TaskState}
    assert len(TABLE) == 15


def test_terminal_states() -> None:
    assert {str(state) for state in TaskState if not state.terminal} == set(NOT_TERMINAL.split())


@pytest.mark.parametrize(("current", "to"), PAIRS)
def test_what_is_listed_is_legal_and_nothing_else(current: TaskState, to: TaskState) -> None:
    if listed(current, to):
        assert transition(current, to) is to
    else:
        with pytest.raises(IllegalTransition) as caught:
            transition(current, to)
        assert f"from {current} to {to}" in str(caught.value)


@pytest.mark.parametrize(("current", "to"), PAIRS)
def test_every_edge_is_taken_by_its_own_triggers_alone(current: TaskState, to: TaskState) -> None:
    every = set().union(*TRANSITIONS.values()) | {"user:dreams"}
    for trigger in every:
        if trigger in triggers_between(current, to):
            assert transition(current, to, trigger) is to
        else:
            with pytest.raises(IllegalTransition):
                transition(current, to, trigger)


@pytest.mark.parametrize(("edge", "trigger"), NAMED.items(), ids="-".join)
def test_the_triggers_that_the_table_names(edge: tuple[str, str], trigger: str) -> None:
    current, to = map(TaskState, edge)
    assert transition(current, to, trigger) is to


@pytest.mark.parametrize("current", TaskState)
def test_a_person_may_mark_anything_in_airflow(current: TaskState) -> None:
    marked = {to for to in TaskState if "user:marked" in triggers_between(current, to)}
    assert marked == MARKS


@pytest.mark.parametrize("current", TaskState)
def test_a_clear_leads_to_pending_from_everywhere(current: TaskState) -> None:
    cleared = {to for to in TaskState if "user:cleared" in triggers_between(current, to)}
    assert cleared == {TaskState.PENDING}


def test_a_refusal_says_what_is_possible() -> None:
    with pytest.raises(IllegalTransition, match=r"from there: cancelled, queued, stopped$"):
        transition(TaskState.RETRY_WAIT, TaskState.RUNNING)
    with pytest.raises(IllegalTransition, match="it is terminal"):
        transition(TaskState.LOST, TaskState.RUNNING)
    with pytest.raises(IllegalTransition, match="allowed: executor:launched"):
        transition(TaskState.STARTING, TaskState.RUNNING, "user:resume")


def test_parks_come_from_running_code_alone() -> None:
    assert {current for current, to in TRANSITIONS if to is TaskState.PAUSED} == {
        TaskState.STARTING,
        TaskState.RUNNING,
        TaskState.PAUSING,
    }


def test_run_states() -> None:
    live = {"running", "paused", "waiting_approval", "compensating"}
    assert {str(state) for state in RunState if not state.terminal} == live
    assert {str(state) for state in RunState if state.success} == {"succeeded", "succeeded_with_failures"}
    assert len(RunState) == 11


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[TaskState.LOST, TaskState.RUNNING] = frozenset()  # type: ignore[index]
