"""
What happens to runs from outside, on a real Airflow with its scheduler's own reconciler.

An Airflow of its own: it is stopped in the middle, and finds dead tasks in seconds rather than minutes.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.airflow_place import PLACE_DAGS, PLACE_SECONDS, Place, Runs, home_of_reconciled
from support.processes import alive, children_of

from louver.ledger.names import RunKey
from louver.states import RunState, Source
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix
from louver_provider.reconciler.service import LEASE

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = home_of_reconciled(tmp_path_factory.mktemp("reconciled"))
    with home.kept_running(dags=PLACE_DAGS):
        yield Place(home)


@pytest.fixture(scope="module")
def runs(place: Place) -> Runs:
    """Begun, and what happens to them has happened; each test looks at what became of it."""
    return place.begin()


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

    place.home.wait_for("it to have the lease", active, timeout=PLACE_SECONDS)
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


def test_a_task_whose_process_alone_is_told_to_end_is_tried_again(place: Place, runs: Runs) -> None:
    """As by the shutdown of a worker, or the eviction of a pod."""
    run = RunKey("killed", place.rest.trigger("killed", {}, run_id="told-1"))
    place.await_done(run, "wait")
    os.kill(place.process_of(run, "wait"), signal.SIGTERM)
    place.go(run)

    assert place.ended(run) == "success"
    ways = [row.trigger for row in place.trail(run, "wait")]
    assert "runtime:attempt_lost" in ways
    done = place.done(run)
    assert (done["act"], done["take back"]) == (1, 0)


def test_a_start_that_waits_too_long_for_a_full_pool_fails_once(place: Place, runs: Runs) -> None:
    def failed() -> bool:
        return place.rest.task_states("late", runs.late.run_id)["start"] == "failed"

    place.home.wait_for("the start to be too late", failed, timeout=PLACE_SECONDS)
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
    place.home.wait_for("its process to be gone", lambda: not alive(process), timeout=PLACE_SECONDS)


def imported(place: Place) -> int:
    """How many rows the import has made; one that came twice would be an error of its table."""
    with closing(sqlite3.connect(place.home.shop_db, timeout=60)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM imported").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def await_imported(place: Place, rows: int) -> None:
    place.home.wait_for(f"{rows} rows", lambda: imported(place) >= rows, timeout=PLACE_SECONDS)


@pytest.fixture(scope="module")
def stopped(place: Place) -> RunKey:
    """A run in the middle, as soon as ``wait`` of it is done."""
    return RunKey("killed", place.rest.trigger("killed", {}, run_id="stopped-1"))


@pytest.fixture(scope="module")
def importing(place: Place, stopped: RunKey) -> RunKey:
    """The import of ``dags/``, in the middle: its process was killed, and it was paused and resumed."""
    conf = {"source": "ledger", "rows": 10_000, "batch": 100, "seconds": 0.3}
    run = RunKey("import_rows", place.rest.trigger("import_rows", conf, run_id="import-1"))
    await_imported(place, 1_000)
    os.kill(place.process_of(run, "import_rows"), signal.SIGKILL)
    await_imported(place, 3_000)
    paused = place.home.cli("louver", "pause", run.run_id, "import_rows", "--reason", "month end")
    assert paused.code == 0, paused.stderr

    def parked() -> bool:
        return place.rest.task_states(run.dag_id, run.run_id)["import_rows"] == "awaiting_input"

    place.home.wait_for("the import to be paused", parked, timeout=PLACE_SECONDS)
    there = imported(place)
    assert there < 10_000
    resumed = place.home.cli("louver", "resume", run.run_id, "import_rows")
    assert resumed.code == 0, resumed.stderr
    await_imported(place, there + 500)
    return run


def test_airflow_may_stop_and_start_in_the_middle(
    place: Place, runs: Runs, stopped: RunKey, importing: RunKey
) -> None:
    place.await_done(stopped, "wait")
    (keeper,) = keepers(place)

    place.home.stop()
    assert not alive(keeper)
    assert imported(place) < 10_000
    place.home.start(dags=PLACE_DAGS, migrate=False)

    place.go(stopped)
    assert place.ended(stopped) == "success"
    done = place.done(stopped)
    assert (done["act"], done["take back"]) == (1, 0)
    assert len(keepers(place)) == 1


def test_an_import_that_was_killed_paused_and_restarted_has_every_row_once(
    place: Place, runs: Runs, importing: RunKey
) -> None:
    assert place.ended(importing) == "success"

    assert imported(place) == 10_000
    ways = [(str(row.to_state), row.trigger) for row in place.trail(importing, "import_rows")]
    assert ("paused", "runtime:pause_reached") in ways
    assert ("retry_wait", "runtime:attempt_lost") in ways
    assert ways[-1] == ("succeeded", "runtime:completed")


def test_what_was_lost_is_said_once(place: Place, runs: Runs) -> None:
    log = (place.home.logs / "scheduler.log").read_text(errors="replace")
    said: Counter[Any] = Counter(
        line.partition("louver [reconcile.")[2].split("\x1b")[0]
        for line in log.splitlines()
        if "louver [reconcile.mark]" in line
    )
    assert said
    assert set(said.values()) == {1}
