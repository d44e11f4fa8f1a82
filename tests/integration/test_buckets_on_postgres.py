"""Buckets where Airflow's database is on Postgres: the stories whose way leads through what differs there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# A story is told by its test, wherever it happens; pytest gives it the fixtures of this file.
from integration.test_buckets import (
    test_a_bad_key_that_nobody_could_refuse_is_audited_and_the_run_ends_well,
    test_a_drained_bucket_holds_its_tasks_and_is_shown_as_drained,
    test_a_run_stays_in_its_bucket_through_retry_mapping_and_clear,
    test_the_doctor_proves_that_every_component_routes,
    test_the_scheduler_has_made_the_pools,
)
from support.airflow_bucketed import bucketed_home
from support.airflow_on_postgres import postgres_settings

if TYPE_CHECKING:
    from airflow_home import AirflowHome
    from support.postgres import PostgresServer

pytestmark = pytest.mark.integration

__all__ = [
    "test_a_bad_key_that_nobody_could_refuse_is_audited_and_the_run_ends_well",
    "test_a_drained_bucket_holds_its_tasks_and_is_shown_as_drained",
    "test_a_run_stays_in_its_bucket_through_retry_mapping_and_clear",
    "test_the_doctor_proves_that_every_component_routes",
    "test_the_scheduler_has_made_the_pools",
]


@pytest.fixture(scope="module")
def airflow(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    settings = postgres_settings(postgres)
    with bucketed_home(tmp_path_factory.mktemp("buckets-on-postgres"), settings) as home:
        yield home


def test_the_clocks_are_compared_with_the_servers(airflow: AirflowHome) -> None:
    shown = airflow.cli("louver", "doctor", "--all", "--output", "plain")
    assert "4 clocks are within 2 s of the database's" in shown.stdout
