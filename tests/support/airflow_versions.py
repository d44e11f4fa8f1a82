"""Runs on a real Airflow whose Dag files are rewritten under them."""

from __future__ import annotations

import copy
import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_home import ROOT, AirflowHome, CliResult
from airflow_rest import FINISHED

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import TaskRecord

__all__ = ["VERSIONED", "Versions", "home_of_versions"]

SECONDS = 180.0
"""How long is waited for anything."""

_FILE = '''
"""An Airflow Dag of the tests."""
from pathlib import Path

from louver_provider.dag_builder import dag_from_file

dag = dag_from_file(Path(__file__).with_suffix(".json"))
'''

_STEPS: list[dict[str, Any]] = [
    {"name": "pay", "task": "versioned_work:pay"},
    {
        "name": "ask",
        "deps": {"paid": "pay"},
        "approve": {"of": "go", "payload": "versioned_work:ask"},
    },
    {"name": "go", "task": "versioned_work:go", "after": ["ask"], "approval": "ask"},
    {"name": "tell", "task": "versioned_work:note", "after": ["go"]},
]


def _first() -> dict[str, Any]:
    return {"louver": 1, "version": "1.0.0", "steps": copy.deepcopy(_STEPS)}


def _second(
    policy: str, *, how: str | None = None, behind: str = "tell", without: str | None = None
) -> dict[str, Any]:
    """The next version: a new step, and whatever else is asked for."""
    form = _first() | {"version": "2.0.0", "on_change": policy}
    form["steps"] = [step for step in form["steps"] if step["name"] != without]
    for step in form["steps"]:
        if step["name"] == "go" and how is not None:
            step["kwargs"] = {"how": how}
        if behind == "go" and step["name"] == "tell":
            step["after"] = ["more"]
    form["steps"].append({"name": "more", "task": "versioned_work:note", "after": [behind]})
    return form


VERSIONED: dict[str, dict[str, Any]] = {
    "kept_out": _second("fail"),
    "finished": _second("finish_old", how="as it is now", behind="go"),
    "unfinished": _second("finish_old", behind="go", without="tell"),
    "gone_on": _second("accept_compatible"),
    "not_compatible": _second("accept_compatible", how="as it is now"),
}
"""The Dags, and what each of them is rewritten to."""


def home_of_versions(path: Path) -> AirflowHome:
    """An Airflow that reads its Dag files again and again, with the first version of each."""
    seen = os.pathsep.join([str(ROOT / "config"), str(ROOT / "include"), str(path / "dags")])
    settings = {
        "PYTHONPATH": seen,
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "1",
        "AIRFLOW__LOUVER__RESUME_GUARD": "1",
    }
    home = AirflowHome(path, settings=settings, say=print)
    home.prepare()
    shutil.copytree(ROOT / "tests" / "integration" / "versioned", home.own_dags, dirs_exist_ok=True)
    for name in VERSIONED:
        _write(home, name, _first())
        (home.own_dags / f"{name}.py").write_text(_FILE)
    return home


def _write(home: AirflowHome, name: str, form: dict[str, Any]) -> None:
    # In one move: a file that is half written is no definition.
    draft = home.own_dags / f"{name}.draft"
    draft.write_text(json.dumps(form | {"name": name}))
    draft.replace(home.own_dags / f"{name}.json")


class Versions:
    """Runs of these Dags, what they did, and what the ledger holds of them."""

    def __init__(self, home: AirflowHome) -> None:
        self.home = home
        self.rest = home.rest

    def begin(self) -> dict[str, RunKey]:
        """One run of each Dag, waiting for its approval under the first version."""
        runs = {name: RunKey(name, self.rest.trigger(name, {}, run_id=f"{name}-1")) for name in VERSIONED}
        for run in runs.values():
            self.await_question(run)
        return runs

    def deploy(self) -> None:
        """Rewrite all Dags, and wait until Airflow goes by what they are now."""
        for name, form in VERSIONED.items():
            _write(self.home, name, form)
            # Airflow's own parser looks at the Dag's file alone.
            os.utime(self.home.own_dags / f"{name}.py")
        for name in VERSIONED:
            self.home.wait_for(
                f"{name} to be rewritten", lambda name=name: self._has_more(name), timeout=SECONDS
            )

    def _has_more(self, dag_id: str) -> bool:
        found = self.rest.get(f"/api/v2/dags/{dag_id}/tasks")["tasks"]
        return "more" in {task["task_id"] for task in found}

    def await_question(self, run: RunKey, *, after: str | None = None) -> str:
        """The request that stands under Required Actions; another one than ``after``."""

        def asked() -> str | None:
            if self.rest.task_states(run.dag_id, run.run_id).get("ask") != "awaiting_input":
                return None
            shown = self.rest.question(run.dag_id, run.run_id, "ask")
            found = None if shown is None else str(shown["params"]["request_id"]["value"])
            return found if found != after else None

        return str(self.home.wait_for(f"the question of {run.run_id}", asked, timeout=SECONDS))

    def approve(self, run: RunKey, request_id: str) -> None:
        self.rest.answer(run.dag_id, run.run_id, "ask", "Approve", request_id=request_id).expect(200)

    def ended(self, run: RunKey) -> str:
        def over() -> str | None:
            state = self.rest.run_state(run.dag_id, run.run_id)
            return state if state in FINISHED else None

        return str(self.home.wait_for(f"the end of {run.run_id}", over, timeout=SECONDS))

    def clear(self, run: RunKey, *tasks: str) -> None:
        """Clear tasks, and the closing ones with them, as a person does in the web server."""
        body = {"dry_run": False, "dag_run_id": run.run_id, "task_ids": list(tasks), "only_failed": False}
        path = f"/api/v2/dags/{run.dag_id}/clearTaskInstances"
        self.rest.request("POST", path, body | {"include_downstream": True}).expect(200)

    def done(self, run: RunKey) -> Counter[str]:
        """How often its steps did what."""
        with closing(sqlite3.connect(self.home.path / "versioned.db", timeout=60)) as connection:
            found = connection.execute("SELECT what FROM done WHERE run_id = ?", [run.run_id])
            return Counter(what for (what,) in found)

    def ledger(self) -> Ledger:
        key = (self.home.path / "louver_signing_key").read_text().strip()
        return open_ledger(self.home.ledger_url, key)

    def task(self, run: RunKey, task_id: str) -> TaskRecord:
        with self.ledger() as ledger:
            found = ledger.get_task(TaskKey(run.dag_id, run.run_id, task_id))
        assert found is not None
        return found

    def louver(self, *arguments: str) -> CliResult:
        return self.home.cli("louver", *arguments)

    def export(self, run: RunKey, *, anonymise: bool) -> dict[str, Any]:
        """The run's history, as the command writes it."""
        path = self.home.path / f"{run.run_id}-{anonymise}.json"
        flags = ["--anonymise"] if anonymise else []
        done = self.louver("history", run.run_id, "--dag-id", run.dag_id, "--export", str(path), *flags)
        assert done.code == 0, done
        return dict(json.loads(path.read_text(encoding="utf-8")))
