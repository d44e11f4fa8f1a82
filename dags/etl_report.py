"""Weekly totals, made anew whenever daily ones were published: a Dag that an asset schedules, not a clock."""

from __future__ import annotations

from airflow.sdk import Asset

from louver_provider.dag_builder import build_dag
from shop.etl.pipeline import etl_report

etl_report_dag = build_dag(
    etl_report.definition(),
    tasks=etl_report.tasks,
    schedule=[Asset("shop_daily_totals")],
    max_active_runs=1,
    description="Weekly totals of the sales that were published.",
    tags=["louver", "etl"],
    doc_md=__doc__,
)
