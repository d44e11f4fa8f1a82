"""
A long random story of a run, and the audit trail of it held against what a witness has seen.

Everything happens in Airflow's own code, see :mod:`support.airflow_by_hand`. The witness looks at the tables
before and after each thing that happens, so he knows what came about and when; the trail has to tell all that
Airflow still has, in order, once, and may call no time exact at which it did not happen.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import time_machine
from airflow.sdk.exceptions import AirflowSkipException
from support.airflow_by_hand import AirflowByHand, Killed
from support.witness import Deed, Witness, short

from louver.definition import ApprovalNode, Definition
from louver.history import history
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.nodes import Step
from louver.policies import RetryPolicy
from louver_provider.airflow_events import events_of
from louver_provider.airflow_history import read_run
from louver_provider.dag_builder import build_dag
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings
from louver_provider.task_control import TaskControl

SECOND = timedelta(seconds=1)
STEPS = int(os.environ.get("LOUVER_SCENARIO_STEPS", "120"))
SEEDS = [int(seed) for seed in os.environ.get("LOUVER_SCENARIO_SEEDS", "1,2,3").split(",")]
PEOPLE = ("ann", "bob", "cid")

RANDOM = Definition(
    name="random_story",
    version="1",
    nodes=[
        Step(name="a", task="tests:act", retry=RetryPolicy(max_attempts=2, delay=SECOND)),
        Step(name="b", task="tests:act", after=["a"]),
        ApprovalNode(name="ask", of="pay", payload="tests:intent", after=["a"]),
        Step(name="pay", task="tests:act", after=["ask"], approval="ask"),
        Step(name="c", task="tests:act", after=["b", "pay"], retry=RetryPolicy(max_attempts=3, delay=SECOND)),
    ],
)

LIVING: list[Callable[[Any], Any]] = []


def act(ctx: Any) -> Any:
    """What every step does: what the story says."""
    return LIVING[-1](ctx)


def intent() -> dict[str, Any]:
    """What is to be approved."""
    return {"pay": 5}


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    # In the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    with (
        time_machine.travel(datetime(2026, 4, 1, 12, tzinfo=timezone.utc), tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        by_hand.deploy(build_dag(RANDOM, tasks={"tests:act": act, "tests:intent": intent}))
        yield by_hand


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow: AirflowByHand) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened
    airflow.empty()


class Story:
    """Things that happen at random; the same for the same seed."""

    def __init__(self, airflow: AirflowByHand, ledger: Ledger, seed: int) -> None:
        self.airflow = airflow
        self.ledger = ledger
        self.chance = random.Random(seed)
        self.witness = Witness(ledger=ledger)
        self.told: list[str] = []
        self.runs = [RunKey("random_story", f"run-{seed}-{number}") for number in range(3)]
        for run in self.runs:
            self.witness.runs.append(run)
            self.happen(self.trigger, run)

    def go_on(self) -> None:
        """Something happens."""
        doing, weight = zip(*self.THINGS, strict=True)
        (name,) = self.chance.choices(doing, weight)
        self.happen(getattr(self, name))

    def happen(self, thing: Callable[..., None], *given: Any) -> None:
        self.pass_some_time()
        with self.witness.watch():
            self.told.append(f"{datetime.now(timezone.utc):%H:%M:%S.%f} {thing.__name__}")
            thing(*given)

    def pass_some_time(self) -> None:
        with self.witness.watch():
            pass
        seconds = self.chance.choice([0.002, 0.05, 0.4, 1.5, 4, 40, 400])
        self.airflow.pass_time(timedelta(seconds=seconds))
        # Nothing has happened meanwhile; what happens next, happens from now on.
        self.witness.look()

    THINGS = (
        ("schedule", 30),
        ("work", 30),
        ("work_and_die", 4),
        ("start_only", 2),
        ("miss_heartbeats", 3),
        ("forget", 2),
        ("mark", 6),
        ("mark_run", 2),
        ("clear", 5),
        ("clear_dry", 2),
        ("answer", 10),
        ("command", 6),
        ("reconcile", 4),
        ("delete_and_make_again", 1),
    )

    # Whoever acts

    def schedule(self) -> None:
        self.airflow.schedule()

    def reconcile(self) -> None:
        list(Reconciler(self.ledger, load_settings()).round())

    def miss_heartbeats(self) -> None:
        self.airflow.miss_heartbeats()

    def work(self) -> None:
        if waiting := self.airflow.waiting():
            LIVING.append(self.live)
            key = self.chance.choice(waiting)
            self.told[-1] += f" {key.run_id}/{key.task_id}: {self.airflow.work(key)}"
            LIVING.pop()

    def work_and_die(self) -> None:
        waiting = [key for key in self.airflow.waiting() if key.task_id in ("a", "b", "c")]
        if not waiting:
            return

        def body(ctx: Any) -> None:
            self.interlude()
            raise Killed

        LIVING.append(body)
        key = self.chance.choice(waiting)
        if self.may_begin(key):
            self.told[-1] += f" {key.run_id}/{key.task_id}"
            self.airflow.work_and_die(key)
        LIVING.pop()

    def may_begin(self, key: TaskKey) -> bool:
        """Whether its code will run: it is wanted, not over, and nothing was asked of it."""
        row, record = self.airflow.task(key), self.ledger.get_task(key)
        cleared = record is not None and row is not None and row.max_tries > record.max_tries
        ended = record is not None and record.state.terminal and not cleared
        wanted = row is not None and row.state == "queued" and row.next_method is None
        open_commands = [one for one in self.ledger.list_commands(key.run) if one.closed_at is None]
        return wanted and not ended and not open_commands and (record is None or record.losses < 2)

    def live(self, ctx: Any) -> Any:
        """What the code of a step does."""
        self.interlude()
        ctx.checkpoint(self.chance.randrange(9))
        ending = self.chance.random()
        if ending < 0.2:
            raise RuntimeError("as told")
        if ending < 0.25:
            raise AirflowSkipException("as told")
        return self.chance.randrange(9)

    def interlude(self) -> None:
        """While a step runs, others act."""
        for _ in range(self.chance.choice([0, 0, 0, 1, 2])):
            self.happen(
                getattr(self, self.chance.choice(["schedule", "mark", "clear", "command", "mark_run"]))
            )

    def start_only(self) -> None:
        if waiting := self.airflow.waiting():
            key = self.chance.choice(waiting)
            if self.may_begin(key):
                self.airflow.start_only(key)

    def forget(self) -> None:
        if waiting := self.airflow.waiting():
            self.airflow.forget(self.chance.choice(waiting))

    # People

    def ask(
        self,
        verb: str,
        run: RunKey,
        method: str,
        path: str,
        body: Any = None,
        *,
        tasks: set[str] | None = None,
    ) -> int:
        actor, began = self.chance.choice(PEOPLE), datetime.now(timezone.utc)
        status = self.airflow.ask(actor, method, f"/dags/{run.dag_id}{path}", body).status_code
        self.told[-1] += f" {actor} {verb} {run.run_id} {path} {body}: {status}"
        named = None if tasks is None else frozenset(tasks)
        self.witness.deeds.append(
            Deed(actor=actor, verb=verb, run=run, began=began, ended=datetime.now(timezone.utc), tasks=named)
        )
        return status

    def any_run(self) -> RunKey:
        return self.chance.choice(self.runs)

    def trigger(self, run: RunKey) -> None:
        self.airflow.trigger(self.chance.choice(PEOPLE), run)

    def mark(self) -> None:
        run, task = self.any_run(), self.chance.choice(RANDOM.names)
        wide = self.chance.random() < 0.2
        body = {"new_state": self.chance.choice(["success", "failed", "skipped"]), "include_downstream": wide}
        path = f"/dagRuns/{run.run_id}/taskInstances/{task}"
        self.ask("mark", run, "PATCH", path, body)

    def mark_run(self) -> None:
        run = self.any_run()
        body = {"state": self.chance.choice(["success", "failed"])}
        self.ask("mark run", run, "PATCH", f"/dagRuns/{run.run_id}", body)

    def clear(self, *, dry_run: bool = False) -> None:
        run = self.any_run()
        names = self.chance.choice([None, *([name] for name in RANDOM.names)])
        body = {
            "dag_run_id": run.run_id,
            "task_ids": names,
            "dry_run": dry_run,
            "only_failed": self.chance.random() < 0.3,
            "include_downstream": self.chance.random() < 0.5,
        }
        if dry_run:
            self.airflow.ask("dry", "POST", f"/dags/{run.dag_id}/clearTaskInstances", body)
        else:
            self.ask("clear", run, "POST", "/clearTaskInstances", body)

    def clear_dry(self) -> None:
        self.clear(dry_run=True)

    def answer(self) -> None:
        parked = [
            TaskKey(run.dag_id, run.run_id, name)
            for run in self.runs
            for name in RANDOM.names
            if (row := self.airflow.task(TaskKey(run.dag_id, run.run_id, name))) is not None
            and row.state == "awaiting_input"
        ]
        if not parked:
            return
        key = self.chance.choice(parked)
        question = self.airflow.ask("ann", "GET", f"{_place(key)}/hitlDetails").json()
        # One that was marked, cleared and parked again may have no question left.
        option = self.chance.choice(question.get("options", ["Stop"]))
        sent = {"chosen_options": [option], "params_input": {}}
        path = _place(key).removeprefix(f"/dags/{key.dag_id}")
        self.ask("answer", key.run, "PATCH", f"{path}/hitlDetails", sent, tasks={key.task_id})

    def command(self) -> None:
        run = self.any_run()
        verb = self.chance.choice([Verb.PAUSE, Verb.PAUSE, Verb.RESUME, Verb.RESUME, Verb.STOP])
        client = TaskControl(actor=self.chance.choice(PEOPLE), ledger=self.ledger)
        if self.ledger.get_run(run) is not None:
            client.ask(verb, run, self.chance.choice(RANDOM.names), timeout=timedelta(0), wait=False)

    def delete_and_make_again(self) -> None:
        run = self.any_run()
        self.witness.deleting = True
        if self.ask("delete", run, "DELETE", f"/dagRuns/{run.run_id}") == 204:
            self.happen(self.trigger, run)
        self.witness.look()
        self.witness.deleting = False


def _place(key: TaskKey) -> str:
    return f"/dags/{key.dag_id}/dagRuns/{key.run_id}/taskInstances/{key.task_id}/-1"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_trail_tells_what_a_witness_has_seen(airflow: AirflowByHand, ledger: Ledger, seed: int) -> None:
    story = Story(airflow, ledger, seed)
    for _ in range(STEPS):
        story.go_on()
    for run in story.runs:
        told = history(ledger.list_transitions(run), events_of(read_run(run)))
        faults = [*story.witness.faults(run, told), *ledger.verify_run(run).findings]
        assert not faults, "\n".join([*story.told, *map(short, told), *map(str, faults)])
        assert not [row for row in told if row.actor == "dry"]
