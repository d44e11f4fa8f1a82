"""What Louver itself does to Airflow's tables is told as the doing of a person, or of the reconciler."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.airflow_by_hand import AirflowByHand, Killed
from support.story import MINUTE, SECOND, Story, act, fail, now, stage

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.nodes import Step
from louver.states import Source
from louver.timeouts import Timeouts
from louver_provider.dag_builder import build_dag
from louver_provider.dags import compensation_dag
from louver_provider.reconciler.rescue import RESCUE_DAG
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings
from louver_provider.task_control import TaskControl

Row = dict[str, Any]
RowsOf = Callable[..., list[Row]]

PAYING, LATE, IMPATIENT = "paying_story", "late_payment_story", "impatient_story"


def steps(name: str, **of_two: Any) -> Definition:
    """A step that does something, and one that comes to grief."""
    two = Step(name="two", task="tests:act", after=["one"], **of_two)
    return Definition(name=name, version="1", nodes=[Step(name="one", task="tests:act"), two])


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    start = Timeouts(start=timedelta(seconds=30))
    dags = [
        build_dag(definition, tasks={"tests:act": act})
        for definition in (steps(PAYING), steps(LATE), steps(IMPATIENT, timeouts=start))
    ]
    # Refused where it is said openly; a cluster policy may set it all the same.
    dags[1].dagrun_timeout = timedelta(minutes=1)
    with stage(*dags, compensation_dag()) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


def pay(undo: Callable[..., Any]) -> Callable[[Any], Any]:
    """A step that does something which is undone so."""

    def body(ctx: Any) -> None:
        ctx.effect("pay", intent={"pay": 5}, perform=lambda key: None, compensate=undo)

    return body


def reconcile(ledger: Ledger) -> list[Any]:
    return list(Reconciler(ledger, load_settings()).round())


def by(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if wanted.items() <= row.items()]


def who(row: Row) -> tuple[str | None, str, str | None]:
    """Who did it, by which way, and why."""
    return row["actor"], row["source"], row["reason"]


def test_a_compensation_that_is_retried_is_told_with_who_wanted_it_and_why(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = Story(airflow, ledger, PAYING)
    # Whatever int is given here, it does not take it.
    story.work("one", pay(int))
    story.work("two", fail)
    story.finish()
    story.pass_time(MINUTE)

    cleared = rows_of("compensations", "retry", story.run.run_id, "--reason", "the bank answers again")

    assert [row["task_id"] for row in cleared] == ["compensate", "outcome"]
    told = "compensations retry: the bank answers again"
    for again in (False, True):
        found = by(rows_of("history", story.run.run_id), trigger="user:cleared")
        assert [(row["step"], *who(row)) for row in found] == [
            ("compensate", getpass.getuser(), "cli", told),
            ("outcome", getpass.getuser(), "cli", told),
        ]
        if not again:
            story.pass_time()
            story.finish()
    assert found[0]["recorded_by"] == "worker"


def test_a_run_that_the_reconciler_has_compensated_tells_so(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = Story(airflow, ledger, LATE)
    story.work("one", pay(str))

    def late(ctx: Any) -> None:
        story.pass_time(5 * MINUTE)
        airflow.schedule()
        raise Killed

    story.work_and_die("two", late)
    for _ in range(4):
        story.pass_time(5 * MINUTE)
        reconcile(ledger)
        airflow.schedule()
    (key,) = [key for key in airflow.waiting() if key.dag_id == RESCUE_DAG]
    assert airflow.work(key) == "success"
    story.pass_time()
    airflow.schedule()

    rows = by(rows_of("history", story.run.run_id), step="compensate", map_index="1")

    words = [(row["to"], row["airflow"]) for row in rows]
    assert words == [
        (None, "created"),
        ("queued", "scheduled"),
        (None, "queued"),
        ("starting", "running"),
        ("running", None),
        ("succeeded", "success"),
    ]
    assert who(rows[0]) == (None, "reconciler", f"run {key.run_id} of {RESCUE_DAG}")
    assert rows[0]["trigger"] == "louver:compensating"
    (made,) = by(rows_of("history", key.run_id, "--dag-id", RESCUE_DAG), airflow="created")
    assert made["source"] == "reconciler"


def park(story: Story, client: TaskControl) -> None:
    """Its first step is paused, and gives its slot back."""

    def body(ctx: Any) -> None:
        client.pause(story.run, "one", timeout=timedelta(0))
        story.pass_time(2 * SECOND)
        ctx.checkpoint(1)

    assert story.work("one", body) == "awaiting_input"
    story.pass_time(MINUTE)
    story.airflow.schedule()


@pytest.mark.parametrize("verb", [Verb.RESUME, Verb.STOP])
def test_who_wakes_a_paused_step_by_a_command_is_known(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, verb: Verb
) -> None:
    story = Story(airflow, ledger)
    client = TaskControl(actor="bob", source=Source.CLI, ledger=ledger)
    park(story, client)

    client.ask(verb, story.run, "one", timeout=timedelta(0))

    (woken,) = by(rows_of("history", story.run.run_id), trigger="user:answered")
    assert (woken["step"], *who(woken)) == ("one", "bob", "cli", str(verb))
    story.pass_time()
    airflow.schedule()
    story.work("one")
    rows = rows_of("history", story.run.run_id, "one")
    assert by(rows, trigger="user:answered") == [woken]
    (done,) = by(rows, trigger=f"user:{verb}")
    assert (done["actor"], done["source"], done["recorded_by"]) == ("bob", "cli", "worker")
    assert [who(row)[:2] for row in by(rows, trigger="user:pause")] == [("bob", "cli")]


def test_what_the_reconciler_passes_on_is_told_as_such(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = Story(airflow, ledger)
    park(story, TaskControl(actor="bob", source=Source.CLI, ledger=ledger))
    # Whoever sent it is gone before it could wake the task.
    asked = CommandRequest(
        command_id="c1", task=story.key("one"), verb=Verb.RESUME, actor="bob", reason=None, source=Source.CLI
    )
    ledger.send_command(asked, now=now())
    story.pass_time(MINUTE)

    reconcile(ledger)

    (woken,) = by(rows_of("history", story.run.run_id), airflow="answered")
    assert who(woken) == ("bob", "reconciler", "resume")


def test_a_step_that_the_reconciler_ends_is_told_once_and_as_its_doing(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = Story(airflow, ledger, IMPATIENT)
    story.work("one")
    story.pass_time(MINUTE)

    assert reconcile(ledger)
    story.airflow.schedule()

    ended = by(rows_of("history", story.run.run_id, "two"), airflow="failed")
    assert [(row["from"], row["to"], row["trigger"]) for row in ended] == [
        ("queued", "failed", "timeout:start")
    ]
    actor, source, reason = who(ended[0])
    assert (actor, source) == (None, "reconciler")
    assert "waited to start" in (reason or "")
    assert "one of" not in json.dumps(ended)


def test_what_a_person_starts_to_compensate_by_hand_is_their_doing(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    run = RunKey(RESCUE_DAG, "by-hand")
    airflow.trigger("bob", run)
    (made,) = by(rows_of("history", run.run_id), airflow="created")
    assert (made["trigger"], *who(made)) == ("user:triggered", "bob", "api", "by rest_api")
    assert airflow.task(TaskKey(RESCUE_DAG, run.run_id, "compensate")) is not None
