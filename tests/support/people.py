"""People who do all sorts of things to the runs of a real Airflow, drawn at random, each written down."""

from __future__ import annotations

import getpass
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from support.airflow_control import Control

__all__ = ["DAG", "Act", "People"]

DAG = "counting"
STEPS = ("work", "finish")
USERS = ("admin", "second")
CLI_USER = getpass.getuser()
OVER = ("success", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a person did."""

    actor: str
    verb: str
    run_id: str
    step: str | None
    began: datetime
    ended: datetime
    said: str

    def __str__(self) -> str:
        return f"{self.began:%H:%M:%S.%f} {self.actor} {self.verb} {self.run_id} {self.step}: {self.said}"


@dataclass(slots=True)
class People:
    """
    People at work.

    :param acts: what they did, in order.
    :param deleted: runs that are gone.
    """

    control: Control
    chance: random.Random
    runs: list[str] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def start(self, count: int) -> None:
        """So many runs."""
        for number in range(count):
            run_id = f"random-{number}+{int(time.time())}"
            self.runs.append(run_id)
            body = {"logical_date": None, "dag_run_id": run_id, "conf": {"rows": 40, "seconds": 0.1}}
            self.ask("trigger", run_id, None, "POST", f"/dags/{DAG}/dagRuns", body)

    def go_on(self, seconds: float) -> None:
        """So long one after the other."""
        things: list[tuple[Callable[[str, str], None], int]] = [
            *((self.mark, 4), (self.mark_run, 2), (self.clear, 5), (self.clear_dry, 2)),
            *((self.command, 6), (self.delete, 1)),
        ]
        doing, weights = zip(*things, strict=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            (thing,) = self.chance.choices(doing, weights)
            here = [run_id for run_id in self.runs if run_id not in self.deleted]
            thing(self.chance.choice(here), self.chance.choice(STEPS))
            time.sleep(self.chance.choice([0.0, 0.3, 1.0, 2.5]))

    def end(self) -> None:
        """Let what is under way come to its end."""
        home, rest = self.control.home, self.control.rest
        for run_id in self.runs:
            if run_id in self.deleted:
                continue
            if rest.run_state(DAG, run_id) not in OVER:
                self.ask("mark run", run_id, None, "PATCH", _run(run_id), {"state": "failed"})

            over_since: list[float] = []

            def quiet(run_id: str = run_id, over_since: list[float] = over_since) -> bool:
                states = rest.task_states(DAG, run_id).values()
                if rest.run_state(DAG, run_id) not in OVER:
                    over_since.clear()
                    return False
                over_since.append(time.monotonic())
                # Who clears a task at the moment at which the scheduler ends its run is overwritten by it:
                # the task has no state then, and stays so.
                stays = over_since[-1] - over_since[0] > 15
                return stays or all(state is not None for state in states)

            home.wait_for(f"the end of {run_id}", quiet, timeout=90)
        # A process that was told to end may still have a word to say.
        logged: list[int] = []

        def silent() -> bool:
            with closing(sqlite3.connect(f"file:{home.airflow_db}?mode=ro", uri=True)) as connection:
                logged.extend(connection.execute("SELECT count(*) FROM log").fetchone())
            return logged[-1:] == logged[-2:-1]

        home.wait_for("silence", silent, timeout=90, every=4.0)

    # What people do

    def ask(self, verb: str, run_id: str, step: str | None, method: str, path: str, body: Any = None) -> int:
        actor, began = self.chance.choice(USERS), datetime.now(timezone.utc)
        status: int = self.control.home.rest_as(actor).request(method, f"/api/v2{path}", body).status
        self._note(actor, verb, run_id, step, began, f"{status} {body}")
        return status

    def _note(self, actor: str, verb: str, run_id: str, step: str | None, began: datetime, said: str) -> None:
        ended = datetime.now(timezone.utc)
        self.acts.append(
            Act(actor=actor, verb=verb, run_id=run_id, step=step, began=began, ended=ended, said=said)
        )

    def mark(self, run_id: str, step: str) -> None:
        body = {"new_state": self.chance.choice(OVER)}
        self.ask("mark", run_id, step, "PATCH", f"{_run(run_id)}/taskInstances/{step}", body)

    def mark_run(self, run_id: str, _: str) -> None:
        self.ask("mark run", run_id, None, "PATCH", _run(run_id), {"state": self.chance.choice(OVER)})

    def clear(self, run_id: str, step: str) -> None:
        body = {
            **{"dag_run_id": run_id, "task_ids": [step], "dry_run": False, "only_failed": False},
            "include_downstream": self.chance.random() < 0.5,
        }
        self.ask("clear", run_id, step, "POST", f"/dags/{DAG}/clearTaskInstances", body)

    def clear_dry(self, run_id: str, step: str) -> None:
        body = {"dag_run_id": run_id, "task_ids": [step], "dry_run": True, "only_failed": False}
        self.ask("dry clear", run_id, step, "POST", f"/dags/{DAG}/clearTaskInstances", body)

    def delete(self, run_id: str, _: str) -> None:
        # One of them: what is gone has less to tell.
        if not self.deleted and self.ask("delete", run_id, None, "DELETE", _run(run_id)) == 204:
            self.deleted.append(run_id)

    def command(self, run_id: str, step: str) -> None:
        verb, began = (
            self.chance.choice(["pause", "pause", "resume", "resume", "stop"]),
            datetime.now(timezone.utc),
        )
        timeout = self.chance.choice(["0", "3"])
        _, rows = self.control.louver(verb, run_id, step, "--dag-id", DAG, "--timeout", timeout)
        self._note(CLI_USER, verb, run_id, step, began, str([row.get("became", row) for row in rows]))


def _run(run_id: str) -> str:
    return f"/dags/{DAG}/dagRuns/{quote(run_id, safe='')}"
