"""The table of semantics section 1, written a second time by hand and held against the code, both ways."""

from __future__ import annotations

import itertools

import pytest

from louver.errors import IllegalTransition
from louver.states import TRANSITIONS, RunState, TaskState, transition, triggers_between

# From the spec: a state, what it may become, and by which triggers; besides a person's mark and a clear.
ENDS_EARLY = {"skipped": "orchestrator:upstream", "cancelled": "orchestrator:cascade", "stopped": "user:stop"}
ASKED_TO_END = "user:stop orchestrator:cascade"
ENDED_BY_CODE = "runtime:error timeout:attempt timeout:idle"
TABLE: dict[str, dict[str, str]] = {
    "pending": {
        "blocked": "orchestrator:waiting",
        "queued": "orchestrator:dependencies_resolved",
        **ENDS_EARLY,
    },
    "blocked": {"queued": "orchestrator:dependencies_resolved", **ENDS_EARLY},
    "queued": {"starting": "scheduler:dispatch", "failed": "timeout:start", **ENDS_EARLY},
    "starting": {
        "running": "executor:launched",
        "blocked": "resource:waiting",
        "paused": "user:pause",
        "retry_wait": "runtime:error runtime:attempt_lost runtime:outdated",
        "failed": "runtime:error",
        "stopping": ASKED_TO_END,
        "stopped": "user:stop",
        "cancelled": "orchestrator:cascade orchestrator:duplicate",
        "lost": "runtime:attempt_lost",
    },
    "running": {
        "succeeded": "runtime:completed",
        "failed": ENDED_BY_CODE,
        "skipped": "task:skip",
        "retry_wait": f"{ENDED_BY_CODE} runtime:attempt_lost",
        "queued": "executor:restarting",
        "pausing": "user:pause",
        "paused": "approval:requested",
        "stopping": ASKED_TO_END,
        "lost": "runtime:attempt_lost",
    },
    "pausing": {
        "paused": "runtime:pause_reached",
        "running": "runtime:pause_rolled_back",
        "succeeded": "runtime:completed",
        "failed": ENDED_BY_CODE,
        "retry_wait": f"{ENDED_BY_CODE} runtime:attempt_lost",
        "stopping": ASKED_TO_END,
        "lost": "runtime:attempt_lost",
    },
    "paused": {
        "running": "user:resume",
        "queued": "user:resume approval:granted",
        "stopping": ASKED_TO_END,
        "stopped": "user:stop",
        "cancelled": "orchestrator:cascade",
        "retry_wait": "runtime:attempt_lost",
        "failed": "timeout:attempt approval:expired approval:rejected approval:void",
        "lost": "runtime:attempt_lost",
    },
    "retry_wait": {
        "queued": "policy:retry_due",
        "stopped": "user:stop",
        "cancelled": "orchestrator:cascade",
    },
    "stopping": {
        "stopped": "runtime:stop_confirmed",
        "cancelled": "runtime:cascade_confirmed",
        "succeeded": "runtime:completed",
        "failed": "runtime:error",
        "retry_wait": "runtime:attempt_lost",
        "lost": "runtime:grace_used_up runtime:attempt_lost",
    },
    "succeeded": {},
    "failed": {},
    "stopped": {},
    "cancelled": {},
    "skipped": {},
    "lost": {},
}
NOT_TERMINAL = "pending blocked queued starting running pausing paused retry_wait stopping"
MARKS = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SKIPPED}
OF_EVERY_STATE = {"user:marked", "user:cleared"}

PAIRS = [pytest.param(*pair, id=f"{pair[0]}-{pair[1]}") for pair in itertools.product(TaskState, repeat=2)]


def listed(current: TaskState, to: TaskState) -> set[str]:
    return set(TABLE[str(current)].get(str(to), "").split())


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


@pytest.mark.parametrize(("current", "to"), PAIRS)
def test_an_edge_has_the_triggers_that_the_table_names_and_no_other(
    current: TaskState, to: TaskState
) -> None:
    assert triggers_between(current, to) - OF_EVERY_STATE == listed(current, to)


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
