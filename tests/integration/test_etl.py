"""The sales pipeline on a real Airflow: its days by catch-up and back-fill, once and again; its report."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest
from airflow_home import AirflowHome
from airflow_rest import FINISHED
from backfills import create_backfill

SALES, REPORT = "etl_sales", "etl_report"
SPRING = "2026-03-28T23:00:00Z"
"""Where Sunday 2026-03-29 begins in Berlin; it is an hour short."""
AUTUMN = "2026-10-24T22:00:00Z"
SECONDS = 240.0

pytestmark = pytest.mark.integration


def runs(airflow: AirflowHome, dag_id: str = SALES) -> dict[str, dict[str, Any]]:
    found = airflow.rest.get(f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
    return {run["data_interval_start"]: run for run in found}


def settled(airflow: AirflowHome, wanted: Callable[[dict[str, dict[str, Any]]], bool]) -> dict[str, Any]:
    """The pipeline's runs, once they are all over and as wanted."""

    def over() -> dict[str, Any] | None:
        found = runs(airflow)
        return found if wanted(found) and {run["state"] for run in found.values()} <= set(FINISHED) else None

    return dict(airflow.wait_for("the pipeline's runs", over, timeout=SECONDS))


def backfill(airflow: AirflowHome, *more: str) -> None:
    create_backfill(airflow, SALES, "--from-date", SPRING, "--to-date", SPRING, *more)


def rows(airflow: AirflowHome, query: str) -> list[tuple[Any, ...]]:
    path = airflow.shop_db.with_name("warehouse.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30.0)) as warehouse:
        return list(warehouse.execute(query))


def unpause(airflow: AirflowHome, dag_id: str) -> None:
    airflow.rest.request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False}).expect(200)


@pytest.fixture(scope="module")
def days(airflow: AirflowHome) -> dict[str, Any]:
    """A day filled back, and the three of the sample's autumn caught up with."""
    airflow.wait_for("the pipeline's Dags", lambda: {SALES, REPORT} <= airflow.rest.dag_ids())
    backfill(airflow)
    unpause(airflow, SALES)
    return settled(airflow, lambda found: len(found) == 4)


def hours(run: dict[str, Any]) -> float:
    start, end = (
        datetime.fromisoformat(run[name].replace("Z", "+00:00"))
        for name in ("data_interval_start", "data_interval_end")
    )
    return (end - start).total_seconds() / 3600


def test_each_day_has_one_run_and_its_own_length(days: dict[str, Any]) -> None:
    assert {run["state"] for run in days.values()} == {"success"}
    assert [hours(run) for _, run in sorted(days.items())] == [23, 24, 25, 24]
    kinds = {start: run["run_type"] for start, run in days.items()}
    assert (kinds.pop(SPRING), set(kinds.values())) == ("backfill", {"scheduled"})


def test_each_partition_is_loaded_once_under_its_own_day(airflow: AirflowHome, days: dict[str, Any]) -> None:
    found = rows(airflow, "SELECT day, count(*), max(version), max(undone) FROM loads GROUP BY day")
    assert found == [(day, 3, 1, 0) for day in ("2026-03-29", "2026-10-24", "2026-10-25", "2026-10-26")]


def test_the_hour_that_is_there_twice_is_counted_twice(airflow: AirflowHome, days: dict[str, Any]) -> None:
    found = rows(
        airflow,
        "SELECT sold_at FROM current_sales WHERE sale_id IN ('BER-1025-901', 'BER-1025-902') ORDER BY 1",
    )
    assert found == [("2026-10-25T00:30:00+00:00",), ("2026-10-25T01:30:00+00:00",)]


def test_the_asset_starts_the_report(airflow: AirflowHome, days: dict[str, Any]) -> None:
    (cents,) = rows(airflow, "SELECT sum(cents) FROM daily_totals")
    airflow.wait_for(
        "the weekly totals",
        lambda: rows(airflow, "SELECT sum(cents) FROM weekly_totals") == [cents],
        timeout=SECONDS,
    )
    found = airflow.rest.get(f"/api/v2/dags/{REPORT}/dagRuns?limit=100")["dag_runs"]
    assert {run["run_type"] for run in found} == {"asset_triggered"}


def test_the_same_day_again_loads_nothing_and_counts_the_same(
    airflow: AirflowHome, days: dict[str, Any]
) -> None:
    queries = ("SELECT * FROM loads", "SELECT * FROM daily_totals", "SELECT * FROM current_sales")
    before = [sorted(rows(airflow, query)) for query in queries]
    began = days[SPRING]["start_date"]
    backfill(airflow, "--reprocess-behavior", "completed")
    again = settled(airflow, lambda found: found[SPRING]["start_date"] not in (None, began))
    assert again[SPRING]["state"] == "success"
    assert again[SPRING]["dag_run_id"] == days[SPRING]["dag_run_id"]
    assert [sorted(rows(airflow, query)) for query in queries] == before
