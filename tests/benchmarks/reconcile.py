"""
How long one round over many live tasks takes: ``python -m benchmarks.reconcile [--tasks N] [--json]``.

Airflow's own tables and a ledger, both SQLite, in a directory of its own. Every task runs, gave a sign of
life two seconds ago and has limits to keep, so there is nothing to repair and everything to look at.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

__all__ = ["main"]

_ROUNDS = 5


@contextmanager
def _home() -> Iterator[Path]:
    """A home of Airflow's, before anything of it is imported."""
    path = Path(tempfile.mkdtemp(prefix="louver-bench-"))
    os.environ |= {
        "AIRFLOW_HOME": str(path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{path / 'airflow.db'}",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def work() -> None:
    """What a step does."""


def _fill(runs: int, steps: int, now: datetime) -> Any:
    """So many runs of so many steps, on both sides; returns the ledger."""
    from airflow.utils.session import create_session
    from sqlalchemy import text
    from support.airflow_rows import AirflowRows

    from louver.definition import Definition
    from louver.ledger.names import RunKey, TaskKey
    from louver.liveness import LocalProcesses
    from louver.nodes import Step
    from louver.sessions import Change, Claim
    from louver.states import Source, TaskState
    from louver.steps import run_start
    from louver.timeouts import Timeouts
    from louver_provider.dag_builder import build_dag
    from louver_provider.hooks.ledger import get_ledger

    limits = Timeouts(start=timedelta(minutes=5), attempt=timedelta(hours=1))
    nodes = [Step(name=f"s{number}", task="bench:work", timeouts=limits) for number in range(steps)]
    definition = Definition(name="wide", version="1", nodes=nodes)
    rows = AirflowRows()
    rows.deploy(build_dag(definition, tasks={"bench:work": work}))
    first = RunKey("wide", "r0")
    marker = rows.run(first)
    with create_session(scoped=False) as session:
        session.execute(
            text(
                "UPDATE task_instance SET state = 'running', try_number = 1, updated_at = :now "
                "WHERE task_id NOT IN ('compensate', 'outcome')"
            ),
            {"now": now.replace(tzinfo=None)},
        )
        for table in ("dag_run", "task_instance"):
            known = [dict(row) for row in session.execute(text(f"SELECT * FROM {table}")).mappings()]
            copies = [
                {**row, "run_id": f"r{number}", "id": uuid4().hex}
                for number in range(1, runs)
                for row in known
            ]
            names = [name for name in known[0] if table != "dag_run" or name != "id"]
            places = ", ".join(f":{name}" for name in names)
            if copies:
                session.execute(text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"), copies)
    ledger = get_ledger()
    ledger.open_run(run_start(definition, first, marker=marker), now=now)
    claim = Claim(try_number=1, max_tries=2, process=LocalProcesses().name(), source=Source.WORKER)
    token = ledger.open_task(TaskKey("wide", "r0", "s0"), claim, now=now).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=now)
    ledger.touch(token, now=now)
    run, task = ledger.get_run(first), ledger.get_task(token.key)
    (touch,) = ledger.list_touches(first)
    with ledger._transaction(write=True) as tables:
        for number in range(runs):
            begun = now + timedelta(milliseconds=number)
            tables.put(replace(run, run_id=f"r{number}", created_at=begun))
            for step in range(steps):
                for row in (task, touch):
                    tables.put(replace(row, run_id=f"r{number}", task_id=f"s{step}"))
    return ledger


def main(argv: list[str]) -> None:
    """Fill both databases, and do some rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10, help="steps in each run")
    parser.add_argument("--json", action="store_true", help="the rounds' seconds as JSON, in the last line")
    given = parser.parse_args(argv)
    with _home():
        now = datetime.now(timezone.utc)
        ledger = _fill(given.tasks // given.steps, given.steps, now)
        from louver.clock import FixedClock
        from louver_provider.reconciler.service import Reconciler
        from louver_provider.settings import load_settings

        clock = FixedClock(now + timedelta(seconds=2))
        reconciler = Reconciler(ledger, load_settings(), clock=clock)
        took, used = [], []
        for _ in range(_ROUNDS):
            began, busy = time.perf_counter(), time.process_time()
            outcomes = list(reconciler.round())
            took.append(time.perf_counter() - began)
            used.append(time.process_time() - busy)
            if outcomes:
                sys.exit(f"there was nothing to repair, and {len(outcomes)} repairs were made")
        runs = given.tasks // given.steps
        print(
            f"{given.tasks} live tasks in {runs} runs: median {statistics.median(took):.2f} s, "
            f"of it {statistics.median(used):.2f} s CPU"
        )
        if given.json:
            print(json.dumps({"seconds": took, "cpu": used}))
        ledger.close()


if __name__ == "__main__":
    main(sys.argv[1:])
