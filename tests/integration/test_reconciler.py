"""
What happens to runs from outside, on a real Airflow with its scheduler's own reconciler.

An Airflow of its own: it is stopped in the middle, and finds dead tasks in seconds rather than minutes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.processes import alive, children_of

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import RunRecord, TransitionRecord
from louver.states import RunState, Source
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix
from louver_provider.reconciler.service import LEASE

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from airflow_home import AirflowHome  # noqa: E402
from airflow_rest import FINISHED  # noqa: E402

SECONDS = 180.0
DAGS = ("killed", "marked", "deleted", "timed_out", "holding", "late", "blocker", RESCUE_DAG)

QUICK = {
    # A supervisor that is gone is found after this time; no process says more often that it lives.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__LOUVER__RECONCILE_INTERVAL": "1",
    "AIRFLOW__LOUVER__HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__LOUVER__CONTROL_INTERVAL": "0.5",
    "AIRFLOW__LOUVER__STOP_GRACE": "2",
}


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
        self.home.wait_for(f"{what} of {run.run_id}", lambda: self.done(run)[what] > 0, timeout=SECONDS)

    def ledger(self) -> Ledger:
        key = (self.home.path / "louver_signing_key").read_text().strip()
        return open_ledger(f"sqlite:///{self.home.ledger_db}", key)

    def record(self, run: RunKey) -> RunRecord:
        with self.ledger() as ledger:
            found = ledger.get_run(run)
        assert found is not None
        return found

    def await_state(self, run: RunKey, state: RunState) -> None:
        self.home.wait_for(
            f"{run.run_id} to be {state}", lambda: self.record(run).state is state, timeout=SECONDS
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

        return str(self.home.wait_for(f"the end of {run.run_id}", over, timeout=SECONDS))

    def mark(self, run: RunKey, state: str) -> None:
        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}"
        self.rest.request("PATCH", path, {"state": state}).expect(200)

    def delete(self, run: RunKey, *task_ids: str) -> None:
        for task_id in task_ids:
            path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}"
            self.rest.request("DELETE", path).expect(200, 204)


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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path = tmp_path_factory.mktemp("reconciled")
    seen = os.pathsep.join([str(ROOT / "config"), str(ROOT / "include"), str(path / "dags")])
    # What undoes an effect is found by import, from the Dag that compensates too.
    home = AirflowHome(path, settings={**QUICK, "PYTHONPATH": seen}, say=print)
    home.prepare()
    shutil.copytree(Path(__file__).parent / "reconciled", home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=DAGS):
        pool = {"name": "narrow", "slots": 1, "include_deferred": False}
        home.rest.request("POST", "/api/v2/pools", pool).expect(201)
        yield Place(home)


@pytest.fixture(scope="module")
def runs(place: Place) -> Runs:
    """Begun, and as far as something can happen to them."""
    blocker = place.start("blocker")

    def blocks() -> bool:
        return place.rest.task_states("blocker", blocker.run_id)["block"] == "running"

    place.home.wait_for("the pool to be full", blocks, timeout=SECONDS)
    others = ("killed", "marked", "deleted", "timed_out", "holding", "late")
    begun = Runs(blocker=blocker, **{name: place.start(name) for name in others})
    for run in (begun.killed, begun.marked, begun.deleted, begun.timed_out):
        place.await_done(run, "wait")
    # Everything that is to happen happens now; each test looks at what became of it.
    task = place.process_of(begun.killed, "wait")
    supervisor = int(Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[1])
    for process in (supervisor, task):
        os.kill(process, signal.SIGKILL)
    place.mark(begun.marked, "failed")
    place.delete(begun.deleted, "after", "compensate", "outcome")
    place.go(begun.deleted)
    return begun


def keepers(place: Place) -> list[int]:
    scheduler = place.home._components.known()["scheduler"]["pid"]
    return [child for child in children_of(scheduler) if b"reconciler.keeper" in command_of(child)]


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_scheduler_has_brought_one_reconciler(place: Place) -> None:
    (keeper,) = keepers(place)
    (reconciler,) = children_of(keeper)
    assert b"reconcile\0--watch" in command_of(reconciler)

    def active() -> bool:
        with place.ledger() as ledger:
            lease = ledger.get_lease(LEASE)
        return lease is not None and f"/{reconciler}/" in lease.owner

    place.home.wait_for("it to have the lease", active, timeout=SECONDS)
    refused = place.home.cli("louver", "reconcile")
    assert refused.code == 1
    assert f"/{reconciler}/" in refused.stderr
    shown = place.home.cli("louver", "reconcile", "--dry-run", "--output", "json")
    assert shown.code == 0, shown.stderr
    assert isinstance(shown.json(), list)


def test_a_run_marked_failed_is_compensated(place: Place, runs: Runs) -> None:
    """Case E01: the run stays failed, what it did is undone."""
    assert place.ended(runs.marked) == "failed"

    place.await_state(runs.marked, RunState.FAILED_COMPENSATED)
    assert place.done(runs.marked) == {"act": 1, "wait": 1, "take back": 1}


def test_a_run_whose_tasks_were_deleted_is_compensated_from_outside(place: Place, runs: Runs) -> None:
    """To Airflow it is a success: what is left of it has succeeded."""
    assert place.ended(runs.deleted) == "success"

    place.await_state(runs.deleted, RunState.FAILED_COMPENSATED)
    assert place.done(runs.deleted) == {"act": 1, "wait": 1, "take back": 1}
    assert place.repaired(runs.deleted, "after") == [("cancelled", "orchestrator:cascade")]
    rescues = [run for run in place.rest.run_ids(RESCUE_DAG) if run.startswith(rescue_prefix(runs.deleted))]
    assert rescues == [f"{rescue_prefix(runs.deleted)}1"]


def test_a_run_that_timed_out_is_compensated_from_outside(place: Place, runs: Runs) -> None:
    """Case D08: Airflow skips the running task and all that would close the run."""
    assert place.ended(runs.timed_out) == "failed"
    assert place.rest.task_states("timed_out", runs.timed_out.run_id)["compensate"] == "skipped"

    place.await_state(runs.timed_out, RunState.FAILED_COMPENSATED)
    assert place.done(runs.timed_out) == {"act": 1, "wait": 1, "take back": 1}
    assert place.repaired(runs.timed_out, "wait") == [("lost", "runtime:attempt_lost")]
    assert "skipped by dagrun_timeout" in str(place.trail(runs.timed_out, "wait")[-1].reason)
    rescue = f"{rescue_prefix(runs.timed_out)}1"
    assert place.ended(RunKey(RESCUE_DAG, rescue)) == "success"


def test_a_task_killed_with_its_supervisor_is_recorded_and_tried_again(place: Place, runs: Runs) -> None:
    place.go(runs.killed)

    assert place.ended(runs.killed) == "success"
    assert place.repaired(runs.killed, "wait") == [("retry_wait", "runtime:attempt_lost")]
    (row,) = [row for row in place.trail(runs.killed, "wait") if row.source is Source.RECONCILER]
    assert "proven dead" in str(row.reason)
    done = place.done(runs.killed)
    assert (done["act"], done["take back"]) == (1, 0)


def test_a_start_that_waits_too_long_for_a_full_pool_fails_once(place: Place, runs: Runs) -> None:
    def failed() -> bool:
        return place.rest.task_states("late", runs.late.run_id)["start"] == "failed"

    place.home.wait_for("the start to be too late", failed, timeout=SECONDS)
    task = place.rest.task("late", runs.late.run_id, "start")
    # Case D02: nothing was tried, so no try was used up.
    assert task["try_number"] == 1
    assert place.repaired(runs.late, "start") == [
        ("queued", "orchestrator:dependencies_resolved"),
        ("failed", "timeout:start"),
    ]
    place.await_done(runs.late, "callback")
    # Its slot comes, too late; only the closing tasks have been waiting for it.
    place.go(runs.blocker)
    assert place.ended(runs.late) == "failed"
    assert place.record(runs.late).state is RunState.FAILED
    # That of the start, and those of the closing task that says so.
    assert place.done(runs.late)["wait"] == 0
    assert place.done(runs.late)["callback"] == 2


def test_a_step_that_holds_the_interpreter_is_ended_at_its_limit(place: Place, runs: Runs) -> None:
    """Case D04: its own watch stands still with it."""
    assert place.ended(runs.holding) == "failed"

    trail = place.trail(runs.holding, "hold")
    assert place.repaired(runs.holding, "hold") == [("failed", "timeout:attempt")]
    began = next(row.at for row in trail if str(row.to_state) == "running")
    took = (trail[-1].at - began).total_seconds()
    # 3 s, 2 s of grace, and what it takes to notice: it is looked at every second.
    assert 5.0 <= took < 15.0
    process = place.process_of(runs.holding, "hold")
    place.home.wait_for("its process to be gone", lambda: not alive(process), timeout=SECONDS)


def test_airflow_may_stop_and_start_in_the_middle(place: Place, runs: Runs) -> None:
    run = RunKey("killed", place.rest.trigger("killed", {}, run_id="stopped-1"))
    place.await_done(run, "wait")
    (keeper,) = keepers(place)

    place.home.stop()
    assert not alive(keeper)
    place.home.start(dags=DAGS, migrate=False)

    place.go(run)
    assert place.ended(run) == "success"
    done = place.done(run)
    assert (done["act"], done["take back"]) == (1, 0)
    assert len(keepers(place)) == 1


def test_what_was_lost_is_said_once(place: Place, runs: Runs) -> None:
    log = (place.home.logs / "scheduler.log").read_text(errors="replace")
    said: Counter[Any] = Counter(
        line.partition("louver [reconcile.")[2].split("\x1b")[0]
        for line in log.splitlines()
        if "louver [reconcile.mark]" in line
    )
    assert said
    assert set(said.values()) == {1}
