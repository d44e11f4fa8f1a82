"""What tasks that are not Louver's mean to the steps behind them."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag
from louver_provider.foreign_tasks import behind, decides, others_in

NAMES = ("first", "second", "third", "alone")


@pytest.fixture(scope="module")
def dag() -> Any:
    """A gate above ``first``, a plain task between ``first`` and ``second``, one behind ``third``."""
    with_argument = {"kwargs": {"obj": 1}}
    definition = Definition(
        name="mixed",
        version="1",
        nodes=[
            Step(name="first", task="json:dumps", **with_argument),
            Step(name="second", task="json:dumps", after=["first"], **with_argument),
            Step(name="third", task="json:dumps", after=["second"], **with_argument),
            Step(name="alone", task="json:dumps", **with_argument),
        ],
    )
    with build_dag(definition) as made:
        gate, between, last = (EmptyOperator(task_id=name) for name in ("gate", "between", "last"))
        gate >> made.get_task("first") >> between >> made.get_task("second")
        made.get_task("third") >> last
    return made


def found(dag: Any, *deciding: str, failed: tuple[str, ...] = ()) -> set[str]:
    return set(behind(dag.task_dict, dag.get_task("first").workflow.definition, deciding, failed=failed))


def test_others_are_neither_steps_nor_closing_tasks(dag: Any) -> None:
    definition = dag.get_task("first").workflow.definition
    assert others_in(dag.task_dict, definition) == {"gate", "between", "last"}


def test_all_that_is_behind_one_that_decides_is_skipped_for_it(dag: Any) -> None:
    assert found(dag, "gate") == {"first", "second", "third"}
    assert found(dag, "between") == {"second", "third"}
    assert found(dag, "last") == set()


def test_what_is_behind_one_that_failed_is_not_explained_by_it(dag: Any) -> None:
    assert found(dag, failed=("gate",)) == set()
    assert found(dag, "between", failed=("gate",)) == set()
    assert found(dag, "gate", failed=("between",)) == {"first"}


def test_which_tasks_decide() -> None:
    assert decides("skipped", ran=True)
    assert decides("upstream_failed", ran=False)
    assert not any(
        decides(state, ran) for state, ran in (("skipped", False), ("failed", True), ("success", True))
    )
