"""
The workflows: what runs when. Two that differ in where their partitions come from, and a report behind them.

Nothing of Airflow is in here, so a test runs them embedded; ``dags/etl_sales.py`` gives them schedules.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from louver.builder import GraphBuilder, NodeRef, workflow
from louver.policies import RetryPolicy
from louver.timeouts import Timeouts
from shop.etl import quality, report, sales

__all__ = ["etl_late_sales", "etl_report", "etl_sales"]

_RETRY = RetryPolicy(max_attempts=3, delay=timedelta(seconds=1))
_REVIEW_SECONDS = 7 * 24 * 3600.0


@workflow(version="1.0.0", retry=_RETRY)
def etl_sales(wf: GraphBuilder, day: Any, data_interval_start: Any, batch_seconds: Any) -> NodeRef:
    """The sales of one day: of the run's data interval, or of ``day`` where that is given."""
    arrived = wf.step(
        "extract", sales.extract, kwargs={"day": day, "data_interval_start": data_interval_start}
    )
    return _loaded(wf, arrived, batch_seconds)


@workflow(version="1.0.0", retry=_RETRY)
def etl_late_sales(wf: GraphBuilder, batch_seconds: Any) -> NodeRef:
    """What came, or came anew, after its day was loaded."""
    return _loaded(wf, wf.step("find_late", sales.find_late), batch_seconds)


@workflow(version="1.0.0", retry=_RETRY)
def etl_report(wf: GraphBuilder) -> NodeRef:
    """Weekly totals, whenever daily ones were published."""
    return wf.step("weekly_totals", report.weekly_totals)


def _loaded(wf: GraphBuilder, partitions: NodeRef, batch_seconds: Any) -> NodeRef:
    """From a list of partitions to published totals."""
    checked = wf.map("validate", sales.validate, over=partitions, param="partition")
    gate = wf.branch("quality_gate", quality.quality_gate, deps={"checked": checked})
    accepted = wf.step("accept", quality.accept, deps={"checked": checked}, after=[gate])
    review = wf.approve(
        "review",
        of="sign_off",
        payload=quality.review_intent,
        deps={"checked": checked},
        after=[gate],
        expires_after=_REVIEW_SECONDS,
    )
    signed_off = wf.step("sign_off", quality.sign_off, deps={"checked": checked}, approval=review)
    released = wf.join(
        "release", quality.release, deps=[accepted, signed_off], collect="ways", join="any_succeeded"
    )
    staged = wf.map(
        "stage",
        sales.stage,
        over=released,
        param="partition",
        kwargs={"batch_seconds": batch_seconds},
        timeouts=Timeouts(attempt=timedelta(hours=1), idle=timedelta(minutes=5)),
    )
    loaded = wf.map("load", sales.load, over=staged, param="partition")
    totals = wf.step("aggregate", sales.aggregate, deps={"loads": loaded})
    return wf.step("publish", sales.publish, deps={"totals": totals})
