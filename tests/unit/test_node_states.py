"""One state for each node, from the states of its tasks (row W13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.definition import Definition, Step
from louver.ledger.names import TaskKey
from louver.node_states import folded, states_by_node
from louver.states import TaskState

S = TaskState
DEFINITION = Definition(
    name="work",
    version="1",
    nodes=[Step(name="rows", task="t:rows"), Step(name="each", task="t:each", over={"row": "rows"})],
)


def states(*each: TaskState | None, rows: TaskState = S.SUCCEEDED) -> dict[TaskKey, TaskState]:
    found = {TaskKey("work", "r", "rows"): rows}
    found |= {TaskKey("work", "r", "each", index): state for index, state in enumerate(each) if state}
    return found


@pytest.mark.parametrize(
    ("found", "expected", "state"),
    [
        ([S.SUCCEEDED, S.SUCCEEDED], 2, S.SUCCEEDED),
        ([S.SUCCEEDED, S.SUCCEEDED], None, S.SUCCEEDED),
        ([S.SUCCEEDED], 2, S.RUNNING),
        ([S.SUCCEEDED, S.SKIPPED, S.FAILED, S.STOPPED], 4, S.FAILED),
        ([S.SUCCEEDED, S.SKIPPED, S.CANCELLED, S.STOPPED], 4, S.STOPPED),
        ([S.LOST, S.STOPPED], 2, S.LOST),
        ([S.SKIPPED, S.CANCELLED], 2, S.CANCELLED),
        ([S.SUCCEEDED, S.SKIPPED], 2, S.SKIPPED),
        ([S.FAILED, S.RUNNING], 2, S.RUNNING),
        ([S.FAILED, S.PAUSED], 2, S.PAUSED),
        ([S.SUCCEEDED, S.PENDING], 2, S.RUNNING),
        ([S.PENDING, S.BLOCKED], 2, S.BLOCKED),
        ([], 2, S.PENDING),
        ([], 0, S.SKIPPED),
        ([S.SUCCEEDED], 0, S.SKIPPED),
    ],
)
def test_a_mapped_node_tells_of_the_gravest_once_all_are_over(
    found: list[TaskState], expected: int | None, state: TaskState
) -> None:
    assert folded(found, expected=expected) is state


@given(st.lists(st.sampled_from(TaskState), min_size=1, max_size=6), st.integers(0, 3))
def test_it_is_over_exactly_when_all_its_indexes_are(found: list[TaskState], missing: int) -> None:
    over = missing == 0 and all(state.terminal for state in found)
    assert folded(found, expected=len(found) + missing).terminal is over


@given(st.lists(st.sampled_from(TaskState), min_size=1, max_size=6))
def test_the_order_of_the_indexes_does_not_matter(found: list[TaskState]) -> None:
    assert folded(found) is folded(reversed(found)) is folded(sorted(found))


def test_nodes_that_no_task_is_known_of_are_left_out() -> None:
    assert states_by_node(DEFINITION, {}) == {}
    assert states_by_node(DEFINITION, states()) == {"rows": S.SUCCEEDED}


def test_an_index_beyond_the_list_is_left_over_from_a_longer_one() -> None:
    found = states(S.SUCCEEDED, S.SUCCEEDED, S.FAILED)
    assert states_by_node(DEFINITION, found)["each"] is S.FAILED
    assert states_by_node(DEFINITION, found, expected={"each": 2})["each"] is S.SUCCEEDED


def test_a_step_that_was_never_expanded_is_settled_as_a_whole() -> None:
    whole = {**states(), TaskKey("work", "r", "each"): S.SKIPPED}
    assert states_by_node(DEFINITION, whole)["each"] is S.SKIPPED
    # Expanded after all, the indexes tell.
    assert states_by_node(DEFINITION, {**whole, **states(S.RUNNING)})["each"] is S.RUNNING
