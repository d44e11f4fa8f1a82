"""Joins, branches, mapped steps and failing fast in the embedded engine (rows W3, W13, T15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from louver.cascade import fate_of
from louver.clock import FixedClock
from louver.compensation import Undo
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import ValueRefused
from louver.inputs import gather
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectKind, EffectState, RunKey, TaskKey, Verb
from louver.results import NodeResult, UpstreamFailed, run_results
from louver.sessions import Change
from louver.states import RunState, Source, TaskState
from louver.steps import run_start

RUN = RunKey("work", "run-1")
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
S = TaskState

UNDONE: list[Any] = []


def undo(what: Undo) -> None:
    UNDONE.append(what.intent)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    UNDONE.clear()
    with open_ledger("memory://") as ledger:
        yield ledger


def step(name: str, **given: Any) -> Step:
    return Step(name=name, task=f"business:{name}", **given)


def work(*nodes: Step | ApprovalNode, **given: Any) -> Definition:
    return Definition(**{"name": "work", "version": "1", "nodes": nodes, **given})


def run(ledger: Ledger, definition: Definition, **tasks: Callable[..., Any]) -> RunResult:
    clock = FixedClock(datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
    return run_inline(definition, tasks, ledger=ledger, clock=clock, run_id=RUN.run_id)


def fail() -> None:
    raise RuntimeError("no")


def test_a_join_collects_in_declared_order(ledger: Ledger) -> None:
    definition = work(step("a"), step("b"), step("c"), step("join", collect={"parts": ["c", "a", "b"]}))
    done = run(ledger, definition, a=lambda: "a", b=lambda: None, c=lambda: "c", join=lambda parts: parts)
    assert done.value == ["c", "a", None]


def test_a_settled_join_tells_failures_and_skips_from_a_legal_none(ledger: Ledger) -> None:
    definition = work(
        step("good"),
        step("none"),
        step("bad", on_failure="continue"),
        step("behind", after=["bad"]),
        step("join", collect={"parts": ["good", "none", "bad", "behind"]}, join="all_settled"),
    )
    seen: list[NodeResult] = []

    def join(parts: list[NodeResult]) -> int:
        seen.extend(parts)
        return len(parts)

    done = run(ledger, definition, good=lambda: 1, none=lambda: None, bad=fail, behind=fail, join=join)
    assert done.state is RunState.SUCCEEDED_WITH_FAILURES
    assert [(part.node, part.tag, part.value) for part in seen] == [
        ("good", "ok", 1),
        ("none", "ok", None),
        ("bad", "failed", None),
        ("behind", "skipped", None),
    ]
    assert seen[2].error is not None
    assert seen[2].error.kind == "exception"
    assert "RuntimeError" in (seen[2].error.reason or "")
    with pytest.raises(UpstreamFailed, match="bad is failed"):
        seen[2].unwrap()


@pytest.mark.parametrize(("good", "state"), [(True, S.SUCCEEDED), (False, S.SKIPPED)])
def test_any_succeeded_needs_one_success(ledger: Ledger, good: bool, state: TaskState) -> None:
    definition = work(
        step("first", on_failure="continue"),
        step("second", on_failure="continue"),
        step("join", deps={"one": "first", "two": "second"}, join="any_succeeded"),
    )
    done = run(
        ledger,
        definition,
        first=fail,
        second=(lambda: 2) if good else fail,
        join=lambda one, two: [one.tag, two.tag],
    )
    assert done.states["join"] is state
    assert done.value == (["failed", "ok"] if good else None)


def test_a_step_is_mapped_over_a_list_and_joined_by_index(ledger: Ledger) -> None:
    definition = work(
        step("rows"),
        step("double", over={"row": "rows"}),
        step("total", deps={"doubled": "double"}),
    )
    done = run(
        ledger,
        definition,
        rows=lambda: [10, 20, 30],
        double=lambda row: row * 2,
        total=lambda doubled: doubled,
    )
    assert done.state is RunState.SUCCEEDED
    assert done.value == [20, 40, 60]
    results = run_results(definition, RUN, ledger)
    found = results["double"]
    assert isinstance(found, list)
    assert [(each.map_index, each.value) for each in found] == [(0, 20), (1, 40), (2, 60)]


def test_a_gap_in_a_mapped_step_shifts_nothing(ledger: Ledger) -> None:
    """Case J01."""
    definition = work(
        step("rows"),
        step("double", over={"row": "rows"}),
        step("total", deps={"doubled": "double"}, join="all_settled"),
    )

    def double(ctx: TaskContext, row: int) -> int | None:
        if row == 20:
            ctx.skip("an odd one")
        return None if row == 30 else row * 2

    done = run(
        ledger,
        definition,
        rows=lambda: [10, 20, 30],
        double=double,
        total=lambda doubled: {str(each.map_index): [each.tag, each.value] for each in doubled},
    )
    assert done.value == {"0": ["ok", 20], "1": ["skipped", None], "2": ["ok", None]}
    assert done.states["double"] is S.SKIPPED
    assert done.state is RunState.SUCCEEDED


def test_an_all_succeeded_join_behind_a_gap_is_skipped(ledger: Ledger) -> None:
    definition = work(
        step("rows"), step("check", over={"row": "rows"}), step("total", deps={"checked": "check"})
    )

    def check(ctx: TaskContext, row: int) -> int:
        if row == 2:
            ctx.skip("no")
        return row

    done = run(ledger, definition, rows=lambda: [1, 2], check=check, total=lambda checked: checked)
    assert done.states["total"] is S.SKIPPED


def test_nothing_to_map_over_skips_the_step_and_gives_a_settled_join_an_empty_list(ledger: Ledger) -> None:
    definition = work(
        step("rows"),
        step("double", over={"row": "rows"}),
        step("total", deps={"doubled": "double"}, join="all_settled"),
    )
    done = run(ledger, definition, rows=list, double=str_of_row, total=lambda doubled: doubled)
    assert done.states["double"] is S.SKIPPED
    assert done.value == []


def test_a_mapped_step_over_a_mapped_step_takes_its_list(ledger: Ledger) -> None:
    definition = work(
        step("rows"), step("double", over={"row": "rows"}), step("text", over={"number": "double"})
    )
    done = run(ledger, definition, rows=lambda: [1, 2], double=lambda row: row * 2, text=str_of)
    assert done.value == ["2", "4"]


def test_a_mapped_step_may_have_the_whole_list_beside_its_item(ledger: Ledger) -> None:
    """The list may itself be that of a mapped step."""
    share = {"over": {"row": "double"}, "deps": {"all_rows": "double"}}
    definition = work(step("rows"), step("double", over={"row": "rows"}), step("share", **share))
    done = run(
        ledger,
        definition,
        rows=lambda: [1, 3],
        double=lambda row: row * 2,
        share=lambda row, all_rows: f"{row} of {sum(all_rows)}",
    )
    assert done.value == ["2 of 8", "6 of 8"]


def str_of(number: int) -> str:
    return str(number)


def str_of_row(row: int) -> str:
    return str(row)


def test_only_a_list_can_be_mapped_over(ledger: Ledger) -> None:
    definition = work(step("rows"), step("double", over={"row": "rows"}))
    done = run(ledger, definition, rows=lambda: {"a": 1}, double=str_of_row)
    assert done.states == {"rows": S.FAILED, "double": S.SKIPPED}
    assert isinstance(done.errors["rows"], ValueRefused)


def test_a_branch_skips_what_it_does_not_choose(ledger: Ledger) -> None:
    definition = work(
        step("route", branch=True),
        step("left", after=["route"]),
        step("right", after=["route"]),
        step("beyond", after=["right"]),
        step("end", collect={"ways": ["left", "beyond"]}, join="any_succeeded"),
    )
    done = run(
        ledger,
        definition,
        route=lambda: "left",
        left=lambda: "L",
        right=fail,
        beyond=fail,
        end=lambda ways: [way.tag for way in ways],
    )
    assert done.state is RunState.SUCCEEDED
    assert done.states["right"] is done.states["beyond"] is S.SKIPPED
    assert done.value == ["ok", "skipped"]


@pytest.mark.parametrize("choice", ["nowhere", 3, ["left", "route"]])
def test_a_branch_chooses_among_the_steps_behind_it(ledger: Ledger, choice: Any) -> None:
    definition = work(step("route", branch=True), step("left", after=["route"]))
    done = run(ledger, definition, route=lambda: choice, left=fail)
    assert done.states == {"route": S.FAILED, "left": S.SKIPPED}
    assert isinstance(done.errors["route"], ValueRefused)


def test_failing_fast_cancels_what_has_not_begun(ledger: Ledger) -> None:
    definition = work(step("bad"), step("other"), step("behind", after=["bad"]), aggregation="fail_fast")
    done = run(ledger, definition, bad=fail, other=fail, behind=fail)
    assert done.state is RunState.FAILED
    assert done.states == {"bad": S.FAILED, "other": S.CANCELLED, "behind": S.CANCELLED}


def test_failing_fast_cancels_an_index_when_another_has_failed(ledger: Ledger) -> None:
    definition = work(step("rows"), step("double", over={"row": "rows"}), aggregation="fail_fast")

    def double(row: int) -> int:
        return 10 // row

    done = run(ledger, definition, rows=lambda: [1, 0, 2], double=double)
    assert done.state is RunState.FAILED
    states = [(task.map_index, task.state) for task in ledger.list_tasks(RUN) if task.task_id == "double"]
    assert states == [(0, S.SUCCEEDED), (1, S.FAILED), (2, S.CANCELLED)]
    assert done.states["double"] is S.FAILED


def test_a_failure_that_does_not_count_cancels_nothing(ledger: Ledger) -> None:
    definition = work(step("bad", on_failure="continue"), step("other"), aggregation="fail_fast")
    done = run(ledger, definition, bad=fail, other=lambda: 1)
    assert done.state is RunState.SUCCEEDED_WITH_FAILURES


def test_failing_fast_cancels_a_step_that_waits_for_an_approval(ledger: Ledger) -> None:
    definition = work(
        ApprovalNode(name="ask", of="act", payload="business:payload"),
        step("act", after=["ask"], approval="ask"),
        step("bad"),
        aggregation="fail_fast",
    )
    done = run(ledger, definition, ask=lambda: {"amount": 1}, act=fail, bad=fail)
    assert done.states == {"ask": S.CANCELLED, "act": S.CANCELLED, "bad": S.FAILED}
    assert done.state is RunState.FAILED
    (command,) = ledger.list_commands(RUN)
    assert (command.verb, command.outcome) == (Verb.CANCEL, "cancelled while it waited for an approval")
    (row,) = [row for row in ledger.list_transitions(RUN, task_id="ask") if row.to_state is S.CANCELLED]
    assert (row.trigger, row.reason) == ("orchestrator:cascade", "the workflow fails fast: bad failed")


def test_a_step_with_compensate_is_one_effect(ledger: Ledger) -> None:
    definition = work(
        step("book", compensate="tests.unit.test_inline_joins:undo", kwargs={"seat": "12A"}),
        step("bad", after=["book"]),
    )
    done = run(ledger, definition, book=lambda seat: f"booked {seat}", bad=fail)
    assert done.state is RunState.FAILED_COMPENSATED
    (effect,) = [each for each in ledger.list_effects(RUN) if each.kind is EffectKind.FORWARD]
    assert (effect.name, effect.state) == ("book", EffectState.UNDONE)
    assert UNDONE == [{"seat": "12A"}]


def test_what_the_rules_do_not_let_run_says_why(ledger: Ledger) -> None:
    """The fate that a platform's process learns before it opens the task."""
    definition = work(step("bad"), step("worse"), step("join", after=["bad", "worse"], join="any_succeeded"))
    run(ledger, definition, bad=fail, worse=fail, join=fail)
    fate = fate_of(definition, TaskKey(RUN.dag_id, RUN.run_id, "join"), ledger)
    assert fate is not None
    assert (fate.to, fate.reason) == (S.SKIPPED, "join any_succeeded: bad failed, worse failed")


