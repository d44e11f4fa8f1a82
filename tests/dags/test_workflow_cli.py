"""``airflow louver workflow`` and ``stats``, through Airflow's own parser, over real tables and a ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from support.airflow_rows import AirflowRows
from support.pasts import FATES, History

from louver.clock import SystemClock
from louver.definition import ApprovalNode, Definition, Step
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.requests import RunStart
from louver.sessions import Change
from louver.states import RunState, TaskState
from louver.steps import run_start
from louver.testing.scene import FAILED
from louver_provider.dag_builder import build_dag

Row = dict[str, Any]
RowsOf = Callable[..., list[Row]]
Louver = Callable[..., tuple[int, str, str]]

FAN = Definition(
    name="fan_story",
    version="3",
    nodes=[
        Step(name="rows", task="tests:work"),
        Step(name="each", task="tests:work", over={"row": "rows"}),
        Step(name="sum", task="tests:work", deps={"parts": "each"}, join="all_settled"),
        ApprovalNode(name="ask", of="pay", payload="tests:work", after=["sum"]),
        Step(name="pay", task="tests:work", after=["ask"], approval="ask"),
    ],
)
PLAIN = Definition(
    name="plain_story",
    version="1",
    nodes=[Step(name="one", task="tests:work"), Step(name="two", task="tests:work", after=["one"])],
)


def work(**given: Any) -> None:
    """What a step does."""


@pytest.fixture(scope="module")
def tables() -> AirflowRows:
    rows = AirflowRows()
    rows.deploy(build_dag(PLAIN, tasks={"tests:work": work}))
    with DAG(dag_id="stock_story", schedule=None) as stock:
        # A task of somebody else's that has the name of a closing task.
        EmptyOperator(task_id="outcome", doc_json=json.dumps({"not": "ours"}))
    rows.deploy(stock)
    return rows


@pytest.fixture(autouse=True)
def emptied(tables: AirflowRows) -> Any:
    yield
    tables.clear()


class Told(History):
    """A run of a definition that the test names."""

    def __init__(self, ledger: Ledger, of: Definition, *, marker: str | None = None) -> None:
        super().__init__(ledger)
        self.definition = of
        self.run = RunKey(of.name, f"{of.name}-{self.id}")
        self.marker = marker
        self.now = SystemClock().now() - timedelta(hours=1)

    def start(self, **changes: Any) -> RunStart:
        start = super().start(**changes)
        if self.marker is None:
            return start
        return run_start(self.definition, start.key, marker=self.marker, requester="ann")


# list


def test_the_list_has_every_workflow_and_nothing_else(
    ledger: Ledger, tables: AirflowRows, rows_of: RowsOf
) -> None:
    found = {row["workflow"]: row for row in rows_of("workflow", "list")}

    assert "stock_story" not in found
    plain = found["plain_story"]
    assert (plain["version"], plain["fingerprint"], plain["nodes"]) == ("1", PLAIN.fingerprint, "2")
    assert plain["live_runs"] == "0"
    assert plain["last_run"] in (None, "None")


def test_the_list_tells_the_last_run_and_how_many_go_on(
    ledger: Ledger, tables: AirflowRows, rows_of: RowsOf
) -> None:
    for _ in range(2):
        Told(ledger, PLAIN).launch("one")
    last = Told(ledger, PLAIN)
    last.tick(60)
    last.launch("one")
    last.end(RunState.FAILED, reason="one failed")
    tables.pause("plain_story")

    (row,) = [row for row in rows_of("workflow", "list") if row["workflow"] == "plain_story"]

    assert (row["last_run"], row["last_state"], row["live_runs"]) == (last.run.run_id, "failed", "2")
    assert row["paused"] == "yes"


# status


def test_status_shows_each_node_with_what_it_depends_on(ledger: Ledger, louver: Louver) -> None:
    story = Told(ledger, FAN)
    story.succeed("rows", [1, 2, 3, 4])
    for index in (0, 2):
        story.succeed("each", index, map_index=index)
    story.ledger.advance(story.launch("each", map_index=1), FAILED, now=story.tick())
    story.launch("each", map_index=3, try_number=2)

    code, out, _ = louver("workflow", "status", story.run.run_id, "--output", "json")

    assert code == 0
    (told,) = json.loads(out)
    assert (told["state"], told["definition"], told["aggregation"]) == (
        "running",
        "fan_story 3",
        "skip_downstream",
    )
    nodes = {row["node"]: row for row in told["nodes"]}
    assert list(nodes) == ["rows", "each", "sum", "ask", "pay"]
    each = nodes["each"]
    assert (each["state"], each["kind"], each["mapped"]) == ("running", "mapped step", "2/4, 1 failed")
    assert (each["depends_on"], each["attempt"]) == (["rows"], 1)
    assert (nodes["sum"]["join"], nodes["sum"]["depends_on"]) == ("all_settled", ["each"])
    assert (nodes["ask"]["kind"], nodes["rows"]["mapped"]) == ("approval", None)

    code, out, _ = louver("status", story.run.run_id, "--output", "json")
    (seen,) = json.loads(out)
    assert [row["step"] for row in seen["steps"]] == list(nodes)
    assert seen["steps"][1]["mapped"] == "2/4, 1 failed"


def test_an_index_that_failed_is_a_dead_letter_of_its_own(ledger: Ledger, rows_of: RowsOf) -> None:
    story = Told(ledger, FAN)
    story.succeed("rows", [1, 2, 3])
    for index in (0, 2):
        story.ledger.advance(story.launch("each", map_index=index), FAILED, now=story.tick())
    story.succeed("each", map_index=1)

    found = rows_of("dead", "list", story.run.run_id)

    assert [(row["step"], row["map_index"]) for row in found] == [("each", "2"), ("each", "0")]


def test_status_of_a_run_without_success_is_exit_3(ledger: Ledger, louver: Louver) -> None:
    story = FATES["compensated"](History(ledger))
    assert louver("workflow", "status", story.run.run_id)[0] == 3
    code, _, err = louver("workflow", "status", "none")
    assert (code, "not in the ledger" in err) == (1, True)


# resume


def test_resume_repairs_what_one_run_missed_and_then_has_nothing_to_do(
    ledger: Ledger, tables: AirflowRows, rows_of: RowsOf
) -> None:
    story, other = (missed(ledger, tables) for _ in range(2))

    rows = rows_of("workflow", "resume", story.run.run_id)

    assert [(row["repair"], row["to"], row["done"]) for row in rows] == [
        ("mark", "failed", "yes"),
        ("close_run", "failed", "yes"),
    ]
    assert [row["step"] for row in rows[:1]] == ["two"]
    assert rows_of("workflow", "resume", story.run.run_id) == []
    assert ledger.get_run(story.run).state is RunState.FAILED
    assert ledger.get_seal(story.run) is not None
    assert ledger.get_run(other.run).state is RunState.RUNNING


def test_resume_needs_no_reconciler_and_one_that_runs_is_not_in_its_way(
    ledger: Ledger, tables: AirflowRows, rows_of: RowsOf
) -> None:
    now = SystemClock().now()
    lease = ledger.take_lease("reconciler", "another", lease_until=now + timedelta(minutes=5), now=now)
    story = missed(ledger, tables)

    assert len(rows_of("workflow", "resume", story.run.run_id)) == 2

    assert ledger.get_lease("reconciler") == lease


def missed(ledger: Ledger, tables: AirflowRows) -> Told:
    """A run that Airflow holds for failed, of which the ledger has heard only half."""
    run = Told(ledger, PLAIN)
    run.marker = tables.run(run.run)
    run.succeed("one")
    for name, state in (
        ("one", "success"),
        ("two", "failed"),
        ("compensate", "success"),
        ("outcome", "failed"),
    ):
        tables.show(run.key(name), state, try_number=1)
    tables.show_run(run.run, "failed")
    return run


def test_resume_of_what_nobody_knows_is_exit_1(ledger: Ledger, tables: AirflowRows, louver: Louver) -> None:
    code, out, err = louver("workflow", "resume", "none")
    assert (code, out, "neither the ledger nor Airflow" in err) == (1, "", True)


# stats


def test_stats_count_what_goes_on_unless_all_is_asked_for(ledger: Ledger, rows_of: RowsOf) -> None:
    over = FATES["given_up"](History(ledger))
    live = Told(ledger, PLAIN)
    live.committed(live.launch("one"), "mail")
    live.send()
    live.ask(live.launch("two"))

    def counted(*arguments: str) -> dict[tuple[str, str | None, str], int]:
        return {
            (row["what"], row["workflow"], row["state"]): int(row["count"])
            for row in rows_of("stats", *arguments)
        }

    now, every = counted(), counted("--all")
    none = next(workflow for what, workflow, _ in now if what == "runs")
    assert none in (None, "None")
    assert now["runs", none, "running"] == 1
    assert ("runs", none, "compensation_failed") not in now
    assert every["runs", none, "compensation_failed"] == 1
    assert now["workflows", "plain_story", "running"] == 1
    assert every["workflows", over.run.dag_id, "compensation_failed"] == 1
    assert now["tasks", none, "running"] == 1
    assert ("tasks", none, "failed") not in now
    assert every["tasks", none, "failed"] == 2
    # It waits for a person, whatever became of its run.
    assert now["effects", none, "undo_failed"] == 1
    assert now["effects", none, "committed"] == 1
    assert now["approvals", none, "pending"] == 1
    assert now["commands", none, "pending"] == 1
    assert {what for what, _, _ in counted("effects")} == {"effects"}


def test_a_task_of_a_live_run_that_has_failed_is_counted(ledger: Ledger, rows_of: RowsOf) -> None:
    live = Told(ledger, PLAIN)
    failed = Change(to=TaskState.FAILED, trigger="runtime:error", failure_kind=FAILED.failure_kind)
    live.ledger.advance(live.launch("one"), failed, now=live.tick())

    (row,) = rows_of("stats", "tasks")

    assert (row["state"], row["count"]) == ("failed", "1")
