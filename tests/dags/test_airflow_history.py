"""
The audit trail over Airflow's real tables: what people and the scheduler do, once, with who and when.

The parts are Airflow's own (scheduler, both APIs, task runner); the executor and the time are the test's.
"""

from __future__ import annotations

import getpass
import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.airflow_by_hand import AirflowByHand, Killed
from support.story import MINUTE, SECOND, Story, fail, now, person, stage

from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.states import Precision, Source, TaskState
from louver_provider import recorder
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.operators.base import LouverOperator
from louver_provider.operators.names import WITH_STATES
from louver_provider.operators.step import StepOperator
from louver_provider.operators.step_task import StepTaskOperator
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with stage() as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


@pytest.fixture
def story(airflow: AirflowByHand, ledger: Ledger) -> Story:
    return Story(airflow, ledger)


def test_a_step_is_told_with_what_airflow_knows_of_it(story: Story) -> None:
    story.work("one")
    told = [(row.from_state, row.to_state, row.said, row.precision) for row in story.rows("one")]
    state = TaskState
    exact = Precision.EXACT
    assert told == [
        (state.PENDING, state.QUEUED, "scheduled", exact),
        (None, None, "queued", exact),
        (state.QUEUED, state.STARTING, "running", exact),
        (state.STARTING, state.RUNNING, None, exact),
        (state.RUNNING, state.SUCCEEDED, "success", exact),
    ]


def test_when_it_was_queued_is_known_from_airflow_and_stays_bounded_in_the_ledger(story: Story) -> None:
    scheduled = now()
    story.work("one")
    row = story.rows("one")[0]
    (stored,) = [one for one in story.ledger.list_transitions(story.run) if one.to_state is TaskState.QUEUED]
    assert (row.at, row.precision, row.recorded_by) == (scheduled, Precision.EXACT, "worker")
    assert (stored.precision, row.recorded_at) == (Precision.BOUNDED, stored.at)
    assert stored.at > scheduled


def test_the_run_itself_is_told(story: Story) -> None:
    began = now()
    story.finish()
    told = [(row.said, row.actor) for row in story.rows() if row.task_id is None]
    assert told == [("created", "ann"), ("queued", None), ("running", None), ("success", None)]
    created = story.only(None, "user:triggered")
    assert (person(created), created.at) == (("ann", "api"), began)


def test_a_dry_clear_leaves_nothing_and_a_clear_one_row(story: Story) -> None:
    """Case C02."""
    story.finish()
    for _ in range(3):
        assert story.clear("bob", "two", dry_run=True) == 200
        story.pass_time()
    assert [row for row in story.rows() if row.actor == "bob"] == []
    cleared = now()
    assert story.clear("bob", "two") == 200
    (row,) = [row for row in story.rows() if row.actor == "bob"]
    assert (row.task_id, row.trigger, person(row)) == ("two", "user:cleared", ("bob", "api"))
    assert (row.from_state, row.to_state) == (TaskState.SUCCEEDED, TaskState.PENDING)
    assert (row.recorded_by, row.at.replace(microsecond=0)) == ("api", cleared.replace(microsecond=0))
    story.finish()
    assert story.states("two")[-5:] == ["pending", "queued", "starting", "running", "succeeded"]
    assert len([row for row in story.rows() if row.actor == "bob"]) == 1


def test_a_clear_with_downstream_is_told_of_each_task_that_it_reached(story: Story) -> None:
    story.finish()
    assert story.clear("bob", "two", include_downstream=True) == 200
    cleared = {row.task_id for row in story.rows() if row.trigger == "user:cleared" and row.actor == "bob"}
    assert cleared == {"two", "three", "compensate", "outcome"}


def test_a_failing_step_is_tried_twice_more_and_fails_once(story: Story) -> None:
    """Cases C05 and C07: each row says what it was and what it became."""
    for _ in range(3):
        assert story.work("one", fail) in ("up_for_retry", "failed")
        story.pass_time(MINUTE)
        story.airflow.schedule()
    assert [word for word in story.said("one") if word in ("up_for_retry", "failed")] == [
        "up_for_retry",
        "up_for_retry",
        "failed",
    ]
    ends = [row for row in story.rows("one") if row.from_state is TaskState.RUNNING]
    assert [str(row.to_state) for row in ends] == ["retry_wait", "retry_wait", "failed"]
    assert {row.precision for row in ends} == {Precision.EXACT}