MARKED = Change(to=S.SUCCEEDED, trigger="user:marked")


def mark_first(ledger: Ledger, definition: Definition) -> None:
    """A person marks the step ``a`` as succeeded before it has run."""
    ledger.open_run(run_start(definition, RUN), now=NOW)
    ledger.mark(TaskKey("work", RUN.run_id, "a"), MARKED, session=0, source=Source.API, now=NOW)


def test_who_only_waits_for_a_step_goes_on_when_that_is_marked_by_hand(ledger: Ledger) -> None:
    definition = work(step("a"), step("waits", after=["a"]), step("takes", deps={"a": "a"}))
    mark_first(ledger, definition)
    done = run(ledger, definition, a=fail, waits=lambda ctx: ctx.upstream.get("a", "none"), takes=lambda a: a)
    assert done.states == {"a": S.SUCCEEDED, "waits": S.SUCCEEDED, "takes": S.FAILED}
    assert "marked as succeeded by hand" in str(done.errors["takes"])
    waits = run_results(definition, RUN, ledger)["waits"]
    assert isinstance(waits, NodeResult)
    assert waits.unwrap() == "none"


def test_a_settled_join_is_told_that_a_step_was_marked_by_hand(ledger: Ledger) -> None:
    definition = work(step("a"), step("join", deps={"a": "a"}, join="all_settled"))
    mark_first(ledger, definition)
    seen: list[NodeResult] = []
    assert run(ledger, definition, a=fail, join=lambda a: seen.append(a)).state is RunState.SUCCEEDED
    (given,) = seen
    assert (given.tag, given.ok, given.value) == ("ok", False, None)
    with pytest.raises(UpstreamFailed, match="succeeded by hand"):
        given.unwrap()


