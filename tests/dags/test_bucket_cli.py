"""``airflow louver buckets`` and ``ps --bucket``, over Airflow's real tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.net import get_hostname
from airflow.utils.session import create_session
from sqlalchemy import delete, select, update
from support.airflow_rows import AirflowRows
from support.bucketed import bucketed

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver.sessions import Claim
from louver.states import Source
from louver.steps import run_start
from louver_provider.buckets.pools import describe_pool
from louver_provider.buckets.routes import DEFAULT_POOL

Louver = Callable[..., tuple[int, str, str]]
Rows = Callable[..., list[dict[str, Any]]]

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
WORK = Definition(name="work", version="1", nodes=[Step(name="one", task="json:dumps")])


@pytest.fixture(scope="module")
def deployed() -> Iterator[AirflowRows]:
    with time_machine.travel(NOW, tick=False):
        found = AirflowRows()
        with DAG("work", schedule=None) as dag:
            for name in ("one", "two", "three", "four", "five"):
                EmptyOperator(task_id=name)
        found.deploy(dag)
        yield found
        found.clear()


@pytest.fixture
def airflow(deployed: AirflowRows) -> Iterator[AirflowRows]:
    yield deployed
    deployed.clear()
    with create_session(scoped=False) as session:
        session.execute(delete(Pool).where(Pool.pool != DEFAULT_POOL))
        session.scalars(select(Pool)).one().slots = 128


def have(name: str, slots: int, description: str | None) -> None:
    with create_session(scoped=False) as session:
        session.add(Pool(pool=name, slots=slots, description=description, include_deferred=False))


def slots() -> dict[str, int]:
    with create_session(scoped=False) as session:
        return dict(tuple(row) for row in session.execute(select(Pool.pool, Pool.slots)))


def test_apply_makes_and_resizes_its_own_pools_alone(
    airflow: AirflowRows, louver: Louver, rows_of: Rows
) -> None:
    have("bucket_00", 3, describe_pool(0))
    have("bucket_01", 4, describe_pool(1))
    have("eft", 9, None)
    with bucketed(buckets=3, bucket_slots="4, 2:1"):
        made = rows_of("buckets", "apply", "--dry-run")
        assert slots() == {DEFAULT_POOL: 128, "bucket_00": 3, "bucket_01": 4, "eft": 9}
        assert [(row["pool"], row["change"], row["done"]) for row in made] == [
            ("bucket_00", "resize", "no"),
            ("bucket_02", "create", "no"),
        ]
        made = rows_of("buckets", "apply")
        assert [(row["pool"], row["slots"], row["wanted"], row["done"]) for row in made] == [
            ("bucket_00", "3", "4", "yes"),
            ("bucket_02", None, "1", "yes"),
        ]
        assert rows_of("buckets", "apply") == []
    assert slots() == {DEFAULT_POOL: 128, "bucket_00": 4, "bucket_01": 4, "bucket_02": 1, "eft": 9}
    with create_session(scoped=False) as session:
        assert not session.scalars(select(Pool).filter_by(pool="bucket_02")).one().include_deferred


def test_an_empty_pool_table_is_no_trouble_and_the_default_pool_is_not_made(
    airflow: AirflowRows, rows_of: Rows
) -> None:
    """Case A02."""
    with create_session(scoped=False) as session:
        session.execute(delete(Pool))
    try:
        with bucketed(buckets=2):
            rows_of("buckets", "apply")
        assert set(slots()) == {"bucket_00", "bucket_01"}
    finally:
        have(DEFAULT_POOL, 128, "Default pool")


def test_a_drained_bucket_is_shown_and_stays_drained_until_that_is_asked_for(
    airflow: AirflowRows, rows_of: Rows
) -> None:
    have("bucket_00", 0, describe_pool(0))
    with bucketed(buckets=2):
        assert [row["state"] for row in rows_of("buckets")] == ["drained", "missing"]
        assert [row["change"] for row in rows_of("buckets", "apply")] == ["drained", "create"]
        assert slots()["bucket_00"] == 0
        assert [row["change"] for row in rows_of("buckets", "apply", "--undrain")] == ["undrain"]
        assert [row["state"] for row in rows_of("buckets")] == ["open", "open"]
    assert slots()["bucket_00"] == 8


def test_a_pool_of_somebody_else_is_told_and_left_alone(airflow: AirflowRows, louver: Louver) -> None:
    have("bucket_00", 3, "by hand")
    with bucketed(buckets=1):
        code, out, err = louver("buckets", "apply", "--output", "plain")
    assert (code, err) == (1, "")
    assert "foreign" in out
    assert slots()["bucket_00"] == 3


def test_each_bucket_shows_what_is_going_on_in_it(airflow: AirflowRows, rows_of: Rows) -> None:
    with bucketed(bucket_owners="node-a:0-20"):
        rows_of("buckets", "apply")
        run = RunKey("work", "r")
        airflow.run(run, conf={"tenant": "tenant-A"})
        ago = {name: NOW - timedelta(seconds=seconds) for name, seconds in (("two", 40), ("three", 90))}
        airflow.show(TaskKey("work", "r", "one"), "running", pool_slots=3)
        airflow.show(TaskKey("work", "r", "two"), "queued", scheduled_dttm=ago["two"])
        airflow.show(TaskKey("work", "r", "three"), "scheduled", scheduled_dttm=ago["three"])
        airflow.show(TaskKey("work", "r", "four"), "awaiting_input")
        airflow.show(TaskKey("work", "r", "five"), "success")
        rows = rows_of("buckets")
        (busy,) = rows_of("buckets", "--busy")
    assert len(rows) == 64
    assert [row["bucket"] for row in rows if row["owner"] is None] == [
        str(bucket) for bucket in range(21, 64)
    ]
    assert busy == {
        "bucket": "7",
        "pool": "bucket_07",
        "state": "open",
        "owner": "node-a",
        "slots": "8",
        "taken": "4",
        "running": "1",
        "queued": "1",
        "waiting": "1",
        "parked": "1",
        "oldest_wait": "90s",
    }
    assert busy in rows


@pytest.mark.parametrize(
    "arguments", [("--dry-run",), ("list", "--undrain"), ("apply", "--busy"), ("remove",)]
)
def test_switches_that_do_not_belong_together_are_bad_usage(
    louver: Louver, arguments: tuple[str, ...]
) -> None:
    with bucketed():
        assert louver("buckets", *arguments)[0] == 2


def test_without_buckets_the_command_says_what_to_set(louver: Louver) -> None:
    code, out, err = louver("buckets")
    assert (code, out) == (1, "")
    assert "set [louver] buckets" in err


# ps


@pytest.fixture
def busy(airflow: AirflowRows, ledger: Ledger) -> AirflowRows:
    """A run of each tenant, with one step begun."""
    with bucketed():
        for run_id, tenant in (("a", "tenant-A"), ("b", "tenant-B")):
            run = RunKey("work", run_id)
            marker = airflow.run(run, conf={"tenant": tenant})
            ledger.open_run(run_start(WORK, run, marker=marker), now=NOW)
            claim = Claim(try_number=1, max_tries=1, process="p", source=Source.WORKER)
            ledger.open_task(TaskKey("work", run_id, "one"), claim, now=NOW)
    return airflow


def test_ps_shows_the_tasks_of_one_bucket(busy: AirflowRows, rows_of: Rows) -> None:
    with bucketed():
        assert [row["run_id"] for row in rows_of("ps")] == ["a", "b"]
        assert [row["run_id"] for row in rows_of("ps", "--bucket", "7")] == ["a"]
        assert rows_of("ps", "--bucket", "8") == []


def test_a_run_is_in_its_bucket_though_all_its_tasks_name_pools_of_their_own(
    busy: AirflowRows, rows_of: Rows
) -> None:
    with create_session(scoped=False) as session:
        session.execute(update(TaskInstance).values(pool="eft"))
    with bucketed():
        assert [row["run_id"] for row in rows_of("ps", "--bucket", "7")] == ["a"]
        assert [row["run_id"] for row in rows_of("ps", "--bucket", "28")] == ["b"]
    with bucketed(bucket_key="nowhere"):
        assert rows_of("ps", "--bucket", "7") == []


def test_ps_shows_the_tasks_of_this_nodes_buckets(busy: AirflowRows, rows_of: Rows) -> None:
    with bucketed(bucket_owners=f"node-a:0-20, {get_hostname()}:21-63"):
        assert [row["run_id"] for row in rows_of("ps", "--mine")] == ["b"]
        assert rows_of("ps", "--mine", "--bucket", "7") == []


def test_ps_says_why_it_cannot_tell(busy: AirflowRows, louver: Louver) -> None:
    with bucketed(bucket_owners="node-a:0-20"):
        code, _, err = louver("ps", "--mine")
        assert (code, "owns no buckets; [louver] bucket_owners names node-a:0-20" in err) == (1, True)
        assert louver("ps", "--bucket", "64")[0] == 2
    code, _, err = louver("ps", "--bucket", "7")
    assert (code, "set [louver] buckets" in err) == (1, True)