@pytest.mark.parametrize(
    ("state", "to"),
    [("failed", TaskState.FAILED), ("success", TaskState.SUCCEEDED), ("skipped", TaskState.SKIPPED)],
)
def test_who_marks_a_running_step_is_known(story: Story, state: str, to: TaskState) -> None:
    """Case C06; and it is no lost step, whoever killed its process."""
    marked: list[datetime] = []

    def body(ctx: Any) -> None:
        story.pass_time()
        marked.append(now())
        assert story.mark("bob", "one", state) == 200
        story.pass_time()
        raise Killed

    story.work_and_die("one", body)
    row = story.only("one", "user:marked")
    assert (row.from_state, row.to_state, row.at) == (TaskState.RUNNING, to, marked[0])
    assert (person(row), row.precision, row.recorded_by) == (("bob", "api"), Precision.EXACT, "api")
    assert row.reason == f"patch_task_instance: {state}"
    assert story.states("one") == ["queued", "starting", "running", str(to)]


def test_a_process_that_goes_on_after_a_mark_writes_nothing_more(story: Story) -> None:
    def body(ctx: Any) -> str:
        assert story.mark("bob", "one", "failed") == 200
        return "too late"

    story.work("one", body)
    assert story.states("one")[-1] == "failed"


def test_who_marks_a_finished_step_is_known(story: Story) -> None:
    story.finish()
    marked = now()
    assert story.mark("bob", "two", "failed") == 200
    row = story.only("two", "user:marked")
    assert (row.from_state, row.to_state, row.at) == (TaskState.SUCCEEDED, TaskState.FAILED, marked)
    assert (person(row), row.said) == (("bob", "api"), "failed")
    assert not story.ledger.verify_run(story.run).findings


def test_a_mark_that_changes_nothing_is_told_as_asked_for_and_not_as_done(story: Story) -> None:
    story.finish()
    assert story.mark("bob", "two", "success") == 409
    (row,) = [row for row in story.rows() if row.actor == "bob"]
    assert (row.task_id, row.to_state, row.recorded_by) == ("two", None, None)
    assert "no effect" in (row.reason or "")


def test_a_step_that_never_ran_may_be_marked(story: Story) -> None:
    story.work("one")
    assert story.mark("bob", "three", "success") == 200
    row = story.only("three", "user:marked")
    assert (row.from_state, row.to_state, person(row)) == (
        TaskState.PENDING,
        TaskState.SUCCEEDED,
        ("bob", "api"),
    )
    story.finish()
    assert story.states("three") == ["succeeded"]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_who_marks_a_whole_run_is_known_of_every_step(story: Story, state: str) -> None:
    def body(ctx: Any) -> None:
        assert story.mark_run("bob", state) == 200
        raise Killed

    story.work_and_die("one", body)
    to = {"failed": TaskState.FAILED, "success": TaskState.SUCCEEDED}[state]
    rows = {name: story.rows(name)[-1] for name in ("one", "two", "three")}
    # Where somebody wants it to have failed, no step looks as if it had rightly been left out.
    rest = TaskState.CANCELLED if state == "failed" else TaskState.SKIPPED
    assert {name: row.to_state for name, row in rows.items()} == {"one": to, "two": rest, "three": rest}
    assert {person(row) for row in rows.values()} == {("bob", "api")}
    assert {row.reason for row in rows.values()} == {f"patch_dag_run: the whole run {state}"}
    assert {row.said for row in rows.values()} == {state, "skipped"}
    story.finish()
    assert story.states("two") == [str(rest)]


def test_a_clear_from_the_command_line_is_told_with_its_user(airflow: AirflowByHand, ledger: Ledger) -> None:
    """Case C06: nobody saw it; the step's next process recorded it, and Airflow's log says who it was."""
    story = Story(airflow, ledger, dated=True)
    story.finish()
    story.pass_time(MINUTE)
    story.airflow.cli("tasks", "clear", "story", "--yes", "--task-regex", "two")
    story.pass_time()
    assert story.only("two", "user:cleared").recorded_by is None
    story.finish()
    row = story.only("two", "user:cleared")
    assert (person(row), row.recorded_by) == ((getpass.getuser(), "cli"), "worker")
    assert (row.from_state, row.to_state) == (TaskState.SUCCEEDED, TaskState.PENDING)
    assert row.since is not None
    assert row.at - row.since < SECOND


