"""
Two Dags share a resource of which there is one, where Airflow's database and the ledger are on Postgres.

Who waits, and how turns are handed on, leads through what differs there: rows that are locked, transactions
that see of each other only what is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# A story is told by its test, wherever it happens; pytest gives it the fixtures of this file.
from integration.test_shared_resource import (
    SECONDS,
    blocked,
    ended,
    go,
    state,
    stay,
    test_never_two_at_once_though_one_is_killed_and_who_waits_holds_no_slot,
)
from support.airflow_on_postgres import postgres_settings
from support.airflow_sharing import DAGS, sharing_home, triggerer, uses

from louver.ledger import open_ledger

if TYPE_CHECKING:
    from airflow_home import AirflowHome
    from support.postgres import PostgresServer

pytestmark = pytest.mark.integration

__all__ = ["test_never_two_at_once_though_one_is_killed_and_who_waits_holds_no_slot"]


@pytest.fixture(scope="module")
def airflow(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    settings = postgres_settings(postgres)
    with sharing_home(tmp_path_factory.mktemp("sharing-on-postgres"), settings) as home:
        yield home


def test_those_who_wait_are_served_one_by_one_in_the_order_of_asking_by_two_triggerers(
    airflow: AirflowHome,
) -> None:
    runs = {f"line-{number}": DAGS[number % 2] for number in range(5)}
    with triggerer(airflow), triggerer(airflow):
        stay(airflow, runs["line-0"], "line-0")
        for run_id, dag_id in list(runs.items())[1:]:
            airflow.rest.trigger(dag_id, {}, run_id=run_id)
            airflow.wait_for(
                f"{run_id} to wait",
                lambda dag_id=dag_id, run_id=run_id: state(airflow, dag_id, run_id) == "deferred",
                timeout=SECONDS,
            )
        pool = airflow.rest.get("/api/v2/pools/default_pool")
        assert (pool["deferred_slots"], pool["occupied_slots"]) == (4, 1)

        go(airflow, "line-0")
        ended(airflow, runs)

    used = [use for use in uses(airflow) if use[0] in runs]
    assert [run_id for run_id, *_ in used] == list(runs)
    went = [went for *_, went in used]
    came = [came for _, _, came, _ in used]
    assert all(left is not None and left <= entered for left, entered in zip(went, came[1:], strict=False))
    assert blocked(airflow, runs["line-4"], "line-4") == [
        *("queued", "starting", "blocked"),
        *("queued", "starting", "running", "succeeded"),
    ]
    with open_ledger(airflow.ledger_url) as ledger:
        assert ledger.list_permits() == []


def test_both_databases_are_on_the_server(airflow: AirflowHome) -> None:
    assert not airflow.airflow_db.exists()
    assert not airflow.ledger_db.exists()