def test_what_failed_in_a_call_that_died_ends_who_waits_for_an_approval(ledger: Ledger) -> None:
    definition = work(
        ApprovalNode(name="ask", of="pay", payload="business:intent"),
        step("pay", after=["ask"], approval="ask"),
        step("bad", after=["slow"]),
        step("slow"),
        aggregation="fail_fast",
    )
    tasks = {"business:intent": lambda: {}, "pay": lambda: None, "slow": lambda: None}

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ledger, definition, **tasks, bad=die)
    bad = ledger.get_task(TaskKey("work", RUN.run_id, "bad"))
    assert bad is not None
    failed = Change(to=S.FAILED, trigger="user:marked")
    ledger.mark(bad.key, failed, session=bad.session, source=Source.API, now=NOW)

    done = run(ledger, definition, **tasks, bad=die)
    assert done.states == {"ask": S.CANCELLED, "pay": S.CANCELLED, "bad": S.FAILED, "slow": S.SUCCEEDED}
    assert done.waiting == ()


def test_what_was_undone_of_an_index_that_is_no_more_keeps_nobody_from_running(ledger: Ledger) -> None:
    lists = iter([[1, 2, 3], [1, 2]])
    first = True

    def each(ctx: TaskContext, row: int) -> int:
        return ctx.effect(
            "act", intent={"row": row, "first": first}, perform=lambda key: row, compensate=undo
        )

    def join(rows: list[int]) -> int:
        if first:
            raise RuntimeError("no")
        return sum(rows)

    definition = work(step("rows"), step("each", over={"row": "rows"}), step("join", deps={"rows": "each"}))
    tasks = {"rows": lambda: next(lists), "each": each, "join": join}
    assert run(ledger, definition, **tasks).state is RunState.FAILED_COMPENSATED
    first = False
    for record in ledger.list_tasks(RUN):
        if record.task_id != "each" or record.map_index < 2:
            cleared = Change(to=S.PENDING, trigger="user:cleared")
            ledger.mark(record.key, cleared, session=record.session, source=Source.API, now=NOW)
    done = run(ledger, definition, **tasks)
    assert (done.errors, done.state, done.value) == ({}, RunState.SUCCEEDED, 3)


def test_an_index_reads_its_list_and_not_the_whole_run(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = work(step("rows"), step("each", over={"row": "rows"}))
    done = run(ledger, definition, rows=lambda: [1, 2], each=lambda row: row)
    assert done.state is RunState.SUCCEEDED

    def no_list(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(ledger, "list_tasks", no_list)
    given = gather(definition, definition.node("each"), TaskKey("work", RUN.run_id, "each", 1), ledger)
    assert (given.arguments, given.upstream) == ({"row": 2}, {"rows": [1, 2]})
