"""Runs on a real Airflow to be paused, resumed and stopped, and the commands to do so."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from airflow_home import AirflowHome

__all__ = ["CONTROL_DAGS", "Control", "controlled"]

CONTROL_DAGS = ("counting", "ticking", "sharing", "asking")
"""Those of tests/integration/dags/control_steps.py."""

_FOLDER = Path(__file__).resolve().parents[1] / "integration"
_SHELL, _HAMMER = (_FOLDER / name for name in ("shell.py", "hammer.py"))


@contextmanager
def controlled(home: AirflowHome, *, dags: Sequence[str] = CONTROL_DAGS) -> Iterator[Control]:
    """Commands in one process, once the Dags are there."""
    home.wait_for("the Dags", lambda: set(dags) <= home.rest.dag_ids(), timeout=120)
    with (
        (home.logs / "shell.log").open("ab") as log,
        subprocess.Popen(
            [str(home.python), str(_SHELL)],
            env=home.env(),
            cwd=home.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as shell,
    ):
        try:
            yield Control(home, shell)
        finally:
            shell.kill()


class Control:
    """Runs to be controlled, and the commands to do so."""

    def __init__(self, home: AirflowHome, shell: subprocess.Popen[str]) -> None:
        self.home = home
        self.rest = home.rest
        self._shell = shell

    def start(self, dag_id: str, **conf: Any) -> str:
        run_id = f"{dag_id}-{uuid4().hex[:8]}"
        return self.rest.trigger(dag_id, conf, run_id=run_id)

    def state(self, dag_id: str, run_id: str, task_id: str = "work") -> str | None:
        return self.rest.task_states(dag_id, run_id).get(task_id)

    def await_state(self, dag_id: str, run_id: str, wanted: str, task_id: str = "work") -> None:
        def there() -> bool:
            state = self.state(dag_id, run_id, task_id)
            assert state == wanted or state not in ("success", "failed", "upstream_failed"), state
            return state == wanted

        self.home.wait_for(f"{task_id} of {run_id} to be {wanted}", there, timeout=90)

    def await_rows(self, run_id: str, count: int) -> None:
        self.home.wait_for(f"{count} rows of {run_id}", lambda: len(self.rows(run_id)) >= count, timeout=90)

    def ended(self, dag_id: str, run_id: str) -> str:
        def over() -> str | None:
            state = self.rest.run_state(dag_id, run_id)
            return state if state in ("success", "failed") else None

        return str(self.home.wait_for(f"the end of {run_id}", over, timeout=400))

    def clear(self, dag_id: str, run_id: str, task_id: str = "work") -> None:
        """Clear the task, as a person does in the web UI."""
        body = {"dag_run_id": run_id, "task_ids": [task_id], "dry_run": False, "only_failed": False}
        self.rest.request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body).expect(200)

    def rows(self, run_id: str) -> list[int]:
        """What the step has done, in order; what was done twice stands there twice."""
        with closing(sqlite3.connect(self.home.path / "control.db", timeout=60)) as connection:
            try:
                found = connection.execute(
                    "SELECT number FROM done WHERE run_id = ? ORDER BY rowid", [run_id]
                )
                return [number for (number,) in found]
            except sqlite3.OperationalError:
                return []

    def hurry(self, *run_ids: str) -> None:
        """Let these runs do the rest of their rows at once."""
        with closing(sqlite3.connect(self.home.path / "control.db", timeout=60)) as connection, connection:
            connection.executemany("INSERT INTO hurry VALUES (?)", [[run_id] for run_id in run_ids])

    def louver(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """Exit code and rows, or what was said where there are none."""
        given, answers = self._shell.stdin, self._shell.stdout
        assert given is not None
        assert answers is not None
        given.write(json.dumps(["louver", *arguments, "--output", "json"]) + "\n")
        given.flush()
        code, out, err = json.loads(answers.readline())
        assert "Traceback" not in out + err, err
        return code, json.loads(out) if out else [{"said": err}]

    def one(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, and of the only row what became of it and the task's state."""
        code, rows = self.louver(*arguments)
        assert len(rows) == 1, rows
        return code, rows[0]["became"], rows[0]["state"]

    def trail(self, run_id: str, task_id: str = "work") -> list[dict[str, Any]]:
        code, rows = self.louver("history", run_id, task_id, "--stored")
        assert code == 0, rows
        return rows

    def hammer(
        self, run_ids: Sequence[str], gaps: Sequence[float]
    ) -> tuple[list[dict[str, Any]], Counter[int]]:
        """
        Pause the step of these runs at each of these gaps, and let two commands at once resume it after it,
        while somebody in the web UI presses Resume whenever it is there.

        :param gaps: seconds from the pause to the resumes.
        :returns: what the commands were told, and how often the web server answered what.
        """
        over = threading.Event()
        answers: Counter[int] = Counter()

        def click() -> None:
            while not over.wait(0.4):
                for run_id in run_ids:
                    body = {"chosen_options": ["Resume"], "params_input": {}}
                    answers[self.rest.reply("counting", run_id, "work", body).status] += 1

        clicker = threading.Thread(target=click)
        clicker.start()
        try:
            done = subprocess.run(
                [str(self.home.python), str(_HAMMER), "counting", ",".join(map(str, gaps)), *run_ids],
                env=self.home.env(),
                capture_output=True,
                text=True,
                timeout=400,
            )
        finally:
            over.set()
            clicker.join()
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], answers
