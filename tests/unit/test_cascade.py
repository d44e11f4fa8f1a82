"""Failing fast: what is done about the other tasks, and what a task finds out at its start (row T15)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from louver.cascade import ORCHESTRATION, cascade, decide_cascade, fate_of
from louver.definition import Definition, Step
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, RunKey, TaskKey, Token, Verb
from louver.ledger.requests import CommandRequest
from louver.results import RunResults
from louver.sessions import Change, Claim, Entry
from louver.states import Source, TaskState
from louver.steps import run_start

S = TaskState
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "r")
MAPPED = [Step(name="rows", task="t:rows"), Step(name="each", task="t:each", over={"row": "rows"})]


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


def fast(*nodes: Step, **given: Any) -> Definition:
    return Definition(**{"name": "work", "version": "1", "nodes": nodes, "aggregation": "fail_fast", **given})


def step(name: str, *after: str, **given: Any) -> Step:
    return Step(name=name, task=f"t:{name}", after=after, **given)


class Run:
    """A run whose tasks are driven by hand, as processes would."""

    def __init__(self, ledger: Ledger, definition: Definition) -> None:
        self.ledger, self.definition = ledger, definition
        ledger.open_run(run_start(definition, RUN), now=NOW)

    def open(self, name: str, index: int = -1, *, try_number: int = 1, max_tries: int = 0) -> Token:
        claim = Claim(try_number=try_number, max_tries=max_tries, process="p", source=Source.WORKER)
        token = self.ledger.open_task(key(name, index), claim, now=NOW).token
        self.ledger.advance(token, Change(to=S.RUNNING, trigger="executor:launched"), now=NOW)
        return token

    def end(self, name: str, to: TaskState, index: int = -1, value: Any = None) -> None:
        token = self.open(name, index)
        if to is S.SUCCEEDED:
            self.ledger.complete(token, Change(to=to, trigger="runtime:completed"), value, now=NOW)
        else:
            self.ledger.advance(token, Change(to=to, trigger="runtime:error"), now=NOW)

    def cascade(self, **given: Any) -> list[tuple[TaskKey, bool]]:
        done = cascade(self.definition, RUN, self.ledger, source=Source.WORKER, now=NOW, **given)
        return [(one.task, one.ask) for one in done]

    def state(self, name: str, index: int = -1) -> TaskState | None:
        record = self.ledger.get_task(key(name, index))
        return None if record is None else record.state


def key(name: str, index: int = -1) -> TaskKey:
    return TaskKey("work", "r", name, index)


def test_who_waits_is_marked_and_who_works_is_told(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("busy"), step("later", "busy")))
    run.open("busy")
    run.end("bad", S.FAILED)

    assert run.cascade() == [(key("busy"), True), (key("later"), False)]
    assert (run.state("busy"), run.state("later")) == (S.RUNNING, S.CANCELLED)
    (command,) = ledger.list_commands(RUN)
    assert (command.verb, command.actor, command.state) == (Verb.CANCEL, ORCHESTRATION, CommandState.PENDING)
    assert command.reason == "the workflow fails fast: bad failed"


def test_it_is_done_once(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("busy"), step("later", "busy")))
    run.open("busy")
    run.end("bad", S.FAILED)
    run.cascade()
    assert run.cascade() == []


def test_one_that_a_person_stops_already_is_not_told_again(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("busy")))
    run.open("busy")
    request = CommandRequest(
        command_id="c", task=key("busy"), verb=Verb.STOP, actor="anna", reason=None, source=Source.CLI
    )
    ledger.send_command(request, now=NOW)
    run.end("bad", S.FAILED)
    assert run.cascade() == []


def test_nothing_is_done_where_nothing_failed_or_the_workflow_does_not_fail_fast(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("good"), step("later")))
    run.end("good", S.SUCCEEDED)
    assert run.cascade() == []
    slow = Run(ledger, fast(step("bad"), step("later"), name="slow", aggregation="skip_downstream"))
    assert cascade(slow.definition, RUN, ledger, source=Source.WORKER, now=NOW) == []


def test_what_was_cleared_is_no_failure_any_more(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("later")))
    run.end("bad", S.FAILED)
    assert run.cascade(unsettled={key("bad")}) == []
    assert fate_of(run.definition, key("later"), ledger, unsettled={key("bad")}) is None


def test_indexes_that_have_not_begun_are_marked_where_their_number_is_known(ledger: Ledger) -> None:
    run = Run(ledger, fast(*MAPPED))
    run.end("rows", S.SUCCEEDED, value=[1, 2, 3])
    run.end("each", S.SUCCEEDED, 0)
    run.end("each", S.FAILED, 1)
    assert run.cascade() == [(key("each", 2), False)]
    assert run.state("each", 2) is S.CANCELLED


def test_of_a_step_that_is_not_expanded_nothing_can_be_marked(ledger: Ledger) -> None:
    run = Run(ledger, fast(*MAPPED, step("bad")))
    run.end("bad", S.FAILED)
    assert run.cascade() == [(key("rows"), False)]
    results = RunResults(run.definition, RUN, ledger)
    assert results.states["each"] is S.CANCELLED
    assert decide_cascade(results) == []


def test_a_task_that_was_missed_finds_out_at_its_start(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("later")))
    run.end("bad", S.FAILED)
    fate = fate_of(run.definition, key("later"), ledger)
    assert fate is not None
    assert (fate.to, fate.trigger) == (S.CANCELLED, "orchestrator:cascade")


def test_whose_turn_it_is_may_run(ledger: Ledger) -> None:
    nodes = (step("a"), step("b"), step("join", "a", "b", join="any_succeeded"))
    run = Run(ledger, fast(*nodes, aggregation="skip_downstream"))
    run.end("a", S.FAILED)
    run.end("b", S.SUCCEEDED)
    assert fate_of(run.definition, key("join"), ledger) is None


def test_one_behind_a_branch_that_went_another_way_does_not(ledger: Ledger) -> None:
    nodes = (step("route", branch=True), step("left", "route"), step("right", "route"))
    run = Run(ledger, fast(*nodes, aggregation="skip_downstream"))
    run.end("route", S.SUCCEEDED, value=["left"])
    assert fate_of(run.definition, key("left"), ledger) is None
    fate = fate_of(run.definition, key("right"), ledger)
    assert fate is not None
    assert (fate.to, fate.reason) == (S.SKIPPED, "a branch went another way")


def test_a_fate_is_met_instead_of_starting(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("later")))
    run.end("bad", S.FAILED)
    claim = Claim(
        try_number=1,
        max_tries=0,
        process="p",
        source=Source.WORKER,
        fate=fate_of(run.definition, key("later"), ledger),
    )
    opened = ledger.open_task(key("later"), claim, now=NOW)
    assert [(row.from_state, row.to_state) for row in opened.transitions] == [(S.PENDING, S.CANCELLED)]
    assert (opened.record.attempt, run.state("later")) == (0, S.CANCELLED)


def test_after_a_clear_it_is_met_in_the_next_generation(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("later")))
    run.end("later", S.SUCCEEDED)
    run.end("bad", S.FAILED)
    claim = Claim(
        try_number=2,
        max_tries=1,
        process="p",
        source=Source.WORKER,
        fate=fate_of(run.definition, key("later"), ledger),
    )
    opened = ledger.open_task(key("later"), claim, now=NOW)
    assert [row.to_state for row in opened.transitions] == [S.PENDING, S.CANCELLED]
    assert (opened.record.generation, opened.record.state) == (2, S.CANCELLED)


def test_one_that_was_cancelled_in_the_queue_was_not_cleared_when_its_process_begins(ledger: Ledger) -> None:
    run = Run(ledger, fast(step("bad"), step("later")))
    run.end("bad", S.FAILED)
    run.cascade()
    fate = fate_of(run.definition, key("later"), ledger)
    claim = Claim(try_number=1, max_tries=5, process="p", source=Source.WORKER, fate=fate)

    opened = ledger.open_task(key("later"), claim, now=NOW)

    assert (opened.entry, list(opened.transitions)) == (Entry.OVER, [])
    assert (opened.record.generation, opened.record.state) == (1, S.CANCELLED)


def test_what_is_left_over_from_a_longer_list_counts_no_more(ledger: Ledger) -> None:
    run = Run(ledger, fast(*MAPPED, step("join", "each")))
    run.end("rows", S.SUCCEEDED, value=[1, 2])
    for index, state in enumerate((S.SUCCEEDED, S.SUCCEEDED, S.FAILED)):
        run.end("each", state, index)
    assert run.cascade() == []
    assert fate_of(run.definition, key("join"), ledger) is None
    assert RunResults(run.definition, RUN, ledger).states["each"] is S.SUCCEEDED


def test_a_list_that_was_tampered_with_keeps_nobody_from_being_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{path}", "k1:" + "s" * 32) as ledger:
        run = Run(ledger, fast(*MAPPED, step("bad"), step("busy")))
        run.end("rows", S.SUCCEEDED, value=[1, 2])
        run.open("busy")
        run.end("bad", S.FAILED)
        with closing(sqlite3.connect(path)) as connection, connection:
            changed = connection.execute("UPDATE louver_checkpoint SET digest = 'x' WHERE task_id = 'rows'")
            assert changed.rowcount == 1
        assert (key("busy"), True) in run.cascade()


def test_a_branch_that_was_marked_by_hand_has_chosen_nothing_and_keeps_nobody_from_running(
    ledger: Ledger,
) -> None:
    nodes = (step("route", branch=True), step("left", "route"), step("right", "route"))
    run = Run(ledger, fast(*nodes, aggregation="skip_downstream"))
    marked = Change(to=S.SUCCEEDED, trigger="user:marked")
    ledger.mark(key("route"), marked, session=0, source=Source.API, now=NOW)
    assert [fate_of(run.definition, key(name), ledger) for name in ("left", "right")] == [None, None]
