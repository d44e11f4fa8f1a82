"""A real Airflow with Dags that share a resource, and a triggerer that the test starts."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from airflow_home import ROOT, AirflowHome

__all__ = ["DAGS", "Use", "sharing_home", "triggerer", "uses"]

DAGS = ("sharing_one", "sharing_two")

_QUICK = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__LOUVER__RECONCILE_INTERVAL": "1",
    "AIRFLOW__LOUVER__RESOURCES": '{"till": 1}',
    # None of these processes is given up by its lease: their death has to be proven.
    "AIRFLOW__LOUVER__RESOURCE_LEASE": "600",
}

Use = tuple[str, int, float, float | None]
"""Run, process, when it came and when it went."""


@contextmanager
def sharing_home(path: Path, settings: Mapping[str, str] | None = None) -> Iterator[AirflowHome]:
    """
    The Airflow, running, without a triggerer.

    :param settings: more of them.
    """
    seen = os.pathsep.join([str(ROOT / "config"), str(ROOT / "include"), str(path / "dags")])
    home = AirflowHome(path, settings={**_QUICK, "PYTHONPATH": seen, **(settings or {})}, say=print)
    home.prepare()
    shutil.copytree(ROOT / "tests" / "integration" / "shared_resource", home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=DAGS):
        yield home


@contextmanager
def triggerer(home: AirflowHome) -> Iterator[subprocess.Popen[bytes]]:
    """A triggerer of it; ended with all that it started."""
    with (home.logs / "triggerer.log").open("ab") as log:
        process = subprocess.Popen(
            home._command("triggerer", "--skip-serve-logs"),
            env=home.env(),
            cwd=home.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def uses(home: AirflowHome) -> list[Use]:
    """Who has used the resource, in the order of coming."""
    path = home.path / "sharing.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        try:
            return connection.execute("SELECT run_id, process, came, went FROM used ORDER BY came").fetchall()
        except sqlite3.OperationalError:
            return []
