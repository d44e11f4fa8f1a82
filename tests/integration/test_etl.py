"""
The sales pipeline on a real Airflow: its days by catch-up and back-fill, once and again; a day that a person
has to look at, and what comes after its day was loaded; its report.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest
from airflow_home import ROOT, AirflowHome
from airflow_rest import FINISHED
from backfills import create_backfill

SALES, LATE, REPORT = "etl_sales", "etl_late_sales", "etl_report"
SPRING = "2026-03-28T23:00:00Z"
"""Where Sunday 2026-03-29 begins in Berlin; it is an hour short."""
AUTUMN = "2026-10-24T22:00:00Z"
DOUBTED = "2026-03-30"
"""One of its files has too many broken rows."""
COMES_LATE = "berlin"
"""Another one."""
SAMPLE = ROOT / "include" / "shop" / "etl" / "data" / "landing"
SECONDS = 240.0

pytestmark = pytest.mark.integration


def runs(airflow: AirflowHome) -> dict[str, dict[str, Any]]:
    """Those of days; one that was started by hand has no interval."""
    found = airflow.rest.get(f"/api/v2/dags/{SALES}/dagRuns?limit=100")["dag_runs"]
    return {run["data_interval_start"]: run for run in found if run["run_type"] != "manual"}


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
    """A day filled back, and the three of the sample's autumn caught up with; another one asks a person."""
    landing = airflow.path / "landing"
    for day in ("2026-03-29", DOUBTED, "2026-10-24", "2026-10-25", "2026-10-26"):
        shutil.copytree(SAMPLE / day, landing / day)
    (landing / DOUBTED / f"{COMES_LATE}.csv").unlink()
    airflow.wait_for("the pipeline's Dags", lambda: {SALES, LATE, REPORT} <= airflow.rest.dag_ids())
    backfill(airflow)
    unpause(airflow, SALES)
    airflow.rest.trigger(SALES, {"day": DOUBTED}, run_id="doubted")
    return settled(airflow, lambda found: len(found) == 4)


@pytest.fixture(scope="module")
def reviewed(airflow: AirflowHome, days: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The doubted day, after a person has allowed it; what was loaded of it before they did."""

    def asks() -> bool:
        states = airflow.rest.task_states(SALES, "doubted")
        assert states["outcome"] not in FINISHED, states
        return states["review"] == "awaiting_input"

    airflow.wait_for("the quality gate to ask", asks, timeout=SECONDS)
    before = loads(airflow, DOUBTED)
    airflow.rest.answer(SALES, "doubted", "review", "Approve").expect(200)
    airflow.wait_for(
        "the doubted day", lambda: airflow.rest.run_state(SALES, "doubted") in FINISHED, timeout=SECONDS
    )
    return before


def loads(airflow: AirflowHome, day: str) -> list[tuple[Any, ...]]:
    found = rows(airflow, "SELECT day, region, version, undone FROM loads ORDER BY region")
    return [load[1:] for load in found if load[0] == day]


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
    found = rows(
        airflow,
        "SELECT day, count(*), max(version), max(undone) FROM loads "
        f"WHERE day != '{DOUBTED}' GROUP BY day ORDER BY day",
    )
    assert found == [(day, 3, 1, 0) for day in ("2026-03-29", "2026-10-24", "2026-10-25", "2026-10-26")]


def test_the_hour_that_is_there_twice_is_counted_twice(airflow: AirflowHome, days: dict[str, Any]) -> None:
    found = rows(
        airflow,
        "SELECT sold_at FROM current_sales WHERE sale_id IN ('BER-1025-901', 'BER-1025-902') ORDER BY 1",
    )
    assert found == [("2026-10-25T00:30:00+00:00",), ("2026-10-25T01:30:00+00:00",)]


def test_a_day_with_too_many_broken_rows_is_loaded_once_a_person_has_allowed_it(
    airflow: AirflowHome, reviewed: list[tuple[Any, ...]]
) -> None:
    assert reviewed == []
    assert airflow.rest.run_state(SALES, "doubted") == "success"
    assert loads(airflow, DOUBTED) == [("hamburg", 1, 0), ("koeln", 1, 0)]
    states = airflow.rest.task_states(SALES, "doubted")
    assert (states["accept"], states["review"], states["sign_off"]) == ("skipped", "success", "success")


def test_a_partition_that_comes_late_is_loaded_alone(
    airflow: AirflowHome, reviewed: list[tuple[Any, ...]]
) -> None:
    before = rows(airflow, "SELECT * FROM loads ORDER BY key")
    shutil.copy(SAMPLE / DOUBTED / f"{COMES_LATE}.csv", airflow.path / "landing" / DOUBTED)
    # Airflow may make last night's run besides, when it is unpaused; then the second one finds nothing.
    unpause(airflow, LATE)
    airflow.rest.trigger(LATE, {})

    def over() -> dict[str, str] | None:
        found = airflow.rest.get(f"/api/v2/dags/{LATE}/dagRuns?limit=100")["dag_runs"]
        states = {run["dag_run_id"]: run["state"] for run in found}
        return states if set(states.values()) <= set(FINISHED) else None

    ended = airflow.wait_for("the late partition", over, timeout=SECONDS)

    assert set(ended.values()) == {"success"}
    after = rows(airflow, "SELECT * FROM loads ORDER BY key")
    assert (len(after), set(before) <= set(after)) == (len(before) + 1, True)
    assert loads(airflow, DOUBTED) == [(COMES_LATE, 1, 0), ("hamburg", 1, 0), ("koeln", 1, 0)]
    totals = rows(airflow, f"SELECT region, sales FROM daily_totals WHERE day = '{DOUBTED}'")
    assert dict(totals)[COMES_LATE] == len((SAMPLE / DOUBTED / f"{COMES_LATE}.csv").read_text().split()) - 1


def test_the_asset_starts_the_report(airflow: AirflowHome, reviewed: list[tuple[Any, ...]]) -> None:
    (cents,) = rows(airflow, "SELECT sum(cents) FROM daily_totals")
    airflow.wait_for(
        "the weekly totals",
        lambda: rows(airflow, "SELECT sum(cents) FROM weekly_totals") == [cents],
        timeout=SECONDS,
    )
    found = airflow.rest.get(f"/api/v2/dags/{REPORT}/dagRuns?limit=100")["dag_runs"]
    assert {run["run_type"] for run in found} == {"asset_triggered"}


def test_the_same_day_again_loads_nothing_and_counts_the_same(
    airflow: AirflowHome, days: dict[str, Any], reviewed: list[tuple[Any, ...]]
) -> None:
    queries = ("SELECT * FROM loads", "SELECT * FROM daily_totals", "SELECT * FROM current_sales")
    before = [sorted(rows(airflow, query)) for query in queries]
    began = days[SPRING]["start_date"]
    backfill(airflow, "--reprocess-behavior", "completed")
    again = settled(airflow, lambda found: found[SPRING]["start_date"] not in (None, began))
    assert again[SPRING]["state"] == "success"
    assert again[SPRING]["dag_run_id"] == days[SPRING]["dag_run_id"]
    assert [sorted(rows(airflow, query)) for query in queries] == before