@pytest.mark.parametrize("raised", [0, 1])
def test_a_running_step_that_is_cleared_goes_on_and_loses_nothing(story: Story, raised: int) -> None:
    """A scheduler that learns that its process is gone may raise Airflow's tries, long after the clear."""

    def body(ctx: Any) -> None:
        story.pass_time()
        assert story.clear("bob", "one") == 200
        raise Killed

    story.work_and_die("one", body)
    story.pass_time(MINUTE)
    waiting = story.airflow.task(story.key("one"))
    assert waiting is not None
    story.airflow.rows.show(story.key("one"), waiting.state, max_tries=waiting.max_tries + raised)
    story.airflow.schedule()
    assert story.work("one") == "success"
    record = story.ledger.get_task(story.key("one"))
    assert record is not None
    assert (record.generation, record.attempt, record.losses) == (1, 2, 0)
    row = story.only("one", "executor:restarting")
    assert (row.from_state, row.to_state, row.said) == (TaskState.RUNNING, TaskState.QUEUED, "cleared")
    assert person(row) == ("bob", "api")
    assert [row for row in story.rows("one") if row.trigger == "user:cleared"] == []


def test_a_restarted_step_that_is_cleared_again_before_it_begins_is_told_twice(story: Story) -> None:
    story.work("one")

    def body(ctx: Any) -> None:
        story.pass_time()
        assert story.clear("bob", "two") == 200
        raise Killed

    story.work_and_die("two", body)
    story.pass_time(MINUTE)
    assert story.clear("cid", "two") == 200
    story.finish()
    clears = [(row.trigger, row.actor) for row in story.rows("two") if row.said == "cleared"]
    assert clears == [("executor:restarting", "bob"), ("user:cleared", "cid")]
    assert story.states("two")[-2:] == ["running", "succeeded"]


def test_a_killed_process_is_told_when_airflow_saw_it(story: Story) -> None:
    story.work_and_die("one")
    seen = now()
    story.pass_time(10 * MINUTE)
    story.airflow.schedule()
    story.work("one")
    row = story.only("one", "runtime:attempt_lost")
    assert (row.from_state, row.to_state, row.said) == (
        TaskState.RUNNING,
        TaskState.RETRY_WAIT,
        "up_for_retry",
    )
    assert (row.at, row.precision, row.recorded_by) == (seen, Precision.EXACT, "worker")
    assert row.recorded_at is not None
    assert row.recorded_at > seen


def test_a_supervisor_that_gives_no_sign_of_life_is_told(story: Story) -> None:
    story.pass_time()
    story.airflow.start_only(story.key("one"))
    story.pass_time(10 * MINUTE)
    story.airflow.miss_heartbeats()
    told = story.said("one")
    assert told[:4] == ["scheduled", "queued", "running", "heartbeat timeout"]
    assert told.count("up_for_retry") == 1
    assert "failed" not in told


def test_what_an_upstream_kept_from_running_is_told_when_airflow_gave_it_up(story: Story) -> None:
    for _ in range(3):
        story.work("one", fail)
        story.pass_time(MINUTE)
        story.airflow.schedule()
    given_up = next(row.at for row in story.rows("two") if row.said == "upstream_failed")
    story.finish()
    for name in ("two", "three"):
        row = story.only(name, "orchestrator:upstream")
        assert (row.from_state, row.to_state, row.said) == (
            TaskState.PENDING,
            TaskState.SKIPPED,
            "upstream_failed",
        )
        assert (row.precision, row.recorded_by) == (Precision.EXACT, "worker")
    assert story.only("two", "orchestrator:upstream").at == given_up


def test_what_airflow_overwrote_is_a_gap(airflow: AirflowByHand, ledger: Ledger) -> None:
    """A task that was parked is scheduled and queued again, over what stood there."""
    story = Story(airflow, ledger, "asking_story")
    story.work("ask")
    story.pass_time(MINUTE)
    airflow.schedule()
    path = f"/dags/asking_story/dagRuns/{story.run.run_id}/taskInstances/ask/-1/hitlDetails"
    answered = now()
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    assert airflow.ask("bob", "PATCH", path, answer).status_code == 200
    story.pass_time()
    airflow.schedule()
    story.work("ask")
    first, second = [row for row in story.rows("ask") if row.to_state is TaskState.QUEUED]
    assert (first.precision, first.said_at) == (Precision.BOUNDED, None)
    assert (first.said, first.reason) == ("scheduled, queued", "not known: overwritten by Airflow")
    assert (second.precision, second.at, second.said) == (Precision.EXACT, answered, "scheduled")
    assert person(story.only("ask", "user:answered")) == ("bob", "api")
    assert story.only("ask", "approval:granted").actor == "bob"


