"""A definition that breaks a rule is refused when it is made, by node and attribute (row W4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from louver.definition import ApprovalNode, Definition, Node, Step
from louver.errors import DefinitionError
from louver.policies import RetryPolicy


def step(name: str = "pay", **changes: Any) -> Step:
    return Step(**{"name": name, "task": "shop:act", **changes})


def approval(name: str = "ask", **changes: Any) -> ApprovalNode:
    return ApprovalNode(**{"name": name, "of": "pay", "payload": "shop:intent", **changes})


def workflow(*nodes: Node, **changes: Any) -> Definition:
    return Definition(**{"name": "orders", "version": "1.0.0", "nodes": nodes, **changes})


def guarded(**changes: Any) -> Definition:
    return workflow(approval(), step(after=["ask"], approval="ask"), **changes)


BROKEN: dict[str, tuple[Callable[[], object], str | None, str]] = {
    "step without name": (lambda: step(""), "", "name"),
    "step name with a space": (lambda: step("a b"), "a b", "name"),
    "step name with a slash": (lambda: step("a/b"), "a/b", "name"),
    "step name that starts with a digit": (lambda: step("1st"), "1st", "name"),
    "step name that ends in a line break": (lambda: step("pay\n"), "pay\n", "name"),
    "step name that is not ASCII": (lambda: step("caf\u00e9"), "caf\u00e9", "name"),
    "step name that is too long": (lambda: step("a" * 201), "a" * 80, "name"),
    "step name that is no text": (lambda: step(5), "5", "name"),  # type: ignore[arg-type]
    "step named like a closing task": (lambda: step("compensate"), "compensate", "name"),
    "task without a function": (lambda: step(task="shop"), "pay", "task"),
    "task with a path": (lambda: step(task="../shop:act"), "pay", "task"),
    "task that is no text": (lambda: step(task=len), "pay", "task"),
    "payload without a function": (lambda: approval(payload="shop"), "ask", "approve.payload"),
    "deps that are one text": (lambda: step(deps="ask"), "pay", "deps"),
    "after that is one text": (lambda: step(after="ask"), "pay", "after"),
    "after that holds a number": (lambda: step(after=[1]), "pay", "after"),
    "a node named twice": (lambda: step(after=["ask", "ask"]), "pay", "deps"),
    "a parameter that is a keyword": (lambda: step(deps={"class": "ask"}), "pay", "deps"),
    "a parameter that is no name": (lambda: step(params={"a-b": "x"}), "pay", "params"),
    "a literal for a keyword": (lambda: step(kwargs={"if": 1}), "pay", "kwargs"),
    "the context as a parameter": (lambda: step(kwargs={"ctx": 1}), "pay", "kwargs"),
    "a parameter given twice": (lambda: step(deps={"x": "ask"}, kwargs={"x": 1}), "pay", "kwargs"),
    "a literal that is no value": (lambda: step(kwargs={"x": float("nan")}), "pay", "kwargs"),
    "on_failure with another word": (lambda: step(on_failure="ignore"), "pay", "on_failure"),
    "priority 0": (lambda: step(priority=0), "pay", "priority"),
    "priority that is a bool": (lambda: step(priority=True), "pay", "priority"),
    "an empty queue": (lambda: step(queue=""), "pay", "queue"),
    "a queue that is no text": (lambda: step(queue=5), "pay", "queue"),
    "an approval that is no text": (lambda: step(approval=True), "pay", "approval"),
    "a retry that is no policy": (lambda: step(retry=3), "pay", "retry"),
    "no time to answer": (lambda: approval(expires_after=0), "ask", "approve.expires_after_seconds"),
    "endless time to answer": (
        lambda: approval(expires_after=float("inf")),
        "ask",
        "approve.expires_after_seconds",
    ),
    "a bool for a time": (lambda: approval(expires_after=True), "ask", "approve.expires_after_seconds"),
    "approvers that are one text": (lambda: approval(approvers="ann"), "ask", "approve.approvers"),
    "four eyes that are no bool": (lambda: approval(four_eyes="no"), "ask", "approve.four_eyes"),
    "a workflow name with a space": (lambda: workflow(step(), name="a b"), None, "name"),
    "a version that is none": (lambda: workflow(step(), version=""), None, "version"),
    "a workflow without steps": (lambda: workflow(), None, "steps"),
    "a run parameter that stands twice": (lambda: workflow(step(), params=["a", "a"]), None, "params"),
    "run parameters that are one text": (lambda: workflow(step(), params="ab"), None, "params"),
    "two steps of one name": (lambda: workflow(step(), step()), "pay", "name"),
    "a step that waits for itself": (lambda: workflow(step(after=["pay"])), "pay", "deps"),
    "a step that waits for nobody we know": (lambda: workflow(step(deps={"x": "ship"})), "pay", "deps"),
    "two steps that wait for each other": (
        lambda: workflow(step("free"), step("a", after=["b"]), step("b", after=["a"])),
        "a",
        "deps",
    ),
    "a run parameter that nobody declared": (
        lambda: workflow(step(params={"x": "amount"})),
        "pay",
        "params",
    ),
    "a sink that is no step": (lambda: workflow(step(), sink="ship"), None, "sink"),
    "an approval of nobody": (lambda: workflow(approval()), "ask", "approve.of"),
    "an approval that its step does not name": (lambda: workflow(approval(), step()), "ask", "approve.of"),
    "an approval of an approval": (
        lambda: workflow(approval(of="more"), approval("more", of="pay"), step(approval="more")),
        "ask",
        "approve.of",
    ),
    "a step approved by a step": (lambda: workflow(step("ask"), step(approval="ask")), "pay", "approval"),
    "a step approved by another one's approval": (
        lambda: workflow(
            approval(), step(after=["ask"], approval="ask"), step("ship", after=["ask"], approval="ask")
        ),
        "ship",
        "approval",
    ),
    "a step that does not wait for its approval": (
        lambda: workflow(approval(), step(approval="ask")),
        "pay",
        "approval",
    ),
    "an event for two roots": (
        lambda: workflow(step("a"), step("b"), event_type="order", params=["event"]),
        None,
        "event_type",
    ),
    "an event type that is empty": (
        lambda: workflow(step(), event_type="", params=["event"]),
        None,
        "event_type",
    ),
    "an event with more parameters": (
        lambda: workflow(step(), event_type="order", params=["event", "amount"]),
        None,
        "params",
    ),
}


@pytest.mark.parametrize(("make", "node", "attribute"), BROKEN.values(), ids=BROKEN)
def test_a_broken_definition_names_node_and_attribute(
    make: Callable[[], object], node: str | None, attribute: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        make()
    assert (caught.value.node, caught.value.attribute) == (node, attribute)


def test_text_that_nobody_can_write_is_refused_where_it_stands() -> None:
    with pytest.raises(DefinitionError) as caught:
        workflow(step(queue="\ud800"))
    assert caught.value.attribute == "steps[0].queue"


def test_a_cycle_is_named_without_the_steps_around_it() -> None:
    with pytest.raises(DefinitionError, match=r"cycle: a, b$"):
        workflow(
            step("before"),
            step("a", after=["before", "b"]),
            step("b", after=["a"]),
            step("after", after=["b"]),
        )


def test_an_unknown_dependency_says_what_there_is() -> None:
    with pytest.raises(DefinitionError, match=r"there are: check, pay$"):
        workflow(step("check"), step(after=["chekc"]))


def test_order_of_upstream_is_that_of_declaration() -> None:
    definition = workflow(
        step("c"), step("a"), step("b"), step(deps={"x": "b", "y": "c", "z": "b"}, after=["a", "c"])
    )
    assert definition.node("pay").upstream == ("b", "c", "a")
    assert definition.ancestors("pay") == ("c", "a", "b")
    assert definition.names == ("c", "a", "b", "pay")


def test_a_list_of_deps_is_order_alone() -> None:
    listed = step(deps=["a", "b"], after=["c"])
    assert (dict(listed.inputs), listed.upstream) == ({}, ("a", "b", "c"))


def test_ancestors_go_all_the_way_up() -> None:
    definition = workflow(step("a"), step("b", after=["a"]), step("c", after=["b"]), step("d"))
    assert definition.ancestors("c") == ("a", "b")
    assert definition.ancestors("d") == ()
    with pytest.raises(DefinitionError, match="'e' is not a step"):
        definition.ancestors("e")


def test_root_and_sink() -> None:
    definition = workflow(step("b", after=["a"]), step("a"))
    assert (definition.root, definition.result_node) == ("a", "a")
    assert workflow(step("b", after=["a"]), step("a"), sink="b").result_node == "b"


def test_a_definition_cannot_be_changed() -> None:
    definition = guarded()
    with pytest.raises(AttributeError):
        definition.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        step(kwargs={"x": 1}).kwargs["x"] = 2  # type: ignore[index]


FULL: dict[str, Any] = {
    "deps": {"x": "look"},
    "after": ("ask",),
    "params": {"p": "amount"},
    "kwargs": {"k": 1},
    "retry": RetryPolicy(max_attempts=2),
    "approval": "ask",
}


def full(
    *, ask: dict[str, Any] | None = None, pay: dict[str, Any] | None = None, **changes: Any
) -> Definition:
    return workflow(
        step("look"),
        approval(after=["look"], **(ask or {})),
        step(**(FULL | (pay or {}))),
        **{"params": ["amount", "other"], **changes},
    )


CHANGES: dict[str, Callable[[], Definition]] = {
    "name": lambda: full(name="others"),
    "version": lambda: full(version="1.0.1"),
    "params": lambda: full(params=["amount", "other", "more"]),
    "order of params": lambda: full(params=["other", "amount"]),
    "sink": lambda: full(sink="look"),
    "task": lambda: full(pay={"task": "shop:other"}),
    "a dep's parameter": lambda: full(pay={"deps": {"y": "look"}}),
    "a dep's node": lambda: full(pay={"deps": {"x": "ask"}}),
    "after": lambda: full(pay={"after": ("look", "ask")}),
    "a param's parameter": lambda: full(pay={"params": {"q": "amount"}}),
    "a param's name": lambda: full(pay={"params": {"p": "other"}}),
    "a literal": lambda: full(pay={"kwargs": {"k": 2}}),
    "a literal's type": lambda: full(pay={"kwargs": {"k": 1.0}}),
    "max_attempts": lambda: full(pay={"retry": RetryPolicy(max_attempts=3)}),
    "delay": lambda: full(pay={"retry": RetryPolicy(max_attempts=2, delay=timedelta(seconds=1))}),
    "queue": lambda: full(pay={"queue": "slow"}),
    "priority": lambda: full(pay={"priority": 2}),
    "on_failure": lambda: full(pay={"on_failure": "continue"}),
    "payload": lambda: full(ask={"payload": "shop:other"}),
    "expires_after": lambda: full(ask={"expires_after": 60}),
    "approvers": lambda: full(ask={"approvers": ["ann"]}),
    "four_eyes": lambda: full(ask={"four_eyes": True}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_field_counts_in_the_fingerprint(change: Callable[[], Definition]) -> None:
    assert full().fingerprint == full().fingerprint
    assert change().fingerprint != full().fingerprint


def test_an_event_counts_in_the_fingerprint() -> None:
    def taking(event_type: str | None) -> Definition:
        return workflow(step(), params=["event"], event_type=event_type)

    assert len({taking(None).fingerprint, taking("order").fingerprint, taking("refund").fingerprint}) == 3


def test_the_same_said_otherwise_has_the_same_fingerprint() -> None:
    said = full(pay={"kwargs": {"k": 1, "l": 2}, "deps": {"x": "look", "y": "ask"}})
    otherwise = full(pay={"kwargs": {"l": 2, "k": 1}, "deps": {"y": "ask", "x": "look"}})
    assert workflow(step("a"), step("b", deps=["a"])) == workflow(step("a"), step("b", after=["a"]))
    assert full(ask={"expires_after": 60}).fingerprint == full(ask={"expires_after": 60.0}).fingerprint
    assert said.fingerprint == otherwise.fingerprint
