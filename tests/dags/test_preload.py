"""What the scheduler imports for the processes of its tasks, seen from a process that has just done so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from louver.ledger import open_ledger

LOOK = """
import json, sys, threading
from louver_provider.preload import preload

preload()
threads = threading.active_count()
there = set(sys.modules)
from louver_provider.hooks import ledger as hook

opened = dict(hook._LEDGERS)
from louver.definition import Definition, Step
from louver.ledger.names import RunKey
from louver_provider.dag_builder import build_dag

steps = [Step(name="one", task="os:getpid")]
build_dag(Definition(name="some", version="1", nodes=steps))
with hook.get_ledger() as ledger:
    ledger.get_run(RunKey("some", "one"))
anew = sorted(name for name in set(sys.modules) - there if name.startswith("louver"))
print(json.dumps({"threads": threads, "opened": len(opened), "anew": anew}))
"""


def look(url: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AIRFLOW__LOUVER__LEDGER_URL": url,
            "AIRFLOW__LOUVER__SIGNING_KEYS": "one:" + "a" * 64,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'ledger.db'}"
    if request.param == "postgres":
        found = request.getfixturevalue("postgres_url")
    # With its schema: what makes that is no matter of tasks.
    open_ledger(found, "one:" + "a" * 64).close()
    return found


def test_a_step_imports_nothing_of_louver_that_the_scheduler_has_not(url: str) -> None:
    assert look(url)["anew"] == []


def test_no_connection_and_no_thread_is_there_to_be_inherited(url: str) -> None:
    found = look(url)
    assert (found["opened"], found["threads"]) == (0, 1)
