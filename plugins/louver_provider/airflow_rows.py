"""Rows of Airflow's tables, as far as they tell what happened; see :mod:`louver_provider.airflow_history`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from louver.ledger.names import RunKey

__all__ = ["AirflowRun", "LogRow", "RunRow", "TryRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRow:
    """
    One try of a task, from ``task_instance`` or ``task_instance_history``.

    :param made_at: when Airflow prepared this try: at a clear, after a failure, or with the run.
    :param archived: an earlier try, which nothing changes any more.
    """

    task_id: str
    map_index: int
    try_number: int
    max_tries: int
    state: str | None
    scheduled_at: datetime | None
    queued_at: datetime | None
    start: datetime | None
    end: datetime | None
    updated_at: datetime | None
    hostname: str | None
    made_at: datetime | None
    archived: bool

    def without(self, before: TryRow) -> TryRow:
        """It without the times left in it of the try before, which Airflow overwrites one by one."""

        def own(moment: datetime | None, left: datetime | None) -> datetime | None:
            return None if moment == left else moment

        return replace(
            self,
            scheduled_at=own(self.scheduled_at, before.scheduled_at),
            queued_at=own(self.queued_at, before.queued_at),
            start=own(self.start, before.start),
            end=own(self.end, before.end),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The row of ``dag_run``."""

    state: str | None
    created_at: datetime | None
    queued_at: datetime | None
    start: datetime | None
    end: datetime | None
    clear_number: int
    triggered_by: str | None
    user: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """
    A row of Airflow's audit log.

    :param owner: who asked, where somebody asked for something; the task's owner otherwise.
    :param extra: what was sent along; it may hold anything, so nothing of it is shown that is not known.
    """

    at: datetime
    event: str
    task_id: str | None
    map_index: int | None
    run_id: str | None
    try_number: int | None
    owner: str | None
    extra: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowRun:
    """
    All that Airflow has of a run.

    :param run: None where it has no such run (any more).
    :param tries: of all its tasks, the earlier ones first.
    :param log: in order of time.
    """

    key: RunKey
    run: RunRow | None
    tries: tuple[TryRow, ...]
    log: tuple[LogRow, ...]
