"""That a run could not go where its bucket key would send it is part of what happened to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import select
from support.airflow_by_hand import AirflowByHand
from support.story import act, stage

from louver.definition import Definition
from louver.ledger.names import RunKey
from louver.nodes import Step
from louver_provider.buckets.routes import BucketRouter
from louver_provider.buckets.runs import run_started
from louver_provider.buckets.settings import require_bucket_settings
from louver_provider.dag_builder import build_dag


def dag() -> DAG:
    definition = Definition(name="tenants", version="1", nodes=[Step(name="one", task="tests:act")])
    return build_dag(definition, tasks={"tests:act": act})


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with stage(dag()) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def bucketed(airflow: AirflowByHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "64")
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKET_OWNERS", "node-a:0-3")
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKET_PROVISION", "False")
    yield
    airflow.empty()


def started(airflow: AirflowByHand, conf: dict[str, Any]) -> str:
    """A run that begins to run, as the scheduler tells of it."""
    airflow.trigger("ann", RunKey("tenants", "run-1"))
    with create_session(scoped=False) as session:
        run = session.scalars(select(DagRun).where(DagRun.run_id == "run-1")).one()
        run.conf = conf
        router = BucketRouter.configured(require_bucket_settings())
        run_started(router, run, now=datetime.now(timezone.utc))
    return "run-1"


def told(rows: list[dict[str, Any]], trigger: str) -> list[tuple[str, str, str | None, str]]:
    return [
        (row["airflow"], row["reason"], row["actor"], row["source"])
        for row in rows
        if row["trigger"] == trigger
    ]


def test_a_bad_key_is_told_without_the_key(
    airflow: AirflowByHand, rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    rows = rows_of("history", started(airflow, {"tenant": ["secret"]}), "--dag-id", "tenants")

    (row,) = told(rows, "louver:bucket_key_refused")
    said, reason, actor, source = row
    assert (said, actor, source) == ("bucket key refused", None, "airflow")
    assert "must be a string or an integer, not list" in reason
    assert reason.endswith("its tasks keep their own pools")
    assert "secret" not in json.dumps(rows)


def test_a_bucket_that_nobody_owns_is_told(
    airflow: AirflowByHand, rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    rows = rows_of("history", started(airflow, {"tenant": "tenant-A"}), "--dag-id", "tenants")

    reason = "nobody owns bucket 7; its tasks keep their own queues"
    assert told(rows, "louver:bucket_not_owned") == [("bucket not owned", reason, None, "airflow")]


def test_a_run_that_goes_where_it_belongs_is_told_nothing_of(
    airflow: AirflowByHand, rows_of: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKET_OWNERS", "node-a:0-63")
    rows = rows_of("history", started(airflow, {"tenant": "tenant-A"}), "--dag-id", "tenants")
    assert rows
    assert [row for row in rows if row["trigger"].startswith("louver:bucket")] == []
