"""The sales pipeline as Airflow sees it: its tasks, its asset, and its days around a change of the clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Param
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DagRunInfo, TimeRestriction

from louver.builder import GraphBuilder, NodeRef
from louver_provider.decorators import workflow
from louver_provider.run_times import RUN_TIMES, run_times
from shop.etl import pipeline
from shop.etl.days import TIME_ZONE, bounds, day_of

PIPELINES = {
    "etl_sales": pipeline.etl_sales,
    "etl_late_sales": pipeline.etl_late_sales,
    "etl_report": pipeline.etl_report,
}
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def bag(dags_folder: Path) -> DagBag:
    return DagBag(dag_folder=str(dags_folder))


def serialized(dag: DAG) -> Any:
    """The Dag as the scheduler has it."""
    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


@pytest.mark.parametrize("name", PIPELINES)
def test_the_graph_is_the_definition(bag: DagBag, name: str) -> None:
    dag, definition = bag.dags[name], PIPELINES[name].definition()
    assert bag.import_errors == {}
    assert set(dag.task_ids) == {*definition.names, "compensate", "outcome"}
    for node in definition.nodes:
        task = dag.get_task(node.name)
        assert (task.upstream_task_ids, task.is_mapped) == (set(node.upstream), node.mapped)


def test_the_partitions_are_fanned_out(bag: DagBag) -> None:
    mapped = {node.name for node in PIPELINES["etl_sales"].definition().nodes if node.mapped}
    assert mapped == {"validate", "stage", "load"}


def test_what_is_published_schedules_the_report(bag: DagBag) -> None:
    for name in ("etl_sales", "etl_late_sales"):
        outlets = {task.task_id: [asset.name for asset in task.outlets] for task in bag.dags[name].tasks}
        assert {task: names for task, names in outlets.items() if names} == {"publish": ["shop_daily_totals"]}
    condition = serialized(bag.dags["etl_report"]).timetable.asset_condition
    assert [key.name for key, _ in condition.iter_assets()] == ["shop_daily_totals"]


def test_the_day_of_a_scheduled_run_needs_no_param(bag: DagBag) -> None:
    taken = {name for node in PIPELINES["etl_sales"].definition().nodes for name in node.params.values()}
    assert set(bag.dags["etl_sales"].params) == {"day", "batch_seconds"}
    assert taken - set(bag.dags["etl_sales"].params) == {"data_interval_start"}
    assert "data_interval_start" in RUN_TIMES


def worked_at(data_interval_start: datetime | None, logical_date: datetime | None) -> str:
    return f"{data_interval_start} {logical_date}"


def test_a_workflow_in_a_dag_file_needs_no_param_for_them_either() -> None:
    def at_its_time(wf: GraphBuilder, region: Any, data_interval_start: Any, logical_date: Any) -> NodeRef:
        times = {"data_interval_start": data_interval_start, "logical_date": logical_date}
        return wf.step("work", worked_at, kwargs=times)

    dag = workflow(schedule="@daily")(at_its_time)(region="berlin")
    assert set(dag.params) == {"region"}


def test_a_param_of_that_name_is_the_authors() -> None:
    def by_hand(wf: GraphBuilder, logical_date: Any) -> NodeRef:
        times = {"data_interval_start": None, "logical_date": logical_date}
        return wf.step("work", worked_at, kwargs=times)

    dag = workflow(params={"logical_date": Param("2026-03-29", type="string")})(by_hand)()
    assert dag.params["logical_date"] == "2026-03-29"


def test_run_times_are_plain_moments_in_utc_or_none() -> None:
    class Run:
        logical_date = pendulum.datetime(2026, 3, 29, tz=TIME_ZONE)
        data_interval_start = None

    given = run_times({"dag_run": Run()})
    assert given == {
        "logical_date": datetime(2026, 3, 28, 23, tzinfo=timezone.utc),
        "data_interval_start": None,
        "data_interval_end": None,
    }
    assert type(given["logical_date"]) is datetime
    assert given["logical_date"].tzinfo is timezone.utc


# Schedules


def runs(dag: DAG, first: date, last: date) -> Iterator[DagRunInfo]:
    """The runs of the Dag's schedule over some local days, as a back-fill makes them."""
    start = pendulum.datetime(first.year, first.month, first.day, tz=TIME_ZONE)
    end = pendulum.datetime(last.year, last.month, last.day, 23, 59, tz=TIME_ZONE)
    info = None
    while True:
        info = dag.timetable.next_dagrun_info_v2(
            last_dagrun_info=info, restriction=TimeRestriction(start, end, catchup=True)
        )
        if info is None:
            return
        yield info


@pytest.mark.parametrize(
    ("first", "changing", "hours"),
    [(date(2026, 3, 26), date(2026, 3, 29), 23), (date(2026, 10, 22), date(2026, 10, 25), 25)],
)
def test_each_day_comes_once_and_the_days_meet_without_a_gap(
    bag: DagBag, first: date, changing: date, hours: int
) -> None:
    days = [first + timedelta(days=number) for number in range(7)]
    made = list(runs(serialized(bag.dags["etl_sales"]), days[0], days[-1]))
    intervals = [info.data_interval for info in made]
    assert [day_of(interval.start) for interval in intervals] == days
    assert [(interval.start, interval.end) for interval in intervals] == [bounds(day) for day in days]
    assert [before.end for before in intervals[:-1]] == [after.start for after in intervals[1:]]
    assert {day: bounds(day)[1] - bounds(day)[0] for day in days} == {
        day: (hours if day == changing else 24) * HOUR for day in days
    }
    # A run begins when its day is over.
    assert [info.run_after for info in made] == [interval.end for interval in intervals]


def test_the_night_run_comes_once_a_night_though_its_hour_is_missing_or_there_twice(bag: DagBag) -> None:
    night = serialized(bag.dags["etl_late_sales"])
    for first in (date(2026, 3, 27), date(2026, 10, 23)):
        days = [first + timedelta(days=number) for number in range(5)]
        assert [day_of(info.run_after) for info in runs(night, days[0], days[-1])] == days


def test_catch_up_makes_the_days_of_the_sample_and_then_none(bag: DagBag) -> None:
    dag = serialized(bag.dags["etl_sales"])
    restriction, days, info = dag._time_restriction, [], None
    assert restriction.catchup is True
    for _ in range(10):
        info = dag.timetable.next_dagrun_info_v2(last_dagrun_info=info, restriction=restriction)
        if info is None:
            break
        days.append(day_of(info.data_interval.start))
    assert days == [date(2026, 10, 24), date(2026, 10, 25), date(2026, 10, 26)]
