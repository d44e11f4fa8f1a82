"""
Pause and resume a step of several runs, and tell how long it took.

Run in the environment of the Airflow it is about: ``python pausing.py DAG RUN...``, one run after the other.
Each step says in a table when its code began. Prints one JSON line for each run.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.configuration import AIRFLOW_HOME

from louver.ledger.names import RunKey, TaskKey
from louver_provider.parks import Park, guard, read_park
from louver_provider.task_control import TaskControl

TABLE = Path(AIRFLOW_HOME) / "bench.db"
LOOK = 0.02
SECONDS = 120.0


def wait_for(what: str, probe: Callable[[], Any]) -> Any:
    """Ask until the answer is something true, and return that."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        answer = probe()
        if answer:
            return answer
        time.sleep(LOOK)
    raise TimeoutError(f"no {what} within {SECONDS:.0f} s")


def begun(run: RunKey) -> list[float]:
    """When the step's code began, in seconds since the epoch."""
    with closing(sqlite3.connect(TABLE, timeout=60)) as connection:
        found = connection.execute("SELECT at FROM begun WHERE run_id = ? ORDER BY at", [run.run_id])
        return [at for (at,) in found]


def parked(key: TaskKey) -> Park | None:
    """The park, once Airflow has it."""
    park = read_park(key)
    return park if park is not None and park.state == "awaiting_input" else None


def may_be_woken(key: TaskKey) -> bool:
    """Whether the resume guard lets an answer through."""
    park = read_park(key)
    return park is not None and guard(park, now=datetime.now(timezone.utc)) is None


def measure(run: RunKey, client: TaskControl) -> dict[str, float]:
    """
    Pause the step ``work`` and resume it.

    :returns: the times of the request, of the free slot, of the resume and of the code that runs on.
    """
    key = TaskKey(run.dag_id, run.run_id, "work")
    wait_for("code that runs", lambda: begun(run))
    # A running step looks every second: the request comes at any moment of that.
    time.sleep(random.uniform(1.0, 2.0))
    asked = time.time()
    client.pause(run, "work", timeout=timedelta(0))
    free = wait_for("free slot", lambda: parked(key)).parked_at.timestamp()
    wait_for("end of the resume guard", lambda: may_be_woken(key))
    resumed = time.time()
    # Sent again where it is refused, as by a command that waits.
    client.resume(run, "work", timeout=timedelta(seconds=5), reason="benchmark")
    running = wait_for("code that runs on", lambda: begun(run)[1:])[0]
    with closing(sqlite3.connect(TABLE, timeout=60)) as connection, connection:
        connection.execute("INSERT INTO enough VALUES (?)", [run.run_id])
    return {"asked": asked, "free": free, "resumed": resumed, "running": running}


def main(dag_id: str, *run_ids: str) -> None:
    """Run from the command line."""
    client = TaskControl(actor="benchmark")
    for run_id in run_ids:
        print(json.dumps(measure(RunKey(dag_id, run_id), client)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
