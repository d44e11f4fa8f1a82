"""What is measured on a real Airflow: a step beside a plain task, pauses and resumes, answers to a park."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow_home import AirflowHome
from airflow_rest import FINISHED
from support.airflow_control import Control, controlled

from benchmarks.control.extent import Extent
from benchmarks.control.results import ALONE, COMMIT, PLAIN, STEP, Answers, Pauses
from benchmarks.ledger.stats import Series

__all__ = ["bench_airflow", "measure_answers", "measure_pairs", "measure_pauses"]

Say = Callable[[str], None]

_DAGS = ("slot", "pairs", "alone", "counting")
_FOLDERS = (Path(__file__).with_name("dags"), Path(__file__).resolve().parents[2] / "integration" / "dags")
_PAUSING = Path(__file__).with_name("pausing.py")
_RUN_SECONDS = 300.0

# Around the park: before it landed, as it lands (a running step looks every second), and up to long after it.
_GAPS = (0.0, 0.6, 0.9, 1.1, 1.3, 2.0, 3.2)
_ROWS = 300 * len(_GAPS)


@contextmanager
def bench_airflow(folder: Path, settings: Mapping[str, str], say: Say) -> Iterator[AirflowHome]:
    """
    A running Airflow with the Dags of the benchmark: by default on SQLite, four tasks at once.

    :param folder: its home.
    :param settings: environment variables for it.
    """
    home = AirflowHome(folder, settings=settings, say=say)
    home.prepare()
    shutil.copytree(_FOLDERS[0], home.own_dags, dirs_exist_ok=True)
    shutil.copy(_FOLDERS[1] / "control_steps.py", home.own_dags)
    with closing(sqlite3.connect(folder / "bench.db")) as connection, connection:
        # Readers and the writer do not wait for each other.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE begun (run_id, at)")
        connection.execute("CREATE TABLE enough (run_id)")
    with home.kept_running(dags=_DAGS):
        yield home


def measure_pairs(home: AirflowHome, extent: Extent) -> dict[str, Series]:
    """
    Seconds from start to end of a step, of a plain task in the same run, and of one in a file without Louver.

    As Airflow records them: from the start of the task's process, the import of its file included, to its
    result. A run is a round; the first of each Dag warms up. Beside them, what the disk takes for one commit.
    """
    taken: dict[str, list[tuple[float, ...]]] = {STEP: [], PLAIN: [], ALONE: [], COMMIT: []}
    for number in range(extent.pairs + 1):
        found = {**_durations(home, "pairs"), **_durations(home, "alone", ALONE)}
        found[COMMIT] = _commits(home.path / "commits.db")
        if number:
            for name, samples in found.items():
                taken[name].append(samples)
    return {name: Series(name=name, rounds=tuple(rounds)) for name, rounds in taken.items()}


def _durations(home: AirflowHome, dag_id: str, plain: str = PLAIN) -> dict[str, tuple[float, ...]]:
    run_id = home.rest.trigger(dag_id, {}, run_id=f"{dag_id}-{uuid4().hex[:8]}")
    _end_of(home, dag_id, run_id)
    path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
    samples: dict[str, list[float]] = {}
    for row in home.rest.get(path)["task_instances"]:
        kind = {"step": STEP, "plain": plain}.get(row["task_id"].partition("_")[0])
        if kind is not None:
            samples.setdefault(kind, []).append(_moment(row["end_date"]) - _moment(row["start_date"]))
    return {kind: tuple(found) for kind, found in samples.items()}


def _commits(path: Path) -> tuple[float, ...]:
    """Seconds of bare commits to disk on the same machine; a step makes three of them."""
    samples = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS done (number)")
        for number in range(30):
            began = time.perf_counter()
            connection.execute("INSERT INTO done VALUES (?)", [number])
            samples.append(time.perf_counter() - began)
    return tuple(samples)


def measure_pauses(home: AirflowHome, extent: Extent) -> Pauses:
    """One run after the other is paused and resumed."""
    run_ids = [f"slot-{uuid4().hex[:8]}" for _ in range(extent.pauses)]
    for run_id in run_ids:
        home.rest.trigger("slot", {}, run_id=run_id)
    done = subprocess.run(
        [str(home.python), str(_PAUSING), "slot", *run_ids],
        env=home.env(),
        cwd=home.path,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS + 30 * len(run_ids),
    )
    if done.returncode != 0:
        raise RuntimeError(f"pausing and resuming failed:\n{done.stderr[-2000:]}")
    times = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    taken_over = []
    for run_id, told in zip(run_ids, times, strict=True):
        _end_of(home, "slot", run_id)
        taken_over.append(_moment(home.rest.task("slot", run_id, "other")["start_date"]) - told["asked"])
    return Pauses(
        free=tuple(told["free"] - told["asked"] for told in times),
        taken_over=tuple(taken_over),
        resumed=tuple(told["running"] - told["resumed"] for told in times),
    )


def measure_answers(home: AirflowHome, extent: Extent) -> Answers:
    """Runs whose step is paused and resumed at all the moments around the park, by three at once."""
    with controlled(home, dags=("counting",)) as control:
        run_ids = [control.start("counting", rows=_ROWS, seconds=0.1) for _ in range(extent.hammered)]
        for run_id in run_ids:
            control.await_rows(run_id, 1)
        told, clicks = control.hammer(run_ids, _GAPS)
        control.hurry(*run_ids)
        broken = sum(not _whole(control, run_id) for run_id in run_ids)
    odd = sum(reply["became"] not in ("done", "taken_back", "refused") for reply in told)
    errors = sum(count for status, count in clicks.items() if status not in (200, 404, 409))
    return Answers(
        given=len(told) + sum(clicks.values()),
        taken=clicks[200],
        runs=len(run_ids),
        broken=broken,
        odd=odd + errors,
    )


def _whole(control: Control, run_id: str) -> bool:
    """Whether the run ended well, in one try, with every row done once."""
    ended = control.ended("counting", run_id) == "success"
    once = control.rest.task("counting", run_id, "work")["try_number"] == 1
    return ended and once and control.rows(run_id) == list(range(_ROWS))


def _end_of(home: AirflowHome, dag_id: str, run_id: str) -> None:
    def over() -> bool:
        return home.rest.run_state(dag_id, run_id) in FINISHED

    home.wait_for(f"the end of {run_id}", over, timeout=_RUN_SECONDS, every=0.5)
    state = home.rest.run_state(dag_id, run_id)
    if state != "success":
        raise RuntimeError(f"{run_id} of {dag_id} is {state}: what it took means nothing")


def _moment(text: Any) -> float:
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
