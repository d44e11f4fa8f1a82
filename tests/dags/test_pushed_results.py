"""Steps whose results Airflow hands on to other tasks, lived by the workers of an Airflow in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.models.xcom import XComModel
from airflow.sdk import DAG, task
from airflow.utils.session import create_session
from sqlalchemy import select
from support.airflow_by_hand import AirflowByHand
from support.story import Story, stage

from louver.definition import Definition
from louver.errors import ValueRefused
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.nodes import Step
from louver.states import TaskState
from louver_provider.dag_builder import build_dag
from louver_provider.decorators import close
from louver_provider.operators.pushed import check_pushed

RETURNED: dict[str, Any] = {}
"""What the steps of this module return, by their name; nothing where it is not here."""

RAN: list[str] = []


def listed(ctx: Any) -> Any:
    """What every step does."""
    RAN.append(ctx.name)
    return RETURNED.get(ctx.name)


def take(item: Any) -> None:
    """What is mapped over a list."""


LOADS = Definition(
    name="loads",
    version="1",
    nodes=[
        Step(name="rows", task="tests:listed"),
        Step(name="load", task="tests:take", over={"item": "rows"}),
        Step(name="load_1", task="tests:listed", after=["rows"]),
    ],
)


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with DAG(dag_id="handed_on", schedule=None) as plain:
        rows = task.step(task_id="rows")(listed)()
        task(task_id="each")(take).expand(item=rows)
        task.step(task_id="parted", multiple_outputs=True)(listed)()
        close()
    loads = build_dag(LOADS, tasks={"tests:listed": listed, "tests:take": take})
    with loads:
        task(task_id="told")(take).expand(item=loads.get_task("load_1").output)
    with stage(plain, loads) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    RAN.clear()
    RETURNED.clear()
    yield
    airflow.empty()


def stated(ledger: Ledger, story: Story, name: str, index: int = -1) -> tuple[TaskState, str | None]:
    """The step's state in the ledger, and why."""
    record = ledger.get_task(TaskKey(story.run.dag_id, story.run.run_id, name, index))
    assert record is not None
    return record.state, None if record.failure_kind is None else str(record.failure_kind)


def pushed(story: Story, task_id: str) -> dict[str, Any]:
    """What stands in XCom of the task."""
    with create_session(scoped=False) as session:
        query = select(XComModel.key, XComModel.value).filter_by(run_id=story.run.run_id, task_id=task_id)
        return {row.key: row.value for row in session.execute(query)}


@pytest.mark.parametrize(("dag_id", "name"), [("handed_on", "rows"), ("loads", "load_1")])
@pytest.mark.parametrize(
    "value", [None, "abc", {1, 2}, list(range(1025))], ids=["none", "text", "set", "long"]
)
def test_what_no_task_can_be_mapped_over_fails_the_step_that_returned_it(
    airflow: AirflowByHand, ledger: Ledger, dag_id: str, name: str, value: Any
) -> None:
    """Airflow fails such a task once its step has succeeded: the ledger would say otherwise for ever."""
    RETURNED[name] = value
    RETURNED.setdefault("rows", [1])
    story = Story(airflow, ledger, dag_id)
    if name != "rows":
        story.work("rows")

    assert story.work(name) == "failed"

    assert stated(ledger, story, name) == (TaskState.FAILED, "result_invalid")
    assert RAN.count(name) == 1
    story.finish()
    assert str(airflow.run(story.run).state) == "failed"  # type: ignore[union-attr]


def test_what_is_mapped_over_a_step_is_run_for_each_item(airflow: AirflowByHand, ledger: Ledger) -> None:
    RETURNED.update(rows=["a", "b"], parted={"one": 1})
    story = Story(airflow, ledger, "handed_on")
    story.finish()
    assert str(airflow.run(story.run).state) == "success"  # type: ignore[union-attr]
    each = [TaskKey(story.run.dag_id, story.run.run_id, "each", index) for index in (0, 1)]
    assert [airflow.task(key).state for key in each] == ["success", "success"]  # type: ignore[union-attr]
    assert pushed(story, "parted") == {"one": 1, "return_value": {"one": 1}}


@pytest.mark.parametrize("value", ["text", [1], {1: 2}], ids=repr)
def test_outputs_of_their_own_are_members_of_a_dict_with_names(
    airflow: AirflowByHand, ledger: Ledger, value: Any
) -> None:
    RETURNED["parted"] = value
    story = Story(airflow, ledger, "handed_on")
    assert story.work("parted") == "failed"
    assert stated(ledger, story, "parted") == (TaskState.FAILED, "result_invalid")


def test_outputs_of_their_own_are_refused_where_no_value_is_to_stand_in_xcom(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    RETURNED["parted"] = {"name": "zq7marker"}
    monkeypatch.setenv("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "0")
    story = Story(airflow, ledger, "handed_on")

    assert story.work("parted") == "failed"

    # Before it has done anything.
    assert RAN == []
    assert stated(ledger, story, "parted") == (TaskState.FAILED, "exception")
    assert pushed(story, "parted") == {}


@pytest.mark.parametrize(
    ("failed", "succeeded"), [(("load_1", -1), ("load", 1)), (("load", 1), ("load_1", -1))]
)
def test_a_step_is_not_mixed_up_with_an_index_that_airflow_calls_the_same(
    airflow: AirflowByHand, ledger: Ledger, failed: tuple[str, int], succeeded: tuple[str, int]
) -> None:
    """Airflow tells a task's process of both as of ``load_1``."""
    RETURNED.update(rows=["a", "b"], load_1=[])
    story = Story(airflow, ledger, "loads")
    story.work("rows")
    # Nobody is told of it: neither the ledger nor the listeners of this process.
    airflow.rows.show(TaskKey(story.run.dag_id, story.run.run_id, *failed), "failed")
    story.finish()

    assert stated(ledger, story, *succeeded) == (TaskState.SUCCEEDED, None)
    assert stated(ledger, story, *failed)[0] is TaskState.FAILED
    assert str(airflow.run(story.run).state) == "failed"  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [[1], {"a": 1}, ()], ids=repr)
def test_what_airflow_maps_over_passes(value: Any) -> None:
    check_pushed(value, apart=False, mapped_over=True, most=1)


def test_only_what_airflow_looks_at_is_looked_at() -> None:
    check_pushed("text", apart=False, mapped_over=False, most=0)
    check_pushed(None, apart=True, mapped_over=False, most=0)
    with pytest.raises(ValueRefused, match="over 1 at most"):
        check_pushed([1, 2], apart=False, mapped_over=True, most=1)
