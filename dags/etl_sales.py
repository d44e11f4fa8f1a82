"""
Daily sales: extract, validate, a quality gate, then stage and load each partition, add up, publish.

``shop.etl.pipeline`` says what runs when, ``shop.etl.sales`` and ``shop.etl.quality`` what each step does.
``etl_sales`` takes the files of one business day, from midnight to midnight in Berlin; ``etl_late_sales``
takes what came after its day was loaded. Both publish the asset that ``etl_report`` waits for.

They are paused at first. The sample files are of seven days in March, with the end of winter time in it, and
of three in October, with the end of summer time::

    airflow dags unpause etl_sales        # catch-up: the three days in October
    airflow backfill create --dag-id etl_sales --from-date 2026-03-25T23:00:00Z --to-date 2026-03-31T22:00:00Z
"""

from __future__ import annotations

import pendulum
from airflow.sdk import Asset, CronDataIntervalTimetable, CronTriggerTimetable, Param

from louver_provider.dag_builder import build_dag
from shop.etl.days import TIME_ZONE
from shop.etl.pipeline import etl_late_sales, etl_sales

BATCH_SECONDS = Param(
    0.0, type="number", minimum=0, title="Seconds that a batch takes", description="So that you can pause it."
)
TAGS = ["louver", "etl"]
PUBLISHED = {"publish": {"outlets": [Asset("shop_daily_totals")]}}

etl_sales_dag = build_dag(
    etl_sales.definition(),
    tasks=etl_sales.tasks,
    task_arguments=PUBLISHED,
    # Of the run before midnight to the next one, 23 or 25 hours where the clocks change.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone=TIME_ZONE),
    start_date=pendulum.datetime(2026, 10, 24, tz=TIME_ZONE),
    # The sample files end here; files of your own do not, and then neither does the schedule.
    end_date=pendulum.datetime(2026, 10, 26, tz=TIME_ZONE),
    catchup=True,
    max_active_runs=3,
    is_paused_upon_creation=True,
    params={
        "day": Param("", type="string", title="Day", description="As 2026-03-29; else the data interval's."),
        "batch_seconds": BATCH_SECONDS,
    },
    description="The sales of one business day, each partition loaded once.",
    tags=TAGS,
    doc_md=__doc__,
)

etl_late_sales_dag = build_dag(
    etl_late_sales.definition(),
    tasks=etl_late_sales.tasks,
    task_arguments=PUBLISHED,
    # 02:30 does not exist on one day in March and exists twice on one in October; Airflow runs it once each.
    schedule=CronTriggerTimetable("30 2 * * *", timezone=TIME_ZONE),
    start_date=pendulum.datetime(2026, 3, 26, tz=TIME_ZONE),
    # Two at once would look for the same files.
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={"batch_seconds": BATCH_SECONDS},
    description="Partitions that came, or came anew, after their day was loaded.",
    tags=TAGS,
    doc_md=__doc__,
)
