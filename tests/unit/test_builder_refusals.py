"""What no workflow can be is refused where it is written, by workflow, node, attribute (row W4, case J07)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from support.declared import (
    add,
    anything,
    built,
    by_order,
    clean,
    intent,
    listed,
    marked_waits,
    nothing,
    waits,
    yields,
    yields_and_waits,
)

from louver.builder import GraphBuilder
from louver.errors import DefinitionError

NO_ZONE = datetime(2026, 11, 30)  # noqa: DTZ001 - a value that is refused


def other_workflow() -> Any:
    return GraphBuilder(workflow="other").step("extract", nothing)


REFUSED: dict[str, tuple[Callable[..., Any], str | None, str | None, str]] = {
    "a name twice": (
        lambda wf: (wf.step("a", nothing), wf.step("a", nothing)),
        "a",
        "name",
        "another step has this name",
    ),
    "a step that waits for itself": (lambda wf: wf.step("a", nothing, deps=["a"]), "a", "deps", "itself"),
    "a cycle": (
        lambda wf: [wf.step("a", nothing, after=["b"]), wf.step("b", nothing, after=["a"])][0],
        "a",
        "deps",
        "cycle: a, b",
    ),
    "a step that is not there": (lambda wf: wf.step("a", nothing, deps=["z"]), "a", "deps", "'z'"),
    "a node of another workflow": (
        lambda wf: wf.step("a", add, args=[other_workflow()]),
        "a",
        "args",
        "a node of workflow 'other'",
    ),
    "a workflow without steps": (lambda wf: None, None, "steps", "at least one step"),
    "a result that is not there": (
        lambda wf: (wf.step("a", nothing), "z")[1],
        None,
        "sink",
        "'z' is not a step",
    ),
    "a result of another workflow": (
        lambda wf: (wf.step("a", nothing), other_workflow())[1],
        None,
        "sink",
        "workflow 'other'",
    ),
    "two results": (
        lambda wf: [wf.step("a", nothing), wf.step("b", nothing)],
        None,
        "sink",
        "the one node whose result",
    ),
    "a parameter as the result": (
        lambda wf, rows: (wf.step("a", nothing), rows)[1],
        None,
        "sink",
        "parameter of the run",
    ),
    "bad on_failure": (
        lambda wf: wf.step("a", nothing, on_failure="ignore"),
        "a",
        "on_failure",
        "fail, continue",
    ),
    "a quorum": (lambda wf: wf.step("a", nothing, join="2 of 3"), "a", "join", "who finishes first"),
    "collect without deps": (
        lambda wf: wf.join("a", listed, deps=[], collect="parts"),
        "a",
        "collect",
        "of no node",
    ),
    "collect with deps by parameter": (
        lambda wf: wf.join("a", listed, deps={"x": wf.step("b", nothing)}, collect="parts"),
        "a",
        "deps",
        "must be a list of nodes",
    ),
    "collect from one node": (
        lambda wf: wf.join("a", listed, deps=wf.step("b", nothing), collect="parts"),
        "a",
        "deps",
        "must be a list of nodes",
    ),
    "collect into a parameter that is not there": (
        lambda wf: wf.join("a", listed, deps=[wf.step("b", nothing)], collect="rows"),
        "a",
        "collect",
        "has no parameter 'rows'",
    ),
    "deps that are one node": (
        lambda wf: wf.step("a", nothing, deps=wf.step("b", nothing)),
        "a",
        "deps",
        "map parameters to nodes",
    ),
    "deps that are one name": (lambda wf: wf.step("a", nothing, deps="b"), "a", "deps", "a list of nodes"),
    "after that is one name": (lambda wf: wf.step("a", nothing, after="b"), "a", "after", "a list of nodes"),
    "a parameter of the run among deps": (
        lambda wf, rows: wf.step("a", add, deps={"x": rows}),
        "a",
        "deps",
        "give it in args= or kwargs=",
    ),
    "a function among deps": (
        lambda wf: wf.step("a", nothing, deps=[nothing]),
        "a",
        "deps",
        "not a function",
    ),
    "a parameter that the task lacks": (
        lambda wf: wf.step("a", add, kwargs={"x": 1, "z": 1}),
        "a",
        "kwargs",
        "has no parameter 'z'",
    ),
    "a parameter that nobody gives": (lambda wf: wf.step("a", add), "a", "deps", "needs 'x'"),
    "a parameter by position and by name": (
        lambda wf: wf.step("a", add, args=[1], kwargs={"x": 1}),
        "a",
        "kwargs",
        "'x' is given twice",
    ),
    "a parameter by value and by result": (
        lambda wf: wf.step("a", add, args=[1], deps={"x": wf.step("b", nothing)}),
        "a",
        "deps",
        "'x' is given twice",
    ),
    "a parameter by literal and by item": (
        lambda wf: wf.map("a", clean, over=[1], param="row", kwargs={"row": 1}),
        "a",
        "kwargs",
        "'row' is given twice",
    ),
    "too many arguments": (
        lambda wf: wf.step("a", add, args=[1, 2, 3]),
        "a",
        "args",
        "takes 2 by position: x, y",
    ),
    "arguments by position for a task that takes none": (
        lambda wf: wf.step("a", by_order, args=[1]),
        "a",
        "args",
        "takes 0 by position",
    ),
    "arguments that are one text": (
        lambda wf: wf.step("a", add, args="xy"),
        "a",
        "args",
        "a list or a tuple",
    ),
    "arguments that are one result": (
        lambda wf: wf.step("a", add, args=wf.step("b", nothing)),
        "a",
        "args",
        "a list or a tuple",
    ),
    "arguments by name that are a list": (
        lambda wf: wf.step("a", add, kwargs=[1]),
        "a",
        "kwargs",
        "must map parameters",
    ),
    "the context as an argument": (
        lambda wf: wf.step("a", anything, kwargs={"ctx": 1}),
        "a",
        "kwargs",
        "ctx",
    ),
    "a keyword as a parameter": (
        lambda wf: wf.step("a", anything, kwargs={"class": 1}),
        "a",
        "kwargs",
        "'class' cannot be a parameter",
    ),
    "a name that is none as a parameter": (
        lambda wf: wf.step("a", anything, deps={"a-b": wf.step("b", nothing)}),
        "a",
        "deps",
        "'a-b' cannot be a parameter",
    ),
    "a result inside of a list": (
        lambda wf: wf.step("a", add, args=[[wf.step("b", nothing)]]),
        "a",
        "args",
        "collect=...",
    ),
    "a parameter of the run inside of a dict": (
        lambda wf, rows: wf.step("a", add, kwargs={"x": {"rows": (rows,)}}),
        "a",
        "kwargs",
        "holds a result or a parameter of the run inside",
    ),
    "a literal that is no value": (
        lambda wf: wf.step("a", add, args=[NO_ZONE]),
        "a",
        "kwargs",
        "datetime",
    ),
    "mapped over nothing": (lambda wf: wf.map("a", clean, over=None), "a", "over", "must be a node"),
    "an item for a parameter that is not there": (
        lambda wf: wf.map("a", clean, over=[1]),
        "a",
        "over",
        "has no parameter 'item'",
    ),
    "a mapped step that joins what failed": (
        lambda wf: wf.map("a", clean, over=[1], param="row", join="all_settled"),
        "a",
        "join",
        "needs its list",
    ),
    "a branch with nothing to choose": (
        lambda wf: wf.branch("a", nothing),
        "a",
        "branch",
        "nothing to choose",
    ),
    "an argument that is misspelt": (
        lambda wf: wf.map("a", clean, over=[1], param="row", ressources={"cpu": 1}),
        "a",
        "ressources",
        "choose from: after, approval, args",
    ),
    "an approval that nobody acts on": (
        lambda wf: wf.approve("ask", of="pay", payload=intent, kwargs={"order": 1}),
        "ask",
        "approve.of",
        "'pay' must be a step with approval 'ask'",
    ),
    "an approval whose payload takes the context": (
        lambda wf: wf.approve("ask", of="pay", payload=by_order),
        "ask",
        "approve.payload",
        "takes ctx",
    ),
    "a lambda as a task": (lambda wf: wf.step("a", lambda: None), "a", "task", "is a lambda"),
    "an async function as a task": (
        lambda wf: wf.step("a", waits),
        "a",
        "task",
        "support.declared:waits is an async function, which has done nothing when it returns; write a "
        "function around it that calls asyncio.run",
    ),
    "a marked async function": (
        lambda wf: wf.step("a", marked_waits),
        "a",
        "task",
        "support.declared:marked_waits is an async function",
    ),
    "a generator function as a task": (
        lambda wf: wf.step("a", yields),
        "a",
        "task",
        "support.declared:yields is a generator function, which has done nothing when it returns; return",
    ),
    "an async generator function as a task": (
        lambda wf: wf.step("a", yields_and_waits),
        "a",
        "task",
        "support.declared:yields_and_waits is an async generator function",
    ),
    "a mapped step that is async": (
        lambda wf: wf.map("a", waits, over=[1], param="order"),
        "a",
        "task",
        "is an async function",
    ),
    "a branch that is async": (lambda wf: wf.branch("a", waits), "a", "task", "is an async function"),
    "a join that is async": (
        lambda wf: wf.join("a", waits, deps=[wf.step("b", nothing)], collect="order"),
        "a",
        "task",
        "is an async function",
    ),
    "a payload that is async": (
        lambda wf: wf.approve("ask", of="pay", payload=waits),
        "ask",
        "approve.payload",
        "is an async function",
    ),
    "an undo that is async": (
        lambda wf: wf.step("a", nothing, compensate=waits),
        "a",
        "compensate",
        "is an async function",
    ),
    "the path of an undo that is async": (
        lambda wf: wf.step("a", nothing, compensate="support.declared:waits"),
        "a",
        "compensate",
        "is an async function",
    ),
    "a number as a task": (lambda wf: wf.step("a", 5), "a", "task", "must be a function"),
    "a path that cannot be imported, with arguments by position": (
        lambda wf: wf.step("a", "no.such:task", args=[1]),
        "a",
        "args",
        "give the arguments by name",
    ),
    "an undo that is a lambda": (
        lambda wf: wf.step("a", nothing, compensate=lambda undo: None),
        "a",
        "compensate",
        "found by import",
    ),
    "on_unknown without an undo": (
        lambda wf: wf.step("a", nothing, on_unknown="retry"),
        "a",
        "on_unknown",
        "name its undo",
    ),
    "retry that is a number": (lambda wf: wf.step("a", nothing, retry=3), "a", "retry", "RetryPolicy"),
    "a decision by a parameter of the run": (
        lambda wf, rows: wf.step("a" if rows else "b", nothing),
        None,
        "params.rows",
        "wf.branch",
    ),
    "a loop over a result": (
        lambda wf: [wf.step(f"s{row}", nothing) for row in wf.step("a", nothing)],
        "a",
        None,
        "wf.map",
    ),
}


@pytest.mark.parametrize(("declare", "node", "attribute", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_refused_by_workflow_node_and_attribute(
    declare: Callable[..., Any], node: str | None, attribute: str | None, text: str
) -> None:
    template = built(declare)

    with pytest.raises(DefinitionError) as refused:
        template.definition()

    assert refused.value.source == "etl"
    assert (refused.value.node, refused.value.attribute) == (node, attribute)
    assert text in refused.value.reason


HEADS: dict[str, tuple[Callable[[], Any], str]] = {
    "no builder": (lambda: built(lambda: None), "takes the builder first"),
    "a builder by name alone": (lambda: built(lambda *, wf: None), "takes the builder first"),
    "any number of parameters": (
        lambda: built(lambda wf, *rows: None),
        "'rows' cannot be a parameter of a run",
    ),
    "any parameters by name": (
        lambda: built(lambda wf, **rows: None),
        "'rows' cannot be a parameter of a run",
    ),
    "a parameter by position alone": (
        lambda: built(lambda wf, rows, /: None),
        "'rows' cannot be a parameter",
    ),
    "a default that is no value": (
        lambda: built(lambda wf, at=NO_ZONE: None),
        "the default is no value",
    ),
    "something else than a function": (lambda: built(5), "decorates a function"),  # type: ignore[arg-type]
    "an aggregation that is none": (
        lambda: built(lambda wf: wf.step("a", nothing), aggregation="fast").definition(),
        "skip_downstream, fail_fast",
    ),
    "a name that is none": (
        lambda: built(lambda wf: wf.step("a", nothing), name="a b").definition(),
        "letters, digits",
    ),
    "an empty name": (
        lambda: built(lambda wf: wf.step("a", nothing), name="").definition(),
        "letters, digits",
    ),
}


@pytest.mark.parametrize(("make", "text"), HEADS.values(), ids=HEADS.keys())
def test_a_workflow_that_cannot_be_is_refused_by_name(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        make()