def test_a_run_that_timed_out_says_so_and_closes_its_steps(airflow: AirflowByHand, ledger: Ledger) -> None:
    """Cases C08 and D08: Airflow skips them without an end and without a word to anybody."""
    story = Story(airflow, ledger, "late_story")
    ended: list[datetime] = []

    def body(ctx: Any) -> None:
        story.pass_time(MINUTE)
        ended.append(now())
        airflow.schedule()
        raise Killed

    story.work_and_die("one", body)
    story.pass_time(5 * MINUTE)
    assert list(Reconciler(ledger, load_settings()).round())
    last = story.rows("one")[-1]
    assert (last.from_state, last.to_state, last.said) == (TaskState.RUNNING, TaskState.LOST, "skipped")
    assert (last.since, last.at) == (ended[0], ended[0])
    assert "dagrun_timeout" in (last.reason or "")
    waiting = story.rows("two")[-1]
    assert (waiting.said, waiting.at) == ("skipped", ended[0])
    assert "dagrun_timeout" in (waiting.reason or "")
    assert [row.said for row in story.rows() if row.task_id is None][-1] == "failed"


def test_a_run_that_is_deleted_and_made_again_keeps_its_past(story: Story) -> None:
    story.finish()
    story.pass_time(MINUTE)
    deleted = now()
    path = f"/dags/story/dagRuns/{story.run.run_id}"
    assert story.airflow.ask("bob", "DELETE", path).status_code == 204
    gone = story.only(None, "user:deleted")
    assert (person(gone), gone.at) == (("bob", "api"), deleted)
    assert story.said("one")[:2] == ["scheduled, queued", "running"]
    story.pass_time(MINUTE)
    story.airflow.trigger("cid", story.run)
    story.airflow.schedule()
    story.finish()
    assert person(story.only(None, "user:triggered")) == ("cid", "api")
    assert story.states("one") == [
        *("queued", "starting", "running", "succeeded"),
        *("pending", "queued", "starting", "running", "succeeded"),
    ]
    again = story.only("one", "user:cleared")
    assert again.reason == "the run was deleted and made again"
    assert not story.ledger.verify_run(story.run).findings


def test_a_run_that_is_not_deleted_while_it_runs_is_deleted_once(story: Story) -> None:
    path = f"/dags/story/dagRuns/{story.run.run_id}"
    assert story.airflow.ask("bob", "DELETE", path).status_code == 409
    story.finish()
    story.pass_time(MINUTE)
    assert story.airflow.ask("cid", "DELETE", path).status_code == 204
    assert person(story.only(None, "user:deleted")) == ("cid", "api")
    (refused,) = [row for row in story.rows() if row.actor == "bob"]
    assert (refused.trigger, refused.said) == ("user:asked", "delete_dag_run")
    assert "no effect" in (refused.reason or "")


def test_who_comes_second_has_changed_nothing(story: Story) -> None:
    def body(ctx: Any) -> None:
        assert story.mark("bob", "one", "failed") == 200
        story.pass_time()
        assert story.mark("cid", "one", "failed") == 409
        raise Killed

    story.work_and_die("one", body)
    marked = [row for row in story.rows("one") if row.to_state is TaskState.FAILED]
    assert [row.actor for row in marked] == ["bob"]
    (late,) = [row for row in story.rows() if row.actor == "cid"]
    assert late.recorded_by is None


def test_a_task_that_is_given_up_before_it_began_is_told(story: Story) -> None:
    story.airflow.forget(story.key("one"))
    story.pass_time()
    story.airflow.schedule()
    assert "state mismatch" in story.said("one")


def test_the_names_of_operators_with_states_are_those_in_airflows_rows() -> None:
    known = {StepOperator.__name__, *(kind.__name__ for kind in StepOperator.__subclasses__())}
    assert known | {"CompensateOperator", StepTaskOperator.__name__} == set(WITH_STATES)
    others = {kind.__name__ for kind in LouverOperator.__subclasses__()}
    assert set(WITH_STATES) < {*known, *others, StepTaskOperator.__name__}


