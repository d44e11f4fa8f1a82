"""``airflow backfill create``, sent again where SQLite could not lock."""

from __future__ import annotations

from airflow_home import AirflowHome, HomeError
from processes import last_lines

__all__ = ["create_backfill"]

LOCKED_TRIES = 6

CLOSED_SECONDS = 180.0
"""The scheduler looks every half minute whether a back-fill is over."""


def create_backfill(home: AirflowHome, dag_id: str, *arguments: str) -> None:
    """
    Make a back-fill.

    Airflow reads before it writes, in one transaction. On SQLite that fails at once where another process has
    written in between, however long one would wait. Airflow then removes the back-fill, for another try;
    where it cannot, its scheduler closes it two minutes later. A Dag has one open back-fill at a time.

    :param arguments: ``--from-date``, ``--to-date`` and what else the command takes.
    :raises HomeError: where it is refused for another reason, or time after time.
    """
    for _ in range(LOCKED_TRIES):
        home.wait_for(
            "the back-fill before to be closed", lambda: not _open(home, dag_id), timeout=CLOSED_SECONDS
        )
        done = home.cli("backfill", "create", "--dag-id", dag_id, *arguments)
        if done.code == 0:
            return
        if "database is locked" not in done.stderr:
            break
    raise HomeError(f"`airflow backfill create` failed:\n{last_lines(done.stderr, 8)}")


def _open(home: AirflowHome, dag_id: str) -> bool:
    found = home.rest.get(f"/api/v2/backfills?dag_id={dag_id}&limit=100")["backfills"]
    return any(backfill["completed_at"] is None for backfill in found)
