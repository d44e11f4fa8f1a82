"""What the closing tasks make of Airflow's states, where a step's process could not write the last one."""

from __future__ import annotations

import pytest

from louver.states import TaskState, transition
from louver_provider.airflow_states import changes_from_airflow, names_apart

AIRFLOW_STATES = (
    None,
    "success",
    "failed",
    "skipped",
    "upstream_failed",
    "removed",
    "running",
    "awaiting_input",
)


@pytest.mark.parametrize("state", list(TaskState))
@pytest.mark.parametrize("airflow_state", AIRFLOW_STATES)
def test_whatever_is_missing_is_a_legal_way_to_an_end(state: TaskState, airflow_state: str | None) -> None:
    changes = changes_from_airflow(state, airflow_state)
    for change in changes:
        state = transition(state, change.to, change.trigger)
    assert state.terminal or not changes


@pytest.mark.parametrize(
    ("state", "airflow_state", "expected"),
    [
        (TaskState.PENDING, "upstream_failed", (TaskState.SKIPPED, "orchestrator:upstream")),
        (TaskState.PENDING, "skipped", (TaskState.SKIPPED, "orchestrator:upstream")),
        (TaskState.RUNNING, "failed", (TaskState.LOST, "runtime:attempt_lost")),
        (TaskState.PAUSED, "failed", (TaskState.FAILED, "user:marked")),
        (TaskState.PENDING, "failed", (TaskState.FAILED, "user:marked")),
        (TaskState.PAUSED, "success", (TaskState.SUCCEEDED, "user:marked")),
    ],
)
def test_what_is_missing(state: TaskState, airflow_state: str, expected: tuple[TaskState, str]) -> None:
    (change,) = changes_from_airflow(state, airflow_state)
    assert (change.to, change.trigger) == expected


@pytest.mark.parametrize("airflow_state", ["skipped", "upstream_failed"])
@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST])
def test_what_was_cleared_and_then_skipped_is_held_for_skipped(state: TaskState, airflow_state: str) -> None:
    """What it came to before the clear must not be given to whoever stands behind it."""
    changes = changes_from_airflow(state, airflow_state)
    assert [(change.to, change.trigger) for change in changes] == [
        (TaskState.PENDING, "user:cleared"),
        (TaskState.SKIPPED, "orchestrator:upstream"),
    ]


@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FAILED])
@pytest.mark.parametrize("explained", [False, None])
def test_a_skip_that_no_upstream_explains_takes_nothing_back(
    state: TaskState, explained: bool | None
) -> None:
    assert changes_from_airflow(state, "skipped", explained=explained) == ()


@pytest.mark.parametrize("state", [TaskState.SKIPPED, TaskState.CANCELLED])
def test_what_never_ran_is_skipped_already(state: TaskState) -> None:
    assert changes_from_airflow(state, "skipped") == ()


@pytest.mark.parametrize(
    "airflow_state", [None, "running", "queued", "scheduled", "awaiting_input", "up_for_retry"]
)
@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.PAUSED, TaskState.RETRY_WAIT])
def test_what_is_not_over_in_airflow_is_left_alone(state: TaskState, airflow_state: str | None) -> None:
    assert changes_from_airflow(state, airflow_state) == ()


@pytest.mark.parametrize(
    ("names", "mapped", "groups"),
    [
        (("load", "load_1"), {"load"}, [["load"], ["load_1"]]),
        (("load", "load_1"), {"load_1"}, [["load", "load_1"]]),
        (("load", "load_1", "load_1_2"), {"load", "load_1"}, [["load"], ["load_1"], ["load_1_2"]]),
        (("a_1", "load_x", "load"), {"load"}, [["a_1", "load_x", "load"]]),
        (("one",), set(), [["one"]]),
    ],
)
def test_names_that_airflow_would_mix_up_are_asked_for_apart(
    names: tuple[str, ...], mapped: set[str], groups: list[list[str]]
) -> None:
    assert names_apart(names, mapped) == groups
