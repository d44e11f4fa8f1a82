"""What a process learns from Airflow about the other steps of its run, over a real ledger and a real Dag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from louver.closing import overview
from louver.definition import Definition, Step
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.sessions import Change, Claim
from louver.states import RunState, Source, TaskState
from louver.steps import run_start
from louver_provider.airflow_states import cancel_others, settle_from_airflow
from louver_provider.dag_builder import build_dag

S = TaskState
RUN = RunKey("settled", "r")
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def work() -> None:
    """What a step does."""


def each(row: int) -> None:
    """What a mapped step does."""


class Silent:
    """A log that keeps nothing."""

    def tell(self, action: str, message: str, *args: object) -> None:
        pass


class Scene:
    """A run whose tasks have ended, each in its ledger, and what Airflow shows of them."""

    def __init__(self, ledger: Ledger, *nodes: Step, **given: Any) -> None:
        self.ledger = ledger
        self.definition = Definition(name=RUN.dag_id, version="1", nodes=nodes, **given)
        start = run_start(self.definition, RUN)
        ledger.open_run(start, now=NOW)
        self.process: Any = SimpleNamespace(start=start, ledger=ledger, log=Silent(), key=key("nobody"))
        functions = {node.name: each if node.mapped else work for node in nodes}
        self.dag = build_dag(self.definition, tasks=functions)

    def end(self, name: str, to: TaskState, index: int = -1, value: Any = None) -> None:
        claim = Claim(try_number=1, max_tries=5, process="p", source=Source.WORKER)
        token = self.ledger.open_task(key(name, index), claim, now=NOW).token
        self.ledger.advance(token, Change(to=S.RUNNING, trigger="executor:launched"), now=NOW)
        if to is S.SUCCEEDED:
            self.ledger.complete(token, Change(to=to, trigger="runtime:completed"), value, now=NOW)
        else:
            self.ledger.advance(token, Change(to=to, trigger="runtime:error"), now=NOW)

    def seen_by(self, states: Mapping[str, str]) -> Any:
        """A task that is told these by Airflow, as label to state."""
        return SimpleNamespace(
            dag_id=RUN.dag_id,
            run_id=RUN.run_id,
            task=SimpleNamespace(dag=self.dag),
            get_task_states=lambda **_: {RUN.run_id: dict(states)},
        )

    def trail(self, name: str) -> list[tuple[TaskState, str]]:
        rows = self.ledger.list_transitions(RUN, task_id=name)
        return [(row.to_state, row.trigger) for row in rows if row.chain == "side"]


def key(name: str, index: int = -1) -> TaskKey:
    return TaskKey(RUN.dag_id, RUN.run_id, name, index)


def step(name: str, *after: str, **given: Any) -> Step:
    return Step(name=name, task="t:work", after=after, **given)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


def test_what_is_skipped_now_did_not_succeed_before_a_clear_that_nobody_recorded(ledger: Ledger) -> None:
    scene = Scene(ledger, step("one"), step("two", "one"))
    scene.end("two", S.SUCCEEDED)
    scene.end("one", S.FAILED)

    settle_from_airflow(scene.seen_by({"one": "failed", "two": "upstream_failed"}), scene.process)

    assert scene.trail("two") == [(S.PENDING, "user:cleared"), (S.SKIPPED, "orchestrator:upstream")]
    record = ledger.get_task(key("two"))
    assert record is not None
    assert record.generation == 2


def test_what_ended_of_itself_keeps_its_end(ledger: Ledger) -> None:
    scene = Scene(ledger, step("one"), step("two", "one"))
    scene.end("one", S.SUCCEEDED)
    scene.end("two", S.FAILED)
    # Airflow ended the run while the process of the step was about to say so.
    settle_from_airflow(scene.seen_by({"one": "success", "two": "skipped"}), scene.process)
    assert scene.trail("two") == []


def test_what_airflow_skips_behind_a_failure_is_cancelled_where_the_workflow_fails_fast(
    ledger: Ledger,
) -> None:
    scene = Scene(ledger, step("bad"), step("behind", "bad"), aggregation="fail_fast")
    scene.end("bad", S.FAILED)
    settle_from_airflow(scene.seen_by({"bad": "failed", "behind": "upstream_failed"}), scene.process)
    assert scene.trail("behind") == [(S.CANCELLED, "orchestrator:cascade")]


def test_what_failed_before_a_clear_cancels_nothing_now(ledger: Ledger) -> None:
    scene = Scene(ledger, step("route"), step("bad", "route"), step("busy"), aggregation="fail_fast")
    scene.end("bad", S.FAILED)
    skipped = Change(to=S.SKIPPED, trigger="user:marked")
    ledger.mark(key("route"), skipped, session=0, source=Source.API, now=NOW)
    seen = scene.seen_by({"route": "skipped", "bad": "skipped", "busy": "queued"})
    cancel_others(seen, scene.process)
    assert ledger.get_task(key("busy")) is None
    assert scene.trail("bad")[-1] == (S.SKIPPED, "orchestrator:upstream")


def test_an_index_beyond_the_list_is_no_reason_for_anything(ledger: Ledger) -> None:
    rows, mapped = step("rows"), Step(name="each", task="t:each", over={"row": "rows"})
    scene = Scene(ledger, rows, mapped, step("join", "each"))
    scene.end("rows", S.SUCCEEDED, value=[1, 2])
    for index, state in enumerate((S.SUCCEEDED, S.SUCCEEDED, S.FAILED)):
        scene.end("each", state, index)
    shown = {"rows": "success", "each_0": "success", "each_1": "success", "each_2": "removed"}

    settle_from_airflow(scene.seen_by({**shown, "join": "skipped"}), scene.process)

    # Nothing upstream explains it: somebody ended it from outside.
    assert scene.trail("join") == [(S.CANCELLED, "orchestrator:cascade")]
    assert overview(RUN, ledger).state is RunState.CANCELLED
