"""Workflows declared in code are what JSON describes, and run (rows W1 to W3, W8, W13)."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.declared import add, built, choose, clean, extract, intent, listed, load, nothing, pay, refund

from louver.binding import bind
from louver.builder import BuiltWorkflow, GraphBuilder, workflow
from louver.definition import ApprovalNode, Definition, Step
from louver.engine import run_inline
from louver.errors import ConfigurationError, DefinitionError
from louver.marks import step as marked
from louver.policies import CompensationPolicy, RetryPolicy
from louver.states import RunState, TaskState
from louver.timeouts import Timeouts

TASKS = "support.declared"


def node_of(declare: Any, name: str = "a", **arguments: Any) -> Any:
    return built(declare, **arguments).definition().node(name)


# The same power as JSON


@workflow(
    version="2.1.0",
    aggregation="fail_fast",
    on_change="finish_old",
    compensation=CompensationPolicy(on_failure="stop", retry=RetryPolicy(max_attempts=5)),
    queue="etl",
)
def refunds(wf: GraphBuilder, source: str, factor: int = 3) -> Any:
    rows = wf.step("extract", extract, args=[source], kwargs={"limit": 4}, retry=RetryPolicy(max_attempts=3))
    cleaned = wf.map("clean", clean, over=rows, param="row", kwargs={"factor": factor}, resources={"cpu": 2})
    total = wf.step("total", f"{TASKS}:load", deps={"rows": cleaned})
    way = wf.branch("choose", choose, args=[total], timeouts=Timeouts(attempt=timedelta(minutes=1)))
    large = wf.step("large", nothing, after=[way], priority=7)
    small = wf.step("small", nothing, deps=[way], queue="slow", on_failure="continue")
    ask = wf.approve("ask", of="pay", payload=intent, args=[total], expires_after=60, approvers=["ann"])
    paid = wf.step("pay", pay, deps={"order": total}, approval=ask, compensate=refund, on_unknown="retry")
    return wf.join("report", listed, deps=[small, large, paid], collect="parts", join="all_settled")


REFUNDS = {
    "louver": 1,
    "name": "refunds",
    "version": "2.1.0",
    "params": ["source", "factor"],
    "aggregation": "fail_fast",
    "on_change": "finish_old",
    "compensation": {"on_failure": "stop", "retry": {"max_attempts": 5}},
    "sink": "report",
    "steps": [
        {
            "name": "extract",
            "task": f"{TASKS}:extract",
            "params": {"source": "source"},
            "kwargs": {"limit": 4},
            "retry": {"max_attempts": 3},
            "queue": "etl",
        },
        {
            "name": "clean",
            "task": f"{TASKS}:clean",
            "over": {"row": "extract"},
            "params": {"factor": "factor"},
            "resources": {"cpu": 2},
            "queue": "etl",
        },
        {"name": "total", "task": f"{TASKS}:load", "deps": {"rows": "clean"}, "queue": "etl"},
        {
            "name": "choose",
            "task": f"{TASKS}:choose",
            "branch": True,
            "deps": {"total": "total"},
            "timeouts": {"attempt_seconds": 60},
            "queue": "etl",
        },
        {"name": "large", "task": f"{TASKS}:nothing", "after": ["choose"], "priority": 7, "queue": "etl"},
        {
            "name": "small",
            "task": f"{TASKS}:nothing",
            "deps": ["choose"],
            "queue": "slow",
            "on_failure": "continue",
        },
        {
            "name": "ask",
            "deps": {"order": "total"},
            "approve": {
                "of": "pay",
                "payload": f"{TASKS}:intent",
                "expires_after_seconds": 60,
                "approvers": ["ann"],
            },
        },
        {
            "name": "pay",
            "task": f"{TASKS}:pay",
            "deps": {"order": "total"},
            "after": ["ask"],
            "approval": "ask",
            "compensate": {"undo": f"{TASKS}:refund", "on_unknown": "retry"},
            "queue": "etl",
        },
        {
            "name": "report",
            "task": f"{TASKS}:listed",
            "collect": {"parts": ["small", "large", "pay"]},
            "join": "all_settled",
            "queue": "etl",
        },
    ],
}


def test_code_and_json_give_the_same_definition() -> None:
    by_code, by_json = refunds.definition(), Definition.from_json(json.dumps(REFUNDS))

    assert by_code == by_json
    assert by_code.fingerprint == by_json.fingerprint


def test_the_functions_go_along_and_nothing_is_imported_for_them() -> None:
    assert refunds.tasks["extract"] is extract
    assert refunds.tasks["ask"] is intent
    assert "total" not in refunds.tasks
    assert bind(refunds.definition(), refunds.tasks).functions["total"] is load


def test_a_workflow_says_what_it_is() -> None:
    assert repr(refunds) == "<workflow 'refunds' version '2.1.0'>"
    assert refunds.params == ("source", "factor")
    assert refunds.defaults == {"factor": 3}


# Arguments


def test_arguments_come_from_literals_from_the_run_and_from_other_steps() -> None:
    def declare(wf: GraphBuilder, limit: int) -> None:
        first = wf.step("first", extract, args=["abc", limit])
        wf.step("a", add, args=[first], kwargs={"y": 3})

    first = node_of(declare, "first")
    assert (first.kwargs, first.params, first.inputs) == ({"source": "abc"}, {"limit": "limit"}, {})
    second = node_of(declare)
    assert (second.kwargs, second.params, second.inputs) == ({"y": 3}, {}, {"x": "first"})


def test_the_context_takes_no_place_among_arguments_by_position() -> None:
    def ctx_first(ctx: Any, x: Any) -> None:
        pass

    ctx_first.__qualname__ = "ctx_first"

    assert node_of(lambda wf: wf.step("a", ctx_first, args=[1])).kwargs == {"x": 1}


def test_arguments_by_position_of_a_task_that_is_a_path() -> None:
    assert node_of(lambda wf: wf.step("a", f"{TASKS}:add", args=[1, 2])).kwargs == {"x": 1, "y": 2}


def test_deps_by_parameter_and_for_order_alone() -> None:
    def declare(wf: GraphBuilder) -> None:
        one, two, three = (wf.step(name, nothing) for name in ("one", "two", "three"))
        wf.step("a", add, deps={"x": one}, kwargs={"y": two}, after=[three])
        wf.step("b", nothing, deps=[three, one], after=["two"])

    assert node_of(declare).upstream == ("one", "two", "three")
    assert node_of(declare, "b").inputs == {}
    assert node_of(declare, "b").upstream == ("three", "one", "two")


def test_a_step_waits_for_its_approval_once() -> None:
    def declare(wf: GraphBuilder) -> None:
        ask = wf.approve("ask", of="a", payload=intent, kwargs={"order": 1})
        wf.step("a", pay, kwargs={"order": 1}, approval=ask, after=[ask])

    assert node_of(declare).after == ("ask",)
    assert isinstance(node_of(declare, "ask"), ApprovalNode)


# Joins, lists, branches


@given(st.permutations(["a", "b", "c"]))
def test_a_join_collects_in_declared_order(order: list[str]) -> None:
    def declare(wf: GraphBuilder) -> Any:
        parts = [wf.step(name, add, kwargs={"x": name, "y": ""}) for name in "abc"]
        by_name = dict(zip("abc", parts, strict=True))
        return wf.join("all", listed, deps=[by_name[name] for name in order], collect="parts")

    template = built(declare)

    assert run_inline(template.definition(), template.tasks).value == order


def test_a_join_without_collect_is_for_order_alone() -> None:
    def declare(wf: GraphBuilder) -> None:
        wf.join("a", nothing, deps=[wf.step("b", nothing)], join="all_settled")

    assert (node_of(declare).after, node_of(declare).join) == (("b",), "all_settled")


def test_a_step_is_mapped_over_a_result() -> None:
    def declare(wf: GraphBuilder) -> Any:
        return wf.map("a", clean, over=wf.step("rows", extract, args=["abc"]), param="row")

    template = built(declare)

    assert run_inline(template.definition(), template.tasks).value == [0, 2, 4]


def test_a_step_is_mapped_over_a_parameter_of_the_run() -> None:
    def declare(wf: GraphBuilder, rows: list[int]) -> Any:
        return wf.map("a", clean, over=rows, param="row")

    template = built(
        declare, resources={"bank": 1}, queue="etl", timeouts=Timeouts(idle=timedelta(seconds=9))
    )
    source = template.definition().node("a_items")

    assert (source.params, source.queue) == ({"items": "rows"}, "etl")
    assert (source.resources, source.timeouts) == ({}, Timeouts())
    assert template.definition().node("a").over == {"row": "a_items"}
    assert run_inline(template.definition(), template.tasks, {"rows": [3, 1]}).value == [6, 2]
    assert run_inline(template.definition(), params={"rows": [3, 1]}).value == [6, 2]


def test_a_parameter_that_is_no_list_fails_the_step_that_hands_it_on() -> None:
    template = built(lambda wf, rows: wf.map("a", clean, over=rows, param="row"))

    result = run_inline(template.definition(), template.tasks, {"rows": "abc"})

    assert result.state is RunState.FAILED
    assert (result.states["a_items"], result.states["a"]) == (TaskState.FAILED, TaskState.SKIPPED)
    assert "over a list, not over a str" in str(result.errors["a_items"])


def test_a_step_is_mapped_over_a_literal_list() -> None:
    template = built(lambda wf: wf.map("a", clean, over=[5, 6], param="row"))

    assert run_inline(template.definition(), template.tasks).value == [10, 12]


@pytest.mark.parametrize(("total", "ran", "skipped"), [(9, "large", "small"), (1, "small", "large")])
def test_a_branch_chooses(total: int, ran: str, skipped: str) -> None:
    def declare(wf: GraphBuilder, total: int) -> None:
        way = wf.branch("way", choose, args=[total])
        for name in ("large", "small"):
            wf.step(name, nothing, after=[way])

    template = built(declare)
    states = run_inline(template.definition(), template.tasks, {"total": total}).states

    assert (states[ran], states[skipped]) == (TaskState.SUCCEEDED, TaskState.SKIPPED)


# Who says how a step is run (row W8)


@marked(queue="mark", priority=2, retry=RetryPolicy(max_attempts=2), on_failure="continue", tags=["bank"])
def with_mark() -> None:
    pass


@marked(compensate=refund, on_unknown="retry")
def with_undo() -> None:
    pass


def test_the_step_comes_before_the_mark_before_the_workflow_before_the_default() -> None:
    said = {"queue": "flow", "priority": 3, "resources": {"bank": 1}}

    def declare(wf: GraphBuilder) -> None:
        wf.step("own", with_mark, queue="own", priority=1, on_failure="fail")
        wf.step("mark", with_mark)
        wf.step("flow", nothing, retry=RetryPolicy(max_attempts=9), resources={})

    template = built(declare, **said)
    own, mark, flow = template.definition().nodes

    assert [(node.queue, node.priority) for node in (own, mark, flow)] == [
        ("own", 1),
        ("mark", 2),
        ("flow", 3),
    ]
    assert [node.retry.max_attempts for node in (own, mark, flow)] == [2, 2, 9]
    assert [node.on_failure for node in (own, mark, flow)] == ["fail", "continue", "fail"]
    assert [dict(node.resources) for node in (own, mark, flow)] == [{"bank": 1}, {"bank": 1}, {}]
    assert template.tags == {"own": ("bank",), "mark": ("bank",)}


def test_a_mark_can_say_what_undoes_the_step() -> None:
    node = node_of(lambda wf: wf.step("a", with_undo))

    assert (node.compensate, node.on_unknown) == (f"{TASKS}:refund", "retry")


# The run's result


@pytest.mark.parametrize("returned", ["first", "the name", "nothing"])
def test_what_the_function_returns_is_the_result(returned: str) -> None:
    def declare(wf: GraphBuilder) -> Any:
        first = wf.step("first", nothing)
        wf.step("last", nothing)
        return {"first": first, "the name": "first", "nothing": None}[returned]

    expected = "last" if returned == "nothing" else "first"
    assert built(declare).definition().result_node == expected


# Values that are known: embedded


def by_size(wf: GraphBuilder, rows: list[int], size: int = 2) -> Any:
    """Declare one step per part; the number of parts is decided here."""
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    steps = [wf.step(f"part_{number}", add, args=[part, [0]]) for number, part in enumerate(parts)]
    return wf.join("all", listed, deps=steps, collect="parts")


def test_embedded_the_function_sees_the_values_of_the_submission() -> None:
    template = built(by_size)
    whole = template.build(rows=[1, 2, 3])

    assert isinstance(whole, BuiltWorkflow)
    assert whole.definition.params == ()
    assert whole.definition.names == ("part_0", "part_1", "all")
    assert run_inline(whole.definition, whole.tasks).value == [[1, 2, 0], [3, 0]]
    assert template.build(rows=[1, 2, 3], size=3).definition.names == ("part_0", "all")


def test_as_a_dag_the_same_function_is_told_to_map_or_to_branch() -> None:
    with pytest.raises(DefinitionError, match=r"wf\.map") as refused:
        built(by_size).definition()

    assert (refused.value.source, refused.value.attribute) == ("etl", "params.rows")


@pytest.mark.parametrize(
    ("values", "text"), [({}, "needs 'rows'"), ({"rows": [1], "sise": 2}, "has no parameter 'sise'")]
)
def test_a_submission_gives_the_parameters_that_there_are(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        built(by_size).build(**values)


def take(event: Any) -> Any:
    return event


def test_an_event_starts_a_workflow() -> None:
    template = built(lambda wf, event: wf.step("take", take, args=[event]), event_type="orders.placed")

    assert template.definition().event_type == "orders.placed"
    assert template.definition().root == "take"
    assert template.build(event={"id": "1"}).definition.event_type is None


def test_a_workflow_that_an_event_starts_takes_it() -> None:
    with pytest.raises(DefinitionError, match="the one parameter 'event'"):
        built(lambda wf: wf.step("take", nothing), event_type="orders.placed").definition()


# Dag files


def test_functions_of_a_dag_file_run_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "unusual_prefix_7ca1ff9f4cbb0e2ba5bdc6f9d0a5b7d0f9b7c7ce_sums"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(
        "from louver.builder import workflow\n"
        "def one(): return 1\n"
        "def more(x): return x + 1\n"
        "@workflow(version='1.0.0')\n"
        "def sums(wf):\n"
        "    return wf.step('more', more, args=[wf.step('one', one)])\n",
        module.__dict__,
    )
    template = module.sums
    definition = template.definition()

    assert [node.task for node in definition.nodes if isinstance(node, Step)] == ["sums:one", "sums:more"]
    assert run_inline(definition, template.tasks).value == 2