class TestWithoutALedger:
    """A ledger that is down is no trouble of Airflow's."""

    @pytest.fixture
    def told(self, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
        caplog.set_level(logging.INFO, "louver_provider")
        return lambda: [
            record.getMessage() for record in caplog.records if record.name.startswith("louver_provider")
        ]

    @pytest.fixture
    def unreachable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
        monkeypatch.setattr(ledger_hook, "_LEDGERS", {})

    def test_a_mark_succeeds_and_one_line_is_logged(
        self, story: Story, told: Callable[[], list[str]], unreachable: None
    ) -> None:
        assert story.mark("bob", "one", "failed") == 200
        (line,) = told()
        assert "could not be recorded" in line
        assert "\n" not in line

    def test_what_was_not_recorded_is_found_later(
        self, story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        story.work("one")
        with monkeypatch.context() as patch:
            patch.setattr(ledger_hook, "_LEDGERS", {})
            patch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
            assert story.mark("bob", "three", "skipped") == 200
        assert [person(row) for row in story.rows("three") if row.said == "skipped"] == [("bob", "api")]

    def test_a_stock_dag_never_asks_for_it(
        self, airflow: AirflowByHand, told: Callable[[], list[str]], unreachable: None
    ) -> None:
        run = RunKey("stock", "stock-run")
        airflow.trigger("ann", run)
        path = "/dags/stock/dagRuns/stock-run/taskInstances/one"
        assert airflow.ask("bob", "PATCH", path, {"new_state": "failed"}).status_code == 200
        body = {"dag_run_id": "stock-run", "dry_run": False}
        assert airflow.ask("bob", "POST", "/dags/stock/clearTaskInstances", body).status_code == 200
        assert (
            airflow.ask("bob", "PATCH", "/dags/stock/dagRuns/stock-run", {"state": "failed"}).status_code
            == 200
        )
        assert told() == []
        assert ledger_hook._LEDGERS == {}


def test_a_ledger_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    done: list[int] = []
    monkeypatch.setattr(recorder, "_RECORDERS", [])
    monkeypatch.setattr(recorder, "_PATIENCE", 0.05)
    recorder.record_soon(lambda: done.append(release.wait(60)))
    for number in range(3):
        recorder.record_soon(lambda number=number: done.append(number))
    assert done == []
    release.set()
    recorder.record_soon(lambda: done.append(9))
    last = threading.Event()
    recorder.record_soon(last.set)
    assert last.wait(60)
    assert done == [True, 0, 1, 2, 9]


class TestTheCommand:
    """``airflow louver history`` itself."""

    def run(self, story: Story, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            story.airflow.cli("louver", "history", story.run.run_id, *more)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    def test_tells_all_that_both_sides_know(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        story.work("one")
        code, out, _ = self.run(story, capsys, "one", "--output", "json")
        rows = json.loads(out)
        assert code == 0
        assert [(row["to"], row["airflow"], row["recorded_by"]) for row in rows] == [
            ("queued", "scheduled", "worker"),
            (None, "queued", None),
            ("starting", "running", "worker"),
            ("running", None, "worker"),
            ("succeeded", "success", "worker"),
        ]
        assert {row["source"] for row in rows if row["recorded_by"] is None} == {"airflow"}

    def test_tells_what_is_stored_alone(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        story.work("one")
        code, out, _ = self.run(story, capsys, "--stored", "--output", "json")
        rows = json.loads(out)
        assert code == 0
        assert [row["to"] for row in rows] == ["queued", "starting", "running", "succeeded"]
        assert {(row["airflow"], row["recorded_at"] == row["at"]) for row in rows} == {(None, True)}
        assert rows[0]["precision"] == "bounded"

    def test_tells_of_a_run_that_never_began(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        assert story.ledger.get_run(story.run) is None
        code, out, _ = self.run(story, capsys, "--output", "json")
        assert code == 0
        assert [row["airflow"] for row in json.loads(out) if row["step"] == "one"] == ["scheduled", "queued"]
        assert self.run(story, capsys, "--stored")[0] == 1

    def test_has_room_for_the_main_things_in_a_table(
        self, story: Story, capsys: pytest.CaptureFixture[str]
    ) -> None:
        story.work("one")
        code, out, _ = self.run(story, capsys, "--output", "plain")
        assert code == 0
        for word in ("executor:launched", "scheduled", "created", "ann", "worker"):
            assert word in out

    def test_refuses_a_run_that_nobody_knows(
        self, airflow: AirflowByHand, ledger: Ledger, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as end:
            airflow.cli("louver", "history", "no-such-run")
        assert end.value.code == 1
        assert capsys.readouterr().err == (
            "airflow louver: run 'no-such-run' is not in the ledger, nor known to Airflow: check the id\n"
        )


def test_a_mark_by_the_api_carries_its_source_in_the_ledger(story: Story) -> None:
    story.finish()
    story.mark("bob", "two", "failed")
    stored = [row for row in story.ledger.list_transitions(story.run) if row.trigger == "user:marked"]
    assert [(row.source, row.actor, row.chain) for row in stored] == [(Source.API, "bob", "side")]
