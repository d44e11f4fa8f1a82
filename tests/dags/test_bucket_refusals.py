"""A bad key, and a bucket that nobody owns, are refused where a person submits: by API and by command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import time_machine
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import select
from support.airflow_by_hand import AirflowByHand
from support.bucketed import bucketed

from louver.buckets.keys import BUCKET_REFERENCE
from louver.buckets.policy import BucketPolicy, pool_name
from louver.intake import REFERENCE
from louver.ledger.contract import Ledger

Louver = Callable[..., tuple[int, str, str]]

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
HALF = "node-a:0-20, node-c:40-63"


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with (
        time_machine.travel(NOW, tick=False) as traveller,
        AirflowByHand.up(pass_time=traveller.shift) as by_hand,
    ):
        with DAG("asked", schedule=None) as dag:
            EmptyOperator(task_id="one")
        by_hand.deploy(dag)
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


def ask(airflow: AirflowByHand, conf: Any) -> tuple[int, str]:
    """The status of the answer, and what it says."""
    body = {"dag_run_id": "r", "logical_date": None, "conf": conf}
    answer = airflow.ask("ann", "POST", "/dags/asked/dagRuns", body)
    return answer.status_code, str(answer.json().get("detail", ""))


@pytest.mark.parametrize("key", ["", None, True, 1.5, ["tenant-A"], {"id": "tenant-A"}, "x" * 2**20, "a\0b"])
def test_the_api_refuses_a_bad_key_by_place_and_rule(airflow: AirflowByHand, key: Any) -> None:
    with bucketed():
        status, detail = ask(airflow, {"tenant": key})
    assert status == 422
    assert detail.startswith("conf.tenant: the bucket key ")
    assert detail.endswith("leave it out: then the run's tasks keep their own pools")
    assert len(detail) < 250
    assert airflow.rows.runs("asked") == []


@pytest.mark.parametrize("conf", [None, {}, {"other": 1}, {"tenant": "tenant-A"}, {"tenant": "\U0001f60e"}])
def test_the_api_passes_what_is_in_order(airflow: AirflowByHand, conf: Any) -> None:
    with bucketed():
        assert ask(airflow, conf)[0] == 200
    assert len(airflow.rows.runs("asked")) == 1


def test_a_large_request_passes_whole(airflow: AirflowByHand) -> None:
    conf = {"tenant": "tenant-A", "much": "y" * 3 * 2**20}
    with bucketed():
        assert ask(airflow, conf)[0] == 200
    (run,) = airflow.rows.runs("asked")
    assert run.conf == conf


def test_what_is_no_request_for_a_run_gets_airflows_own_words(airflow: AirflowByHand) -> None:
    with bucketed():
        answer = airflow.ask("ann", "POST", "/dags/asked/dagRuns", ["no", "object"])
        assert (answer.status_code, "bucket" in answer.text) == (422, False)
        assert ask(airflow, ["tenant"])[0] == 422
        assert airflow.ask("ann", "POST", "/dags/nowhere/dagRuns", {"logical_date": None}).status_code == 404


def test_without_buckets_the_api_refuses_nothing(airflow: AirflowByHand) -> None:
    assert ask(airflow, {"tenant": None})[0] == 200


def test_the_api_refuses_a_bucket_that_nobody_owns_and_names_those_who_own_others(
    airflow: AirflowByHand,
) -> None:
    with bucketed(bucket_owners=HALF):
        status, detail = ask(airflow, {"tenant": "tenant-B"})
        assert ask(airflow, {"tenant": "tenant-A"})[0] == 200
    assert status == 422
    assert "nobody owns bucket 28" in detail
    assert HALF in detail
    assert "tenant-B" not in detail


# Submitted with an event

ORDER = json.loads((Path(__file__).resolve().parents[2] / "dags/examples/order_event.json").read_text())
KEY = "customer_id"


@pytest.fixture
def orders(airflow: AirflowByHand, ledger: Ledger, dags_folder: Path) -> AirflowByHand:
    """The order workflow is known."""
    found = DagBag(str(dags_folder / "order_workflow.py"), bundle_path=dags_folder).dags["order_workflow"]
    airflow.deploy(found)
    return airflow


@pytest.fixture
def submit(louver: Louver, tmp_path: Path) -> Louver:
    """``airflow louver submit`` with the example order, changed."""

    def run(**data: Any) -> tuple[int, str, str]:
        file = tmp_path / "event.json"
        file.write_text(json.dumps(ORDER | {"data": ORDER["data"] | data}))
        return louver("submit", "order_workflow", "--event", str(file), "--output", "json")

    return run


def test_a_submitted_run_is_in_its_bucket_and_its_conf_holds_no_key(
    orders: AirflowByHand, submit: Louver
) -> None:
    with bucketed(bucket_key=KEY):
        code, out, err = submit()
    assert (code, err) == (0, ""), out
    (run,) = orders.rows.runs("order_workflow")
    assert set(run.conf) == {REFERENCE, BUCKET_REFERENCE}
    assert ORDER["data"][KEY] not in json.dumps(run.conf)
    bucket = BucketPolicy.of(64).bucket(ORDER["data"][KEY])
    assert bucket is not None
    with create_session(scoped=False) as session:
        query = select(TaskInstance.pool).filter_by(dag_id="order_workflow", run_id=run.run_id)
        assert set(session.scalars(query)) == {pool_name(bucket)}


def test_a_submission_into_a_bucket_that_nobody_owns_leaves_nothing(
    orders: AirflowByHand, ledger: Ledger, submit: Louver
) -> None:
    bucket = BucketPolicy.of(64).bucket(ORDER["data"][KEY])
    with bucketed(bucket_key=KEY, bucket_owners="node-a:64"):
        code, out, err = submit()
    assert (code, out) == (1, "")
    assert f"nobody owns bucket {bucket}" in err
    assert "node-a:64" in err
    assert orders.rows.runs("order_workflow") == []
    with bucketed(bucket_key=KEY):
        code, out, _ = submit()
    assert (code, json.loads(out)[0]["outcome"]) == (0, "accepted")


def test_a_submission_with_a_bad_key_is_refused_in_one_line(orders: AirflowByHand, submit: Louver) -> None:
    with bucketed(bucket_key="items"):
        code, out, err = submit()
    assert (code, out) == (1, "")
    assert err.startswith("airflow louver: conf.items: the bucket key must be a string or an integer")
    assert len(err.splitlines()) == 1
    assert orders.rows.runs("order_workflow") == []
