"""What the closing tasks make of Airflow's states, where a step's process could not write the last one."""

from __future__ import annotations

import pytest

from louver.states import TaskState, transition
from louver_provider.airflow_states import change_from_airflow

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
def test_whatever_is_missing_is_a_legal_transition_to_an_end(
    state: TaskState, airflow_state: str | None
) -> None:
    change = change_from_airflow(state, airflow_state)
    if change is not None:
        assert not state.terminal
        assert transition(state, change.to, change.trigger).terminal


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
    change = change_from_airflow(state, airflow_state)
    assert change is not None
    assert (change.to, change.trigger) == expected


@pytest.mark.parametrize(
    "airflow_state", [None, "running", "queued", "scheduled", "awaiting_input", "up_for_retry"]
)
@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.PAUSED, TaskState.RETRY_WAIT])
def test_what_is_not_over_in_airflow_is_left_alone(state: TaskState, airflow_state: str | None) -> None:
    assert change_from_airflow(state, airflow_state) is None
