"""Steps that the platform itself runs once for each item: tasks of a plain Dag, mapped by Airflow."""

from __future__ import annotations

from typing import Any

import pytest

from louver.binding import Workflow, bind
from louver.definition import Definition, Step
from louver.definition_json import read_definition_form
from louver.errors import DefinitionError
from louver.ledger.names import TaskKey
from louver.node_states import states_by_node
from louver.states import TaskState
from louver.versions import Verdict, decide_change


def definition(*, expanded: bool = True, on_change: str = "fail") -> Definition:
    return Definition(
        name="plain",
        version="dag",
        nodes=[Step(name="each", task="json:dumps", expanded=expanded), Step(name="last", task="json:loads")],
        on_change=on_change,
    )


def test_it_is_mapped_over_no_node() -> None:
    each = definition().node("each")
    assert (each.mapped, each.over, each.upstream) == (True, {}, ())


def test_it_stands_in_the_json_only_where_it_is_so() -> None:
    first, last = definition().to_json()["steps"]
    assert (first["expanded"], "expanded" in last) == (True, False)
    assert read_definition_form(definition().to_json()) == definition()
    assert definition().fingerprint != definition(expanded=False).fingerprint


def test_its_state_is_that_of_all_its_indexes() -> None:
    def of(*states: TaskState) -> TaskState:
        tasks = {TaskKey("plain", "r", "each", index): state for index, state in enumerate(states)}
        return states_by_node(definition(), tasks)["each"]

    assert of(TaskState.SUCCEEDED, TaskState.RUNNING) is TaskState.RUNNING
    assert of(TaskState.SUCCEEDED, TaskState.FAILED) is TaskState.FAILED
    assert of(TaskState.SUCCEEDED, TaskState.SUCCEEDED) is TaskState.SUCCEEDED


def test_a_workflow_cannot_be_of_such_steps() -> None:
    with pytest.raises(DefinitionError, match=r"plain, step 'each', attribute 'expanded'.*over"):
        bind(definition())


def test_it_has_to_be_a_word_for_true_or_false() -> None:
    with pytest.raises(DefinitionError, match="attribute 'expanded': must be true or false"):
        definition(expanded=1)  # type: ignore[arg-type]


def test_a_run_does_not_go_on_where_it_is_mapped_in_another_way() -> None:
    decision = decide_change(
        "finish_old", definition(), definition(expanded=False, on_change="finish_old"), []
    )
    assert (decision.verdict, decision.node) == (Verdict.REFUSE, "each")


def test_a_workflow_is_shown_the_same_in_every_process() -> None:
    def make() -> Any:
        return lambda: None

    shown = {repr(Workflow(definition=definition(), functions={"each": make()})) for _ in range(2)}
    assert shown == {f"<Workflow plain {definition().fingerprint}>"}
