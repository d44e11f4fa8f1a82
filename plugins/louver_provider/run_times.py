"""
Parameters of a workflow that the run itself gives: the moments that its schedule made it for.

A definition with a parameter of one of these names needs no ``Param`` for it. A scheduled run, a catch-up and
a back-fill have all of them; a run started by hand has those that it was given, and ``None`` for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from louver.timestamps import to_utc

__all__ = ["RUN_TIMES", "run_times"]

RUN_TIMES = ("logical_date", "data_interval_start", "data_interval_end")


def run_times(context: Mapping[str, Any]) -> dict[str, datetime | None]:
    """Each of :data:`RUN_TIMES`, in UTC; the same in every attempt of the run."""
    run = context["dag_run"]
    return {name: _plain(getattr(run, name, None)) for name in RUN_TIMES}


def _plain(moment: datetime | None) -> datetime | None:
    # A pendulum moment is no typed value; a plain one is.
    return None if moment is None else to_utc(datetime.fromisoformat(moment.isoformat()))
