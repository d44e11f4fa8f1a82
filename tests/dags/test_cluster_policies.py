"""The hook itself: it decides from the run alone, touches no database, never raises (cases A12 and A13)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import pytest
from airflow import settings as airflow_settings
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.bucketed import bucketed

from louver.buckets.policy import pool_name
from louver_provider import cluster_policies
from louver_provider.buckets.routes import DEFAULT_POOL
from louver_provider.plugins.louver_plugin import LouverPlugin

#: Names that mean something in conf, and others.
_NAMES = st.sampled_from(["customer", "id", "event", "data", "louver_bucket_key"]) | st.text(max_size=5)

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def task() -> Any:
    with DAG("d", schedule=None) as dag:
        EmptyOperator(task_id="one")
    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).get_task("one")


@pytest.fixture(autouse=True)
def statements() -> Iterator[list[str]]:
    """No statement is sent to any database in the meantime."""
    sent: list[str] = []

    def note(*given: Any) -> None:
        sent.append(given[2])

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)
    assert sent == []


def new(task: Any) -> TaskInstance:
    return TaskInstance(task, run_id="r", map_index=-1, dag_version_id=UUID(int=0))


def run_with(conf: Any, **other: Any) -> DagRun:
    run = DagRun(dag_id="d", run_id="r", run_type=DagRunType.MANUAL, conf=conf, run_after=NOW)
    run.created_at = NOW
    for name, value in other.items():
        setattr(run, name, value)
    return run


def routed(task: Any, run: Any) -> str:
    """The pool after Airflow's own hook was called, as Airflow calls it."""
    ti = new(task)
    airflow_settings.task_instance_mutation_hook(ti, dag_run=run)
    return str(ti.pool)


def test_the_key_in_conf_decides(task: Any) -> None:
    with bucketed():
        assert routed(task, run_with({"tenant": "tenant-A"})) == "bucket_07"
        assert routed(task, run_with({"tenant": "tenant-B"})) == "bucket_28"


def test_the_run_is_not_known_yet(task: Any) -> None:
    with bucketed():
        assert routed(task, None) == DEFAULT_POOL


@pytest.mark.parametrize("conf", [None, {}, [], {"tenant": None}, {"tenant": {}}, {"tenant": "\ud800"}])
def test_nothing_that_stands_in_conf_raises(task: Any, conf: Any) -> None:
    with bucketed():
        assert routed(task, run_with(conf)) == DEFAULT_POOL


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=8,
)


# The fixture that watches for statements spans all examples, which is as it should be.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(_NAMES, _JSON, max_size=5))
def test_whatever_stands_in_conf_the_pool_is_a_buckets_or_the_tasks_own(task: Any, conf: Any) -> None:
    pools = {DEFAULT_POOL, *(pool_name(bucket) for bucket in range(64))}
    with bucketed(bucket_key="customer.id"):
        assert routed(task, run_with(conf)) in pools


def test_nothing_that_is_wrong_with_the_run_raises(task: Any) -> None:
    naive = datetime(2026, 3, 1)  # noqa: DTZ001
    with bucketed(buckets="2026-01-01:64"):
        for run in (object(), run_with({"tenant": "tenant-A"}, created_at=naive)):
            assert routed(task, run) == DEFAULT_POOL


def test_without_a_creation_time_the_time_to_run_counts(task: Any) -> None:
    old = datetime(2025, 3, 1, tzinfo=timezone.utc)
    with bucketed(buckets="2026-01-01:64"):
        assert routed(task, run_with({"tenant": "tenant-A"}, created_at=None)) == "bucket_07"
        assert routed(task, run_with({"tenant": "tenant-A"}, created_at=None, run_after=old)) == DEFAULT_POOL
        assert routed(task, run_with({"tenant": "tenant-A"}, created_at=old)) == DEFAULT_POOL


def test_a_clear_changes_nothing_that_counts(task: Any) -> None:
    later = datetime(2026, 9, 1, tzinfo=timezone.utc)
    with bucketed(buckets="2026-01-01:16, 2026-06-01:64"):
        run = run_with({"tenant": "tenant-B"}, queued_at=later, start_date=later, run_after=later)
        assert routed(task, run) == "bucket_12"


def test_it_is_made_live_once_and_stays(task: Any) -> None:
    hook: Any = airflow_settings.task_instance_mutation_hook
    with bucketed() as router:
        assert cluster_policies.install() is router
        LouverPlugin.on_load()
        assert cluster_policies.installed() is router
        assert not hook.is_noop
        impls = airflow_settings.get_policy_plugin_manager().hook.task_instance_mutation_hook.get_hookimpls()
        assert len(impls) == 1
    assert hook.is_noop


def test_the_plugin_loads_whatever_the_options_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "many")
    LouverPlugin.on_load()
    assert cluster_policies.installed() is None


def test_nothing_else_is_an_attribute_of_the_module() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        cluster_policies.nothing  # noqa: B018
