"""
The same stories where Airflow's database, and the ledger beside it, are on a Postgres server.

Those whose way leads through what differs there: locks on rows, times with zones, JSON that refuses what text
takes, transactions that see of each other only what is over. The server is the tests' own; its time zone is
none that could be taken for UTC, and its password has all that is special in a URL.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow_home import AirflowHome

# A story is told by its test, wherever it happens; pytest gives it the fixtures of this file.
from integration.test_control_cli import (
    test_a_paused_step_gives_its_slot_to_another_and_goes_on_where_it_was,
    test_a_step_is_stopped_while_it_runs_while_it_is_parked_and_before_it_starts,
    test_a_step_without_a_checkpoint_pauses_in_place,
    test_people_resume_a_paused_step_under_required_actions,
    test_resumes_at_every_moment_around_the_park_never_strand_a_step,
    test_stopping_a_run_ends_its_request_for_approval,
    test_the_history_of_a_run_puts_ledger_and_airflow_on_one_clock,
)
from integration.test_reconciler import (
    test_a_run_marked_failed_is_compensated,
    test_a_run_whose_tasks_were_deleted_is_compensated_from_outside,
    test_a_start_that_waits_too_long_for_a_full_pool_fails_once,
    test_a_step_that_holds_the_interpreter_is_ended_at_its_limit,
    test_a_task_killed_with_its_supervisor_is_recorded_and_tried_again,
    test_what_was_lost_is_said_once,
)
from integration.test_values import (
    kept,
    test_a_step_gets_equal_values_of_the_same_type,
    test_every_value_is_readable_in_the_ui,
)
from support.airflow_control import Control, controlled
from support.airflow_on_postgres import postgres_settings
from support.airflow_orders import Orders
from support.airflow_place import PLACE_DAGS, Place, Runs, home_of_reconciled

if TYPE_CHECKING:
    from support.postgres import PostgresServer

pytestmark = pytest.mark.integration

__all__ = [
    "kept",
    "test_a_paused_step_gives_its_slot_to_another_and_goes_on_where_it_was",
    "test_a_run_marked_failed_is_compensated",
    "test_a_run_whose_tasks_were_deleted_is_compensated_from_outside",
    "test_a_start_that_waits_too_long_for_a_full_pool_fails_once",
    "test_a_step_gets_equal_values_of_the_same_type",
    "test_a_step_is_stopped_while_it_runs_while_it_is_parked_and_before_it_starts",
    "test_a_step_that_holds_the_interpreter_is_ended_at_its_limit",
    "test_a_step_without_a_checkpoint_pauses_in_place",
    "test_a_task_killed_with_its_supervisor_is_recorded_and_tried_again",
    "test_every_value_is_readable_in_the_ui",
    "test_people_resume_a_paused_step_under_required_actions",
    "test_resumes_at_every_moment_around_the_park_never_strand_a_step",
    "test_stopping_a_run_ends_its_request_for_approval",
    "test_the_history_of_a_run_puts_ledger_and_airflow_on_one_clock",
    "test_what_was_lost_is_said_once",
]


@pytest.fixture(scope="module")
def airflow(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    home = home_of_reconciled(tmp_path_factory.mktemp("on-postgres"), postgres_settings(postgres))
    shutil.copytree(Path(__file__).parent / "dags", home.own_dags, dirs_exist_ok=True)
    # Its step takes the lock of a file.
    (home.own_dags / "locked_ledger.py").unlink()
    with home.kept_running(dags=(*PLACE_DAGS, "values")):
        yield home


@pytest.fixture(scope="module")
def place(airflow: AirflowHome) -> Place:
    return Place(airflow)


@pytest.fixture(scope="module", autouse=True)
def runs(place: Place) -> Runs:
    """Begun before any test: what comes of them takes its time, while others happen."""
    return place.begin()


@pytest.fixture(scope="module", autouse=True)
def begun(airflow: AirflowHome, runs: Runs) -> dict[str, str]:
    return {"values": airflow.rest.trigger("values", {})}


@pytest.fixture(scope="module")
def control(airflow: AirflowHome) -> Iterator[Control]:
    with controlled(airflow) as found:
        yield found


@pytest.fixture(scope="module")
def orders(airflow: AirflowHome, tmp_path_factory: pytest.TempPathFactory) -> Orders:
    return Orders(airflow, tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="module")
def gaps() -> tuple[float, ...]:
    """Before the park, as it lands, and after it: locks differ here, and not the moments."""
    return (0.0, 1.1, 2.0)


def test_both_databases_are_on_the_server(airflow: AirflowHome, postgres: Any) -> None:
    assert not airflow.airflow_db.exists()
    assert not airflow.ledger_db.exists()
    ledger = airflow.ledger_url.rpartition("/")[2]
    found = postgres.execute("SELECT count(*) FROM louver_run", database=ledger)
    assert found[0][0] > 0
