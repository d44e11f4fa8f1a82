"""Runs on an Airflow whose parts act when a test says so, and what the audit trail tells of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from louver.definition import ApprovalNode, Definition
from louver.history import HistoryRow, history
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver.policies import RetryPolicy
from louver_provider.airflow_events import events_of
from louver_provider.airflow_history import read_run
from louver_provider.dag_builder import build_dag
from support.airflow_by_hand import AirflowByHand, Killed

__all__ = ["MINUTE", "SECOND", "Body", "Story", "act", "die", "fail", "now", "person", "stage"]

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

Body = Callable[[Any], Any]

BODIES: dict[str, Body] = {}
"""What steps do in this test, by their name; nothing else than to succeed, where it is not here."""


def act(ctx: Any) -> Any:
    """What every step does."""
    return BODIES.get(ctx.name, lambda _: None)(ctx)


def intent() -> dict[str, Any]:
    """What is to be approved."""
    return {"pay": 5}


def fail(ctx: Any) -> Any:
    """Fail."""
    raise RuntimeError("as told")


def die(ctx: Any) -> Any:
    """Vanish."""
    raise Killed


STORY = Definition(
    name="story",
    version="1",
    nodes=[
        Step(name="one", task="tests:act", retry=RetryPolicy(max_attempts=3, delay=SECOND)),
        Step(name="two", task="tests:act", after=["one"]),
        Step(name="three", task="tests:act", after=["two"]),
    ],
)
ASKING = Definition(
    name="asking_story",
    version="1",
    nodes=[
        ApprovalNode(name="ask", of="pay", payload="tests:intent"),
        Step(name="pay", task="tests:act", after=["ask"], approval="ask"),
    ],
)
LATE = Definition(
    name="late_story",
    version="1",
    nodes=[Step(name="one", task="tests:act"), Step(name="two", task="tests:act", after=["one"])],
)


@contextmanager
def stage(*more: DAG) -> Iterator[AirflowByHand]:
    """
    An Airflow with the Dags of this module, a stock one, and others.

    Its time is in the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    """
    with (
        time_machine.travel(datetime(2026, 3, 1, 12, tzinfo=timezone.utc), tick=False) as traveller,
        AirflowByHand.up(pass_time=traveller.shift) as by_hand,
    ):
        for definition in (STORY, ASKING, LATE):
            tasks = {"tests:act": act} | ({"tests:intent": intent} if definition is ASKING else {})
            dag = build_dag(definition, tasks=tasks)
            if definition is LATE:
                # Refused where it is said openly; a cluster policy may set it all the same.
                dag.dagrun_timeout = 5 * SECOND
            by_hand.deploy(dag)
        with DAG(dag_id="stock", schedule=None) as stock:
            EmptyOperator(task_id="one")
        for dag in (stock, *more):
            by_hand.deploy(dag)
        yield by_hand


class Story:
    """One run, and what the audit trail tells of it."""

    def __init__(
        self,
        airflow: AirflowByHand,
        ledger: Ledger,
        name: str = "story",
        *,
        dated: bool = False,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self.airflow = airflow
        self.ledger = ledger
        BODIES.clear()
        self.run = RunKey(name, f"run-{uuid4().hex}")
        airflow.pass_time(MINUTE)
        airflow.trigger("ann", self.run, logical_date=now() if dated else None, conf=conf)
        airflow.schedule()

    def key(self, task_id: str) -> TaskKey:
        return TaskKey(self.run.dag_id, self.run.run_id, task_id)

    def pass_time(self, time: timedelta = SECOND) -> None:
        self.airflow.pass_time(time)

    def work(self, task_id: str, body: Body | None = None) -> str:
        """A worker takes the task up; then the scheduler looks."""
        BODIES.clear()
        if body is not None:
            BODIES[task_id] = body
        self.pass_time()
        ended = self.airflow.work(self.key(task_id))
        self.pass_time()
        self.airflow.schedule()
        return ended

    def work_and_die(self, task_id: str, body: Body = die) -> None:
        """A worker takes the task up, and its process is killed; then the scheduler looks."""
        BODIES.clear()
        BODIES[task_id] = body
        self.pass_time()
        self.airflow.work_and_die(self.key(task_id))
        self.pass_time()
        self.airflow.schedule()

    def finish(self) -> None:
        """Workers take up whatever waits, until there is nothing more to do."""
        BODIES.clear()
        for _ in range(20):
            self.pass_time()
            self.airflow.schedule()
            mine = [key for key in self.airflow.waiting() if key.run == self.run]
            if not mine:
                return
            for key in mine:
                self.airflow.work(key)
        pytest.fail("it does not come to an end")

    def mark(self, user: str, task_id: str, state: str, **more: Any) -> int:
        path = f"{self._path}/taskInstances/{task_id}"
        return self.airflow.ask(user, "PATCH", path, {"new_state": state, **more}).status_code

    def mark_run(self, user: str, state: str) -> int:
        return self.airflow.ask(user, "PATCH", self._path, {"state": state}).status_code

    def clear(self, user: str, *task_ids: str, dry_run: bool = False, **more: Any) -> int:
        body = {
            "dag_run_id": self.run.run_id,
            "task_ids": list(task_ids) or None,
            "dry_run": dry_run,
            "only_failed": False,
            **more,
        }
        return self.airflow.ask(user, "POST", f"/dags/{self.run.dag_id}/clearTaskInstances", body).status_code

    @property
    def _path(self) -> str:
        return f"/dags/{self.run.dag_id}/dagRuns/{self.run.run_id}"

    def rows(self, task_id: str | None = None) -> list[HistoryRow]:
        """The audit trail, of one task where it is named."""
        told = history(self.ledger.list_transitions(self.run), events_of(read_run(self.run)))
        return [row for row in told if task_id in (None, row.task_id)]

    def states(self, task_id: str) -> list[str]:
        """What the ledger has recorded that the task came to."""
        return [str(row.to_state) for row in self.rows(task_id) if row.recorded_by]

    def said(self, task_id: str) -> list[str]:
        """What Airflow knows of the task."""
        return [row.said for row in self.rows(task_id) if row.said]

    def only(self, task_id: str | None, trigger: str) -> HistoryRow:
        """The one row of the task with this trigger."""
        found = [row for row in self.rows() if row.task_id == task_id and row.trigger == trigger]
        assert len(found) == 1, found
        return found[0]


def now() -> datetime:
    return datetime.now(timezone.utc)


def person(row: HistoryRow) -> tuple[str | None, str]:
    """Who did it, and where."""
    return row.actor, row.source
