"""A real Airflow with buckets, and a Dag that is routed into them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow_home import ROOT, AirflowHome

__all__ = ["OWNERS", "bucketed_home"]

OWNERS = "node-a:0-20, node-b:21-60"
"""Of 64 buckets; nobody owns the last three."""


@contextmanager
def bucketed_home(path: Path, settings: Mapping[str, str] | None = None) -> Iterator[AirflowHome]:
    """
    The Airflow, running.

    :param settings: more of them.
    """
    routed = {
        "AIRFLOW__LOUVER__BUCKETS": "2020-01-01:16, 2026-01-01:64",
        "AIRFLOW__LOUVER__BUCKET_OWNERS": OWNERS,
        "AIRFLOW__LOUVER__BUCKET_SLOTS": "2",
    }
    home = AirflowHome(path, settings={**routed, **(settings or {})}, say=print)
    home.prepare()
    shutil.copytree(ROOT / "tests" / "integration" / "bucketed", home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=["bucketed"]):
        made = home.cli("pools", "set", "own", "1", "of a task's own")
        if made.code:
            raise RuntimeError(made.stderr)
        yield home
