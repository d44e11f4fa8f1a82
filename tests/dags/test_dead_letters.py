"""Dead letters over a real Airflow whose parts act when a test says so: listed, refused, and run again."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.airflow_by_hand import AirflowByHand
from support.pasts import FATES, History
from support.story import MINUTE, Story, act, fail, now, stage

from louver.closing import overview
from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, EffectState, RunKey
from louver.ledger.requests import RunStart
from louver.nodes import Step
from louver.states import RunState, TaskState
from louver.testing.scene import FAILED
from louver_provider.dag_builder import build_dag
from louver_provider.dags import compensation_dag

Row = dict[str, Any]
RowsOf = Callable[..., list[Row]]
Louver = Callable[..., tuple[int, str, str]]

WIDE = Definition(
    name="wide_story",
    version="1",
    nodes=[
        Step(name="one", task="tests:act"),
        Step(name="beside", task="tests:act", after=["one"]),
        Step(name="two", task="tests:act", after=["one"]),
        Step(name="three", task="tests:act", after=["beside", "two"]),
    ],
)
"""One, then two beside each other, then three."""


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with stage(build_dag(WIDE, tasks={"tests:act": act}), compensation_dag()) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


def pay(ctx: Any) -> None:
    """Do something that can be undone."""
    ctx.effect("pay", intent={"pay": 5}, perform=lambda key: None, compensate=str)


def pay_for_good(ctx: Any) -> None:
    """Do something whose undo fails for good."""
    ctx.effect("pay", intent={"pay": 5}, perform=lambda key: None, compensate=int)


def failed(airflow: AirflowByHand, ledger: Ledger, *, first: Any = None, beside: Any = None) -> Story:
    """A run of which the step ``two`` failed for good, at its end."""
    story = Story(airflow, ledger, WIDE.name)
    story.work("one", first)
    story.work("beside", beside)
    story.work("two", fail)
    story.finish()
    story.pass_time(MINUTE)
    story.airflow.schedule()
    return story


def cleared(rows: list[Row]) -> dict[str, str]:
    return {row["step"]: row["why"] for row in rows}


def test_a_step_that_failed_for_good_is_listed_and_is_none_once_it_is_retried(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver
) -> None:
    story = failed(airflow, ledger)
    run_id = story.run.run_id

    (row,) = rows_of("dead", "list")

    assert (row["run_id"], row["step"], row["map_index"]) == (run_id, "two", "-1")
    assert (row["state"], row["kind"], row["attempts"]) == ("failed", "exception", "1")
    assert (row["retried"], row["now"]) == ("no", "failed")
    assert "RuntimeError" in row["reason"]
    assert ledger.get_run(story.run).state is RunState.FAILED

    would = rows_of("dead", "retry", run_id, "--reason", "the disk is back")
    assert {row["became"] for row in would} == {"would be cleared"}
    assert len(rows_of("dead", "list", run_id)) == 1

    rows = rows_of("dead", "retry", run_id, "two", "--reason", "the disk is back", "--yes")

    assert (
        cleared(rows)
        == cleared(would)
        == {
            "two": "dead",
            "three": "comes after",
            "compensate": "closes the run",
            "outcome": "closes the run",
        }
    )
    assert rows_of("dead", "list") == []
    (row,) = rows_of("dead", "list", "--all")
    assert (row["retried"], row["now"], row["kind"]) == ("yes", "pending", "exception")
    assert ledger.get_run(story.run).state is RunState.RUNNING
    code, _, err = louver("dead", "retry", run_id, "two", "--reason", "x", "--yes")
    assert (code, "retried already: it is pending now" in err) == (1, True)

    story.finish()
    story.pass_time()
    story.airflow.schedule()
    assert airflow.run(story.run).state == "success"
    assert overview(story.run, ledger).state is RunState.SUCCEEDED
    assert story.states("two") == [
        *("queued", "starting", "running", "failed"),
        *("pending", "queued", "starting", "running", "succeeded"),
    ]
    assert story.states("one") == ["queued", "starting", "running", "succeeded"]
    assert ledger.get_task(story.key("two")).generation == 2
    assert rows_of("verify", run_id)[0]["sound"] is True


def test_a_retry_is_told_once_with_who_wanted_it_and_why(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = failed(airflow, ledger)

    rows_of("dead", "retry", story.run.run_id, "--reason", "the disk is back", "--yes")

    told = [row for row in rows_of("history", story.run.run_id) if row["trigger"] == "user:cleared"]
    assert sorted(row["step"] for row in told) == ["compensate", "outcome", "three", "two"]
    for row in told:
        assert (row["actor"], row["source"]) == (getpass.getuser(), "cli"), row
        assert row["reason"] == "dead retry: the disk is back"
    assert story.only("two", "user:cleared").recorded_by == "cli"


def test_a_run_that_goes_on_beside_it_is_retried_before_it_is_compensated(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf
) -> None:
    story = Story(airflow, ledger, WIDE.name)
    story.work("one", pay)
    story.work("two", fail)
    assert story.airflow.task(story.key("beside")).state == "queued"

    rows = rows_of("dead", "retry", story.run.run_id, "--reason", "again", "--yes")

    assert {"two", "three"} <= set(cleared(rows)) <= {"two", "three", "compensate", "outcome"}
    story.finish()
    assert airflow.run(story.run).state == "success"
    assert [effect.state.value for effect in ledger.list_effects(story.run)] == ["committed"]


@pytest.mark.parametrize("where", ["upstream", "beside"])
def test_nothing_is_retried_on_what_was_undone_unless_that_is_cleared_too(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver, where: str
) -> None:
    given = {"first": pay} if where == "upstream" else {"beside": pay}
    undone = "one" if where == "upstream" else "beside"
    story = failed(airflow, ledger, **given)
    assert overview(story.run, ledger).state is RunState.FAILED_COMPENSATED
    run_id = story.run.run_id

    code, out, err = louver("dead", "retry", run_id, "--reason", "again", "--yes")

    assert (code, out, f"what {undone} did is undone" in err, "--upstream" in err) == (1, "", True, True)
    assert len(rows_of("dead", "list", run_id)) == 1
    assert airflow.run(story.run).state == "failed"

    rows = rows_of("dead", "retry", run_id, "--reason", "again", "--upstream", "--yes")

    assert cleared(rows)[undone] == "its effects are undone"
    assert cleared(rows)["two"] == "dead"
    assert "beside" in cleared(rows)
    assert ("one" in cleared(rows)) is (where == "upstream")
    story.pass_time()
    story.airflow.schedule()
    if where == "upstream":
        story.work("one", pay)
    story.work("beside", pay if where == "beside" else None)
    story.finish()
    assert airflow.run(story.run).state == "success"
    assert overview(story.run, ledger).state is RunState.SUCCEEDED
    states = [(effect.kind, effect.epoch, effect.state) for effect in ledger.list_effects(story.run)]
    assert sorted(states) == [
        (EffectKind.FORWARD, 1, EffectState.UNDONE),
        (EffectKind.FORWARD, 2, EffectState.COMMITTED),
        (EffectKind.UNDO, 1, EffectState.COMMITTED),
    ]
    assert rows_of("verify", run_id)[0]["sound"] is True


def test_what_a_person_has_to_settle_comes_first(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver
) -> None:
    story = failed(airflow, ledger, first=pay_for_good)
    run_id = story.run.run_id

    code, _, err = louver("dead", "retry", run_id, "--reason", "again", "--upstream", "--yes")

    assert (code, "waits for a person" in err, "resolve" in err) == (1, True, True)
    (effect,) = rows_of("compensations", "list")
    rows_of("compensations", "resolve", effect["effect"], "--note", "paid back at the desk")
    rows = rows_of("dead", "retry", run_id, "--reason", "again", "--upstream", "--yes")
    assert cleared(rows)["one"] == "its effects are undone"


def test_one_index_of_a_mapped_step_is_retried_by_itself(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver
) -> None:
    story = Mapped(airflow, ledger)
    run_id = story.run.run_id
    assert [row["map_index"] for row in rows_of("dead", "list")] == ["2", "1"]

    rows = rows_of("dead", "retry", run_id, "two", "--map-index", "1", "--reason", "again", "--yes")

    assert [(row["step"], row["map_index"]) for row in rows if row["why"] == "dead"] == [("two", "1")]
    assert {row["step"] for row in rows} == {"two", "three", "compensate", "outcome"}
    shown = {index: airflow.rows.row(story.key("two", map_index=index)).state for index in range(3)}
    assert shown == {0: "success", 1: None, 2: "failed"}
    states = {task.map_index: task.state for task in ledger.list_tasks(story.run) if task.task_id == "two"}
    assert states == {0: TaskState.SUCCEEDED, 1: TaskState.PENDING, 2: TaskState.FAILED}
    assert [row["map_index"] for row in rows_of("dead", "list")] == ["2"]
    code, _, err = louver("dead", "retry", run_id, "two", "--map-index", "7", "--reason", "x", "--yes")
    assert (code, "two[7] of run" in err) == (1, True)


def test_indexes_that_were_undone_beside_it_have_to_act_again(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver
) -> None:
    story = Mapped(airflow, ledger, undone=True)
    run_id = story.run.run_id

    code, _, err = louver("dead", "retry", run_id, "--reason", "again", "--yes")
    assert (code, "what two[0] did is undone" in err) == (1, True)

    rows = rows_of("dead", "retry", run_id, "--reason", "again", "--upstream", "--yes")
    why = {row["map_index"]: row["why"] for row in rows if row["step"] == "two"}
    assert why == {"0": "its effects are undone", "1": "dead", "2": "dead"}


class Mapped(History):
    """A run whose step ``two`` has three tasks, of which the first alone succeeded."""

    def __init__(self, airflow: AirflowByHand, ledger: Ledger, *, undone: bool = False) -> None:
        super().__init__(ledger, now=now() - MINUTE)
        self.run = RunKey(WIDE.name, f"mapped-{self.id}")
        self.definition = WIDE
        self.marker = airflow.rows.run(self.run)
        self.succeed("one")
        airflow.rows.map_over(self.key("two"), 3)
        for index in range(3):
            token = self.launch("two", map_index=index)
            if index == 0 and undone:
                self.undone(token)
            if index:
                self.ledger.advance(token, FAILED, now=self.tick())
            else:
                self.complete(token, index)
        for name, state in (("one", "success"), ("beside", "success"), ("three", "upstream_failed")):
            airflow.rows.show(self.key(name), state, try_number=1)
        for index, state in enumerate(("success", "failed", "failed")):
            airflow.rows.show(self.key("two", map_index=index), state, try_number=1)
        airflow.rows.show(self.key("compensate"), "success", try_number=1)
        airflow.rows.show(self.key("outcome"), "failed", try_number=1)
        airflow.rows.show_run(self.run, "failed")
        self.end(RunState.FAILED, reason="two failed")

    def start(self, **changes: Any) -> RunStart:
        return super().start(marker=self.marker, **changes)


def test_where_airflow_works_on_it_nothing_is_cleared(
    airflow: AirflowByHand, ledger: Ledger, rows_of: RowsOf, louver: Louver
) -> None:
    story = failed(airflow, ledger)
    run_id = story.run.run_id
    # Somebody clears it past Louver's watch: the ledger has not heard of it.
    airflow.rows.show(story.key("two"), "queued")
    code, _, err = louver("dead", "retry", run_id, "--reason", "again", "--yes")
    assert (code, "Airflow works on two already: it is queued" in err) == (1, True)

    airflow.rows.show(story.key("two"), "success")
    code, _, err = louver("dead", "retry", run_id, "--reason", "again", "--yes")
    assert (code, "Airflow holds two for success" in err) == (1, True)

    airflow.rows.show(story.key("two"), "failed")
    for name, why in (("compensate", "is being undone"), ("three", "three, which comes after, is running")):
        before = airflow.rows.states(story.run)[name]
        airflow.rows.show(story.key(name), "running")
        code, _, err = louver("dead", "retry", run_id, "--reason", "again", "--yes")
        assert (code, why in err) == (1, True), err
        airflow.rows.show(story.key(name), before)
    assert len(rows_of("dead", "list")) == 1


def test_where_airflow_does_not_have_the_run_any_more_it_says_so(
    airflow: AirflowByHand, ledger: Ledger, louver: Louver
) -> None:
    story = failed(airflow, ledger)
    airflow.rows.remove(story.key("two"))
    code, _, err = louver("dead", "retry", story.run.run_id, "--reason", "again", "--yes")
    assert (code, "does not have two of run" in err) == (1, True)

    airflow.rows.remove_run(story.run)
    code, _, err = louver("dead", "retry", story.run.run_id, "--reason", "again", "--yes")
    assert (code, "does not have run" in err) == (1, True)

    story.airflow.trigger("ann", story.run)
    code, _, err = louver("dead", "retry", story.run.run_id, "--reason", "again", "--yes")
    assert (code, "does not have run" in err) == (1, True)


def test_the_list_can_be_narrowed(ledger: Ledger, rows_of: RowsOf, louver: Louver) -> None:
    stories = [FATES["given_up"](History(ledger, run_id=f"run-{number}")) for number in range(3)]

    assert sorted(row["run_id"] for row in rows_of("dead", "list")) == ["run-0", "run-1", "run-2"]
    # The closing task that gave up is no node.
    assert {row["step"] for row in rows_of("dead", "list")} == {"act"}
    assert len(rows_of("dead", "list", "run-1")) == 1
    assert len(rows_of("dead", "list", "--dag-id", stories[0].run.dag_id)) == 1
    assert len(rows_of("dead", "list", "--kind", "exception,lost")) == 3
    assert rows_of("dead", "list", "--kind", "lost") == []
    assert len(rows_of("dead", "list", "--since", "2020-01-01T00:00:00Z")) == 3
    assert rows_of("dead", "list", "--since", "90m") == []
    code, out, err = louver("dead", "list", "--limit", "2", "--output", "plain")
    assert (code, len(out.splitlines()), "only the newest 2" in err) == (0, 3, True)
    assert len(rows_of("dead", "list", "--limit", "0")) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("dead", "retry", "r"),
        ("dead", "retry", "r", "--reason", " "),
        ("dead", "retry", "r", "--map-index", "3", "--reason", "x"),
        ("dead", "list", "--kind", "bogus"),
        ("dead", "list", "--since", "soon"),
        ("dead", "list", "--since", "999999999d"),
        ("dead", "list", "--limit", "-1"),
        ("stats", "bogus"),
    ],
)
def test_bad_usage_is_exit_2(louver: Louver, ledger: Ledger, arguments: Any) -> None:
    code, out, err = louver(*arguments)
    assert (code, "Traceback" in out + err) == (2, False)
    assert err


def test_what_is_not_dead_is_exit_1(ledger: Ledger, louver: Louver) -> None:
    story = FATES["marked"](History(ledger))
    for arguments, why in (
        (("none",), "not in the ledger"),
        ((story.run.run_id,), "no step of run"),
        ((story.run.run_id, "look"), "look of run"),
        ((story.run.run_id, "act"), "was retried already: it is succeeded now"),
    ):
        code, out, err = louver("dead", "retry", *arguments, "--reason", "x")
        assert (code, out, why in err) == (1, "", True), err
