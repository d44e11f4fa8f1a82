"""How far this machine's clock is from that of Airflow's database."""

from __future__ import annotations

from datetime import datetime

from airflow.utils.session import create_session
from sqlalchemy import text

from louver.clock import SystemClock

__all__ = ["clock_skew"]


def clock_skew() -> float | None:
    """
    Seconds by which this machine's clock is ahead of the database's.

    :returns: None where the database has no clock of its own (SQLite), or does not answer.
    """
    clock = SystemClock()
    try:
        with create_session(scoped=False) as session:
            if session.get_bind().dialect.name != "postgresql":
                return None
            before = clock.now()
            # Not now(): that is when the transaction began.
            theirs: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
            after = clock.now()
    except Exception:
        # The check of the database says so.
        return None
    return round(((before + (after - before) / 2) - theirs).total_seconds(), 3)
