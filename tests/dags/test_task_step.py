"""``@task.step`` in plain Dags: what the ledger holds the Dag for, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup, dag, task, task_group
from airflow.serialization.serialized_objects import DagSerialization

from louver.definition_json import read_definition_form
from louver.errors import DefinitionError
from louver.marks import step
from louver.policies import INFRASTRUCTURE_BUDGET, RetryPolicy
from louver.timeouts import Timeouts
from louver_provider.dags import compensation_dag
from louver_provider.decorators import close
from louver_provider.plain_dags import definition_of_dag, workflow_of
from louver_provider.runtime import LouverRetryPolicy


@pytest.fixture
def plain() -> Iterator[DAG]:
    """A Dag that is being made."""
    with DAG(dag_id="plain", schedule=None) as made:
        yield made


def undo(undo: Any) -> None:
    """For steps that can be undone."""


def work(value: Any = 1, ctx: Any = None) -> Any:
    return value


def test_it_is_found_by_airflow() -> None:
    assert task.step(work).function_signature.parameters.keys() == {"value"}


def test_the_definition_holds_the_steps_behind_the_nearest_steps_above_them(plain: DAG) -> None:
    between = task(task_id="between")(lambda x: x)
    first = task.step(task_id="first")(work)()
    second = task.step(task_id="second")(work)()
    last = task.step(task_id="last")(work)(between(between.override(task_id="again")(first)))
    second >> last
    definition = definition_of_dag(plain)
    assert definition.names == ("first", "second", "last")
    assert [node.upstream for node in definition.nodes] == [(), (), ("first", "second")]
    assert definition.node("last").params == {"value": "last.value"}
    assert definition.node("last").task == f"{__name__}:work"


def test_what_was_said_of_the_step_stands_in_its_node(plain: DAG) -> None:
    marked = step(queue="mark", priority=2, on_failure="continue")(lambda x: x)
    task.step(
        task_id="charge",
        retry=RetryPolicy(max_attempts=3, delay=timedelta(seconds=2)),
        timeouts=Timeouts(idle=timedelta(seconds=9)),
        resources={"api": 2},
        compensate=undo,
        on_unknown="retry",
        priority=5,
        pool="db",
    )(marked)(1)
    node = definition_of_dag(plain).node("charge")
    assert (node.retry.max_attempts, node.timeouts.idle) == (3, timedelta(seconds=9))
    assert (node.compensate, node.on_unknown) == (f"{__name__}:undo", "retry")
    assert dict(node.resources) == {"api": 2}
    assert (node.queue, node.priority, node.on_failure) == ("mark", 5, "continue")
    operator = plain.get_task("charge")
    assert (operator.queue, operator.priority_weight, operator.pool) == ("mark", 5, "db")
    assert operator.retries == 2 + INFRASTRUCTURE_BUDGET


def test_a_mapped_step_is_retried_and_expanded(plain: DAG) -> None:
    task.step(task_id="each", retry=RetryPolicy(max_attempts=4))(work).expand(value=[1, 2])

    inner = task.step(task_id="inner")(work)

    @task_group
    def group(value):
        inner(value)

    group.expand(value=[1, 2])
    definition = definition_of_dag(plain)
    assert [node.name for node in definition.nodes if node.mapped] == ["each", "group.inner"]
    assert plain.get_task("each").retries == 3 + INFRASTRUCTURE_BUDGET
    decoded = DagSerialization.from_dict(DagSerialization.to_dict(plain))
    assert decoded.get_task("each").retries == 3 + INFRASTRUCTURE_BUDGET
    assert decoded.get_task("each").has_retry_policy


def test_default_args_hold_only_where_louver_does_not_decide() -> None:
    defaults = {
        **{"execution_timeout": timedelta(seconds=5), "do_xcom_push": False, "multiple_outputs": True},
        **{"retry_exponential_backoff": 2.0, "max_retry_delay": timedelta(seconds=1), "pool": "mine"},
        **{"retries": 9, "retry_delay": timedelta(hours=1), "retry_policy": None},
    }
    with DAG(dag_id="plain", schedule=None, default_args=defaults) as made:
        task.step(task_id="one")(work)()
        task.step(task_id="each")(work).expand(value=[1, 2])
        task.step(task_id="parted", multiple_outputs=True)(work)()
        close()
    each = made.get_task("each")
    assert (each.execution_timeout, each.retry_exponential_backoff, each.retries < 9) == (None, 0, True)
    live = [made.get_task(name) for name in ("one", "parted", "compensate", "outcome")]
    for operator in [*live, each.unmap({"op_kwargs": {"value": 1}})]:
        assert (operator.execution_timeout, operator.do_xcom_push) == (None, True)
        assert operator.multiple_outputs is (operator.task_id == "parted")
        assert operator.retry_exponential_backoff == 0
        assert (operator.retries < 9, type(operator.retry_policy)) == (True, LouverRetryPolicy)
        assert operator.pool == "mine"
    compensation = compensation_dag(default_args=defaults).get_task("compensate")
    assert (compensation.execution_timeout, compensation.retries < 9) == (None, True)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"execution_timeout": timedelta(1)}, "execution_timeout cannot be given.*timeouts"),
        ({"do_xcom_push": False}, "do_xcom_push cannot be given.*xcom_inline_bytes"),
        ({"retry_exponential_backoff": 2.0}, "its retry says"),
        ({"retry_delay": timedelta(1)}, "its retry says"),
        ({"retry_policy": None}, "its retry says"),
    ],
)
def test_what_was_decided_is_not_said_otherwise_later(plain: DAG, argument: Any, words: str) -> None:
    made = task.step(task_id="charge")(work).override(**argument)
    with pytest.raises(DefinitionError, match=rf"charge.*{words}"):
        made(1)
    mapped = task.step(task_id="each")(work).override(**argument).expand(value=[1, 2])
    with pytest.raises(DefinitionError, match=rf"each.*{words}"):
        definition_of_dag(mapped.operator.dag)


def fingerprint(*, plain_tasks: int = 0, retry: int = 1, edge: bool = True, schedule: Any = None) -> str:
    with DAG(dag_id="same", schedule=schedule) as made:
        for number in range(plain_tasks):
            task(task_id=f"plain{number}")(lambda: 1)()
        first = task.step(task_id="first", retry=RetryPolicy(max_attempts=retry))(work)()
        second = task.step(task_id="second")(work)(2)
        if edge:
            first >> second
    return definition_of_dag(made).fingerprint


def test_the_fingerprint_changes_with_the_steps_alone() -> None:
    assert fingerprint() == fingerprint(plain_tasks=3, schedule="@daily")
    assert len({fingerprint(), fingerprint(retry=2), fingerprint(edge=False)}) == 3


def test_closing_tasks_stand_behind_every_step(plain: DAG) -> None:
    with TaskGroup("group"):
        inner = task.step(task_id="inner")(work)()
        outcome = close()
    other = plain.get_task("group.inner")
    assert inner.operator is other
    assert plain.get_task("compensate").upstream_task_ids == {"group.inner"}
    assert outcome.upstream_task_ids == {"compensate"}
    assert all(plain.get_task(name).on_failure_fail_dagrun for name in ("compensate", "outcome"))
    encoded = DagSerialization.to_dict(plain)
    DagSerialization.validate_schema(encoded)
    form = DagSerialization.from_dict(encoded).get_task("outcome").doc_json
    assert read_definition_form(json.loads(form)) == workflow_of(plain).definition
    assert not re.search(r"0x[0-9a-f]{6}", json.dumps(encoded, default=str))


def test_a_function_that_takes_ctx_first_is_called_without_it(plain: DAG) -> None:
    def charge(ctx, order, ds=None):
        return (ctx, order)

    decorated = task.step(charge)
    decorated("the order")
    assert plain.get_task("charge").op_args == ("the order",)
    assert definition_of_dag(plain).node("charge").params == {"order": "charge.order"}
    assert decorated.function("the context", "the order") == ("the context", "the order")
    with pytest.raises(TypeError, match="ctx"):
        decorated(order=1, ctx=2)


async def waits() -> None:
    pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"retries": 3}, ["retries cannot be given", "its retry says"]),
        ({"execution_timeout": timedelta(1)}, ["timeouts"]),
        ({"approval": "ask"}, ["approval cannot be given", "wf.approve"]),
        ({"join": "all_settled"}, ["trigger_rule"]),
        ({"trigger_rule": "one_success"}, ["'one_success' is for plain tasks"]),
        ({"compensate": lambda undo: None}, ["compensate"]),
        ({"resources": {"api": 0}}, ["resources"]),
        ({"on_failure": "shrug"}, ["on_failure"]),
        ({"on_unknown": "retry"}, ["on_unknown"]),
        ({"task_id": "outcome"}, ["closing task"]),
    ],
)
def test_what_a_step_of_a_plain_dag_does_not_take(plain: DAG, arguments: Any, words: list[str]) -> None:
    named = {"task_id": "charge", **arguments}
    with pytest.raises(DefinitionError) as caught:
        task.step(**named)(work)()
    for word in [named["task_id"], *words]:
        assert word in str(caught.value)


def test_other_things_that_are_no_steps(plain: DAG) -> None:
    with pytest.raises(DefinitionError, match=r"waits.*asyncio\.run"):
        task.step(waits)
    with pytest.raises(DefinitionError, match="decorates a function"):
        task.step("charge")
    with pytest.raises(DefinitionError, match=r"charge.*retries cannot be given"):
        task.step(task_id="charge")(work).override(retries=9)()


def test_a_dag_is_closed_once_and_behind_its_steps(plain: DAG) -> None:
    with pytest.raises(DefinitionError, match="plain"):
        close()
    task.step(work)()
    close()
    with pytest.raises(DefinitionError, match="closed once"):
        close()
    with pytest.raises(DefinitionError, match=r"call close\(\) last"):
        task.step(task_id="late")(work)()


@pytest.mark.parametrize("argument", [{"dagrun_timeout": timedelta(hours=1)}, {"fail_fast": True}])
def test_a_dag_that_would_skip_its_closing_tasks_is_not_closed(argument: Any) -> None:
    with DAG(dag_id="hasty", schedule=None, **argument):
        task.step(work)()
        with pytest.raises(DefinitionError, match=rf"hasty.*takes no {next(iter(argument))}"):
            close()


def test_nothing_is_closed_outside_of_a_dag() -> None:
    with pytest.raises(DefinitionError, match=r"close\(dag\)"):
        close()


def test_a_dag_that_no_definition_can_be_called_after() -> None:
    @dag(dag_id="1st", schedule=None)
    def first():
        task.step(work)()

    with pytest.raises(DefinitionError, match="attribute 'name'"):
        close(first())
