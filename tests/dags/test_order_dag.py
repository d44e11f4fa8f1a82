"""The order workflow as Airflow sees it once its file is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from louver.definition import Definition
from louver.policies import INFRASTRUCTURE_BUDGET


@pytest.fixture(scope="module")
def bag(dags_folder: Path) -> DagBag:
    return DagBag(dag_folder=str(dags_folder))


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> DAG:
    return bag.dags["order_workflow"]


def test_every_dag_file_of_the_project_parses(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert "order_workflow" in bag.dags


def test_a_task_per_node_and_two_closing_tasks(dag: DAG, dags_folder: Path) -> None:
    definition = Definition.from_json((dags_folder / "order.json").read_bytes())
    assert set(dag.task_ids) == {*definition.names, "compensate", "outcome"}


def test_the_graph_is_the_definition(dag: DAG, dags_folder: Path) -> None:
    definition = Definition.from_json((dags_folder / "order.json").read_bytes())
    for node in definition.nodes:
        assert dag.get_task(node.name).upstream_task_ids == set(node.upstream)
    assert dag.get_task("compensate").upstream_task_ids == set(definition.names)
    assert dag.get_task("outcome").upstream_task_ids == {"compensate"}


def test_reserve_and_risk_check_are_in_the_same_ready_batch(dag: DAG) -> None:
    assert dag.get_task("reserve_inventory").upstream_task_ids == {"validate"}
    assert dag.get_task("risk_check").upstream_task_ids == {"validate"}


def test_the_closing_tasks_are_teardowns_that_fail_the_run(dag: DAG) -> None:
    for name in ("compensate", "outcome"):
        task = dag.get_task(name)
        assert task.is_teardown
        assert task.on_failure_fail_dagrun


def test_retries_are_the_steps_own_and_a_budget_for_lost_processes(dag: DAG) -> None:
    assert dag.get_task("validate").retries == INFRASTRUCTURE_BUDGET
    assert dag.get_task("reserve_inventory").retries == 2 + INFRASTRUCTURE_BUDGET


def test_the_form_has_the_fields_of_an_order(dag: DAG) -> None:
    assert set(dag.params) == {"order_id", "customer_id", "currency", "amount", "items"}


def test_the_dag_survives_serialization(dag: DAG) -> None:
    encoded = DagSerialization.to_dict(dag)
    DagSerialization.validate_schema(encoded)
    decoded = DagSerialization.from_dict(encoded)
    assert set(decoded.task_ids) == set(dag.task_ids)
    assert decoded.get_task("outcome").is_teardown


def test_only_the_root_takes_the_event_in(dag: DAG) -> None:
    takes = {task.task_id for task in dag.tasks if getattr(task, "intake", None) is not None}
    assert takes == {"validate"}
