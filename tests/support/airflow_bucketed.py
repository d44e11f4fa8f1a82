"""A real Airflow with buckets, and Dags that are routed into them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_home import ROOT, AirflowHome

__all__ = ["EPOCHS", "OWNERS", "bucketed_home", "restarted", "set_slots", "task_instances"]

EPOCHS = "2020-01-01:16, 2026-01-01:64"
"""How many buckets there are; 64 for every run of a test."""

OWNERS = "node-a:0-20, node-b:21-60"
"""Of 64 buckets; nobody owns the last three."""


@contextmanager
def bucketed_home(path: Path, settings: Mapping[str, str] | None = None) -> Iterator[AirflowHome]:
    """
    The Airflow, running.

    :param settings: more of them.
    """
    routed = {
        "AIRFLOW__LOUVER__BUCKETS": EPOCHS,
        "AIRFLOW__LOUVER__BUCKET_OWNERS": OWNERS,
        "AIRFLOW__LOUVER__BUCKET_SLOTS": "2",
    }
    home = AirflowHome(path, settings={**routed, **(settings or {})}, say=print)
    home.prepare()
    shutil.copytree(ROOT / "tests" / "integration" / "bucketed", home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=["bucketed", "crowd"]):
        made = home.cli("pools", "set", "own", "1", "of a task's own")
        if made.code:
            raise RuntimeError(made.stderr)
        yield home


@contextmanager
def restarted(home: AirflowHome, epochs: str) -> Iterator[AirflowHome]:
    """
    The same Airflow, stopped and started again with other epochs; at the end it is stopped for good.

    :param epochs: as ``[louver] buckets`` has them.
    """
    kept = {
        name: value
        for name, value in home.env().items()
        if name.startswith("AIRFLOW__LOUVER__") or name == "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
    }
    home.stop()
    changed = AirflowHome(home.path, settings={**kept, "AIRFLOW__LOUVER__BUCKETS": epochs}, say=print)
    try:
        changed.start(migrate=False)
        yield changed
    finally:
        changed.stop()


def set_slots(home: AirflowHome, pool: str, slots: int) -> None:
    """Give a pool so many slots, as a person does in the UI."""
    body = {"pool": pool, "slots": slots, "include_deferred": False}
    home.rest.request("PATCH", f"/api/v2/pools/{pool}?update_mask=slots", body).expect(200)


def task_instances(home: AirflowHome, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Those of a run, as the API shows them; at most 100."""
    path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
    found: list[dict[str, Any]] = home.rest.get(path)["task_instances"]
    return found
