"""Runs on a real Airflow that something happens to, what they did, and what the ledger holds of them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from airflow_home import ROOT, AirflowHome
from airflow_rest import FINISHED

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import RunRecord, TransitionRecord
from louver.states import RunState, Source
from louver_provider.reconciler.rescue import RESCUE_DAG

__all__ = ["PLACE_DAGS", "PLACE_SECONDS", "Place", "Runs", "home_of_reconciled"]

PLACE_SECONDS = 180.0
"""How long is waited for anything."""

PLACE_DAGS = ("killed", "marked", "deleted", "timed_out", "holding", "late", "blocker", RESCUE_DAG)
"""Those of tests/integration/reconciled, and the one that compensates."""

_QUICK = {
    # A supervisor that is gone is found after this time; no process says more often that it lives.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__LOUVER__RECONCILE_INTERVAL": "1",
    "AIRFLOW__LOUVER__HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__LOUVER__CONTROL_INTERVAL": "0.5",
    "AIRFLOW__LOUVER__STOP_GRACE": "2",
}


def home_of_reconciled(path: Path, settings: Mapping[str, str] | None = None) -> AirflowHome:
    """
    An Airflow that finds dead tasks in seconds rather than minutes, with the Dags for it.

    :param settings: more of them.
    """
    seen = os.pathsep.join([str(ROOT / "config"), str(ROOT / "include"), str(path / "dags")])
    # What undoes an effect is found by import, from the Dag that compensates too.
    home = AirflowHome(path, settings={**_QUICK, "PYTHONPATH": seen, **(settings or {})}, say=print)
    home.prepare()
    shutil.copytree(ROOT / "tests" / "integration" / "reconciled", home.own_dags, dirs_exist_ok=True)
    return home


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """All begun at once; those named by what happens to them."""

    killed: RunKey
    marked: RunKey
    deleted: RunKey
    timed_out: RunKey
    holding: RunKey
    late: RunKey
    blocker: RunKey


class Place:
    """Runs on this Airflow, what they did, and what the ledger holds of them."""

    def __init__(self, home: AirflowHome) -> None:
        self.home = home
        self.rest = home.rest

    def start(self, dag_id: str) -> RunKey:
        return RunKey(dag_id, self.rest.trigger(dag_id, {}, run_id=f"{dag_id}-1"))

    def go(self, run: RunKey) -> None:
        """Let the run's steps wait no longer."""
        (self.home.path / f"go-{run.run_id}").touch()

    def done(self, run: RunKey) -> Counter[str]:
        """How often its steps did what."""
        with closing(sqlite3.connect(self.home.path / "reconciled.db", timeout=60)) as connection:
            try:
                found = connection.execute("SELECT what FROM done WHERE run_id = ?", [run.run_id])
                return Counter(what for (what,) in found)
            except sqlite3.OperationalError:
                return Counter()

    def await_done(self, run: RunKey, what: str) -> None:
        self.home.wait_for(f"{what} of {run.run_id}", lambda: self.done(run)[what] > 0, timeout=PLACE_SECONDS)

    def ledger(self) -> Ledger:
        key = (self.home.path / "louver_signing_key").read_text().strip()
        return open_ledger(self.home.ledger_url, key)

    def record(self, run: RunKey) -> RunRecord:
        with self.ledger() as ledger:
            found = ledger.get_run(run)
        assert found is not None
        return found

    def await_state(self, run: RunKey, state: RunState) -> None:
        self.home.wait_for(
            f"{run.run_id} to be {state}", lambda: self.record(run).state is state, timeout=PLACE_SECONDS
        )

    def trail(self, run: RunKey, task_id: str) -> list[TransitionRecord]:
        with self.ledger() as ledger:
            return ledger.list_transitions(run, task_id=task_id)

    def repaired(self, run: RunKey, task_id: str) -> list[tuple[str, str]]:
        """What the reconciler wrote about the task."""
        return [
            (str(row.to_state), row.trigger)
            for row in self.trail(run, task_id)
            if row.source is Source.RECONCILER
        ]

    def process_of(self, run: RunKey, task_id: str) -> int:
        """The process that holds the task."""
        with self.ledger() as ledger:
            record = ledger.get_task(TaskKey(run.dag_id, run.run_id, task_id))
        assert record is not None
        assert record.process is not None
        return int(record.process.split("/")[3])

    def ended(self, run: RunKey) -> str:
        def over() -> str | None:
            state = self.rest.run_state(run.dag_id, run.run_id)
            return state if state in FINISHED else None

        return str(self.home.wait_for(f"the end of {run.run_id}", over, timeout=PLACE_SECONDS))

    def mark(self, run: RunKey, state: str) -> None:
        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}"
        self.rest.request("PATCH", path, {"state": state}).expect(200)

    def delete(self, run: RunKey, *task_ids: str) -> None:
        for task_id in task_ids:
            path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}"
            self.rest.request("DELETE", path).expect(200, 204)

    def begin(self) -> Runs:
        """
        Begin runs of all the Dags, and let happen what happens to them, as soon as it can.

        The pool that the late one waits for is made, and is full until the blocker goes.
        """
        pool = {"name": "narrow", "slots": 1, "include_deferred": False}
        self.rest.request("POST", "/api/v2/pools", pool).expect(201)
        blocker = self.start("blocker")

        def blocks() -> bool:
            return self.rest.task_states("blocker", blocker.run_id)["block"] == "running"

        self.home.wait_for("the pool to be full", blocks, timeout=PLACE_SECONDS)
        others = ("killed", "marked", "deleted", "timed_out", "holding", "late")
        begun = Runs(blocker=blocker, **{name: self.start(name) for name in others})
        for run in (begun.killed, begun.marked, begun.deleted, begun.timed_out):
            self.await_done(run, "wait")
        task = self.process_of(begun.killed, "wait")
        supervisor = int(Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[1])
        for process in (supervisor, task):
            os.kill(process, signal.SIGKILL)
        self.mark(begun.marked, "failed")
        self.delete(begun.deleted, "after", "compensate", "outcome")
        self.go(begun.deleted)
        return begun
