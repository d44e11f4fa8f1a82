"""Joins, lists, mapped steps, branches, undo of a step: what is refused, how it is read and written (T15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.binding import bind
from louver.definition import AGGREGATIONS, ON_CHANGE, ApprovalNode, Definition, Node, Step
from louver.errors import DefinitionError
from louver.node_checks import JOINS
from louver.policies import ON_UNDO_FAILURE, CompensationPolicy, RetryPolicy

ROOT = Path(__file__).resolve().parents[2]


def step(name: str = "pay", **changes: Any) -> Step:
    return Step(**{"name": name, "task": "shop:act", **changes})


def approval(**changes: Any) -> ApprovalNode:
    return ApprovalNode(**{"name": "ask", "of": "pay", "payload": "shop:intent", **changes})


def workflow(*nodes: Node, **changes: Any) -> Definition:
    return Definition(**{"name": "orders", "version": "1.0.0", "nodes": nodes, **changes})


BROKEN: dict[str, tuple[Callable[[], object], str | None, str, str]] = {
    "an unknown join": (lambda: step(join="sometimes"), "pay", "join", "all_succeeded, all_settled"),
    "a quorum": (lambda: step(join="quorum"), "pay", "join", "who finishes first"),
    "a quorum by number": (lambda: step(join=2), "pay", "join", "who finishes first"),
    "a quorum in words": (lambda: step(join="2 of 3"), "pay", "join", "who finishes first"),
    "a majority": (lambda: step(join="majority"), "pay", "join", "who finishes first"),
    "the first to come": (lambda: step(join="one_success"), "pay", "join", "who finishes first"),
    "Airflow's word for a join": (lambda: step(join="all_done"), "pay", "join", "write all_settled"),
    "a join that is true": (lambda: step(join=True), "pay", "join", "who finishes first"),
    "a branch that is no bool": (lambda: step(branch=1), "pay", "branch", "true or false"),
    "collect that is no mapping": (lambda: step(collect=["a"]), "pay", "collect", "must map"),
    "collect of no nodes": (lambda: step(collect={"parts": []}), "pay", "collect", "of no node"),
    "collect of one text": (lambda: step(collect={"parts": "ab"}), "pay", "collect", "list of strings"),
    "collect of nothing": (lambda: step(collect={"parts": None}), "pay", "collect", "list of strings"),
    "collect of a node twice": (lambda: step(collect={"parts": ["a", "a"]}), "pay", "collect", "twice"),
    "a list and a literal for one parameter": (
        lambda: step(collect={"x": ["a"]}, kwargs={"x": 1}),
        "pay",
        "kwargs",
        "'x' is given twice",
    ),
    "an item and a result for one parameter": (
        lambda: step(over={"x": "a"}, deps={"x": "b"}),
        "pay",
        "over",
        "'x' is given twice",
    ),
    "a list for a keyword": (
        lambda: step(collect={"class": ["a"]}),
        "pay",
        "collect",
        "cannot be a parameter",
    ),
    "over that is one text": (lambda: step(over="extract"), "pay", "over", "must map one parameter"),
    "over of a number": (lambda: step(over={"row": 1}), "pay", "over", "must map one parameter"),
    "over of two lists": (lambda: step(over={"x": "a", "y": "b"}), "pay", "over", "over one list"),
    "the context as an item": (lambda: step(over={"ctx": "a"}), "pay", "over", "task context"),
    "a mapped branch": (lambda: step(over={"x": "a"}, branch=True), "pay", "branch", "cannot branch"),
    "a mapped step that joins what failed": (
        lambda: step(over={"x": "a"}, join="all_settled"),
        "pay",
        "join",
        "needs its list",
    ),
    "a mapped step that acts on an approval": (
        lambda: step(over={"x": "a"}, approval="ask"),
        "pay",
        "over",
        "one act",
    ),
    "an acting step that joins what was refused": (
        lambda: step(approval="ask", join="all_settled"),
        "pay",
        "join",
        "only where it was given",
    ),
    "an undo that is no path": (lambda: step(compensate="refund"), "pay", "compensate", "package.module"),
    "an undo that is a function": (lambda: step(compensate=print), "pay", "compensate", "package.module"),
    "on_unknown with another word": (
        lambda: step(compensate="shop:undo", on_unknown="verify"),
        "pay",
        "on_unknown",
        "manual, retry",
    ),
    "on_unknown of a step that is no effect": (
        lambda: step(on_unknown="retry"),
        "pay",
        "on_unknown",
        "name its undo",
    ),
    "an unknown aggregation": (
        lambda: workflow(step(), aggregation="fast"),
        None,
        "aggregation",
        "skip_downstream, fail_fast",
    ),
    "a policy that is none": (
        lambda: workflow(step(), on_change="ask"),
        None,
        "on_change",
        "finish_old, accept_compatible",
    ),
    "a compensation that is a word": (
        lambda: workflow(step(), compensation="stop"),
        None,
        "compensation",
        "must be a CompensationPolicy",
    ),
    "another word for what follows a failed undo": (
        lambda: CompensationPolicy(on_failure="give_up"),
        None,
        "compensation.on_failure",
        "go_on, stop",
    ),
    "a number of undos": (
        lambda: CompensationPolicy(retry=3),  # type: ignore[arg-type]
        None,
        "compensation.retry",
        "must be a RetryPolicy",
    ),
    "a list of nobody we know": (
        lambda: workflow(step(collect={"x": ["ship"]})),
        "pay",
        "collect",
        "'ship', which is not a step",
    ),
    "a list of its own": (lambda: workflow(step(collect={"x": ["pay"]})), "pay", "collect", "itself"),
    "items of nobody we know": (lambda: workflow(step(over={"x": "ship"})), "pay", "over", "'ship'"),
    "items of its own": (lambda: workflow(step(over={"x": "pay"})), "pay", "over", "itself"),
    "a cycle through a list": (
        lambda: workflow(step("a", collect={"x": ["b"]}), step("b", over={"x": "a"})),
        "a",
        "deps",
        "in a cycle: a, b",
    ),
    "items of an approval": (
        lambda: workflow(approval(), step(after=["ask"], approval="ask"), step("each", over={"x": "ask"})),
        "each",
        "over",
        "is an approval",
    ),
    "items of a branch": (
        lambda: workflow(step("choose", branch=True), step("each", over={"x": "choose"})),
        "each",
        "over",
        "names that it chose",
    ),
    "a branch with nothing behind it": (
        lambda: workflow(step("choose", branch=True), step()),
        "choose",
        "branch",
        "nothing to choose",
    ),
    "a join that a branch overrules": (
        lambda: workflow(step("choose", branch=True), step(after=["choose"], join="any_succeeded")),
        "pay",
        "join",
        "alone decides",
    ),
}


@pytest.mark.parametrize(("make", "node", "attribute", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_is_refused_by_node_and_attribute(
    make: Callable[[], object], node: str | None, attribute: str, text: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        make()

    assert (refused.value.node, refused.value.attribute) == (node, attribute)
    assert text in refused.value.reason


def test_a_node_waits_for_all_it_names_each_once_in_declared_order() -> None:
    node = step(deps={"x": "a", "y": "b"}, collect={"parts": ["c", "a"]}, over={"row": "d"}, after=["e", "b"])

    assert node.upstream == ("a", "b", "c", "d", "e")
    assert node.mapped
    assert not step().mapped


def test_an_approval_is_asked_once_and_joins_all() -> None:
    asked = approval(deps={"rows": "clean"})

    assert (asked.join, asked.collect, asked.over, asked.branch, asked.mapped) == (
        "all_succeeded",
        {},
        {},
        False,
        False,
    )


def test_an_approval_may_be_shown_the_list_of_a_mapped_step() -> None:
    definition = workflow(
        step("extract"),
        step("clean", over={"row": "extract"}),
        approval(deps={"rows": "clean"}),
        step(after=["ask"], approval="ask"),
    )

    assert definition.node("ask").inputs == {"rows": "clean"}


def test_a_mapped_step_may_go_through_the_list_of_another() -> None:
    definition = workflow(
        step("extract"), step("clean", over={"row": "extract"}), step("load", over={"row": "clean"})
    )

    assert definition.node("load").mapped


# JSON


USED: dict[str, tuple[dict[str, Any], Any]] = {
    "join": ({"join": "all_settled"}, "all_settled"),
    "collect": ({"collect": {"parts": ["b", "a"]}}, {"parts": ["b", "a"]}),
    "over": ({"over": {"row": "a"}}, {"row": "a"}),
    "branch": ({"branch": True}, True),
    "compensate": (
        {"compensate": "shop:undo", "on_unknown": "retry"},
        {"undo": "shop:undo", "on_unknown": "retry"},
    ),
}


def around(**changes: Any) -> Definition:
    return workflow(step("a"), step("b"), step(**changes), step("last", after=["pay"]))


@pytest.mark.parametrize(("member", "case"), USED.items(), ids=USED.keys())
def test_a_new_member_stands_where_it_is_used_and_counts(
    member: str, case: tuple[dict[str, Any], Any]
) -> None:
    changes, written = case
    definition = around(**changes)
    form = definition.to_json()["steps"][2]

    assert form[member] == written
    assert member not in around().to_json()["steps"][2]
    assert definition.fingerprint != around().fingerprint
    again = Definition.from_json(json.dumps(definition.to_json()))
    assert again == definition
    assert again.fingerprint == definition.fingerprint


@pytest.mark.parametrize(("member", "value"), [("aggregation", "fail_fast"), ("on_change", "finish_old")])
def test_what_a_workflow_says_stands_where_it_is_used_and_counts(member: str, value: str) -> None:
    definition = workflow(step(), **{member: value})

    assert definition.to_json()[member] == value
    assert member not in workflow(step()).to_json()
    assert definition.fingerprint != workflow(step()).fingerprint
    assert Definition.from_json(json.dumps(definition.to_json())) == definition


COMPENSATIONS = {
    "the first failure ends it": CompensationPolicy(on_failure="stop"),
    "tried more often": CompensationPolicy(
        retry=RetryPolicy(max_attempts=9, jitter=0.5, fatal=["ValueError"])
    ),
    "tried once": CompensationPolicy(on_failure="stop", retry=RetryPolicy()),
}


@pytest.mark.parametrize("policy", COMPENSATIONS.values(), ids=COMPENSATIONS)
def test_how_it_is_compensated_stands_where_it_is_said_and_counts(policy: CompensationPolicy) -> None:
    definition = workflow(step(), compensation=policy)

    assert set(definition.to_json()["compensation"]) == {"on_failure", "retry"}
    assert "compensation" not in workflow(step(), compensation=CompensationPolicy()).to_json()
    assert definition.fingerprint != workflow(step()).fingerprint
    assert Definition.from_json(json.dumps(definition.to_json())) == definition


def test_what_is_not_said_of_it_is_as_ever() -> None:
    form = workflow(step()).to_json()
    for said in ({}, {"on_failure": "go_on"}, {"retry": {"max_attempts": 3, "delay_seconds": 1}}):
        read = Definition.from_json(json.dumps(form | {"compensation": said}))
        assert (read, read.fingerprint) == (workflow(step()), workflow(step()).fingerprint)
    stops = Definition.from_json(json.dumps(form | {"compensation": {"on_failure": "stop"}}))
    assert stops.compensation == CompensationPolicy(on_failure="stop")


SPELLED = {
    "join": "all_succeeded",
    "collect": {},
    "over": {},
    "branch": False,
}


def test_defaults_of_new_members_written_down_change_no_fingerprint() -> None:
    form = workflow(step()).to_json()
    form["steps"][0] |= SPELLED
    form |= {"aggregation": "skip_downstream", "on_change": "fail"}

    assert Definition.from_json(json.dumps(form)).fingerprint == workflow(step()).fingerprint


@pytest.mark.parametrize(
    ("file", "fingerprint"),
    [
        ("order.json", "6b2d7de90f68660ac6237420802283edd394a7508afeda9beadfc69424fefdaf"),
        ("import_rows.json", "66151af6df2d4d940614b17eeb8dfdc016ce5092c26b112e654236b2873e4fba"),
    ],
)
def test_shipped_definitions_keep_their_fingerprint(file: str, fingerprint: str) -> None:
    # Runs that began before a deploy are held to it; a change of these files changes it, a release may not.
    raw = (ROOT / "dags" / file).read_text()

    assert Definition.from_json(raw).fingerprint == fingerprint


WRONG_FORMS = {
    "a quorum": ({"join": 2}, "join", "who finishes first"),
    "a join that is a list": ({"join": []}, "join", "must be a string"),
    "collect that is a list": ({"collect": ["a"]}, "collect", "object of lists"),
    "collect of a text": ({"collect": {"x": "ab"}}, "collect", "object of lists"),
    "collect of numbers": ({"collect": {"x": [1]}}, "collect", "object of lists"),
    "over that is a text": ({"over": "a"}, "over", "object of strings"),
    "a branch that is a number": ({"branch": 1}, "branch", "true or false"),
    "an undo that is a text": ({"compensate": "shop:undo"}, "compensate", "must be an object"),
    "an undo without its function": ({"compensate": {}}, "compensate.undo", "is missing"),
    "an undo with another member": (
        {"compensate": {"undo": "shop:undo", "retry": 1}},
        "compensate",
        "unknown field 'retry'",
    ),
    "an undo that is no path": ({"compensate": {"undo": "undo"}}, "compensate", "package.module"),
    "on_unknown beside it": ({"on_unknown": "retry"}, None, "unknown field 'on_unknown'"),
}


@pytest.mark.parametrize(("members", "attribute", "text"), WRONG_FORMS.values(), ids=WRONG_FORMS.keys())
def test_a_wrong_form_is_refused_by_step_and_attribute(
    members: dict[str, Any], attribute: str | None, text: str
) -> None:
    form = workflow(step("a"), step()).to_json()
    form["steps"][1] |= members

    with pytest.raises(DefinitionError) as refused:
        Definition.from_json(json.dumps(form), source="orders.json")

    assert (refused.value.source, refused.value.node) == ("orders.json", "pay")
    assert refused.value.attribute == attribute
    assert text in refused.value.reason


@pytest.mark.parametrize("member", ["join", "collect", "over", "branch", "compensate"])
def test_an_approval_has_none_of_the_members_of_a_step(member: str) -> None:
    form = workflow(approval(), step(after=["ask"], approval="ask")).to_json()
    form["steps"][0][member] = {}

    with pytest.raises(DefinitionError, match=f"step 'ask': unknown field '{member}'"):
        Definition.from_json(json.dumps(form))


@st.composite
def graphs(draw: st.DrawFn) -> Definition:
    """Workflows of every shape that the rules allow."""
    nodes: list[Step] = []
    for number in range(draw(st.integers(1, 7))):
        earlier = [node.name for node in nodes]
        # What a branch chooses joins all, and nothing is mapped over a branch.
        plain = [node.name for node in nodes if not node.branch]
        chosen = st.lists(st.sampled_from(earlier), unique=True) if earlier else st.just([])
        free = st.lists(st.sampled_from(plain), unique=True) if plain else st.just([])
        shape: dict[str, Any] = {"after": draw(chosen)}
        kind = draw(st.sampled_from(["plain", "join", "mapped"]))
        if kind == "join":
            shape = {"after": draw(free), "join": draw(st.sampled_from(JOINS))}
            parts = draw(free)
            shape["collect"] = {"parts": parts} if parts else {}
        elif kind == "mapped" and plain:
            shape["over"] = {"row": draw(st.sampled_from(plain))}
        if draw(st.booleans()):
            shape["kwargs"] = {"x": draw(st.none() | st.integers(-5, 5) | st.text(max_size=3))}
        if draw(st.booleans()):
            shape |= {"compensate": "shop:undo", "on_unknown": draw(st.sampled_from(["manual", "retry"]))}
        branches = not shape.get("over") and draw(st.booleans())
        nodes.append(step(f"n{number}", branch=branches, **shape))
        if branches:
            nodes.append(step(f"n{number}_chosen", after=[f"n{number}"]))
    tried = st.builds(RetryPolicy, max_attempts=st.integers(1, 4))
    policies = st.builds(CompensationPolicy, on_failure=st.sampled_from(ON_UNDO_FAILURE), retry=tried)
    return workflow(
        *nodes,
        compensation=draw(policies),
        aggregation=draw(st.sampled_from(AGGREGATIONS)),
        on_change=draw(st.sampled_from(ON_CHANGE)),
        sink=draw(st.none() | st.sampled_from([node.name for node in nodes])),
    )


@given(graphs())
def test_every_definition_reads_back_from_what_it_writes(definition: Definition) -> None:
    again = Definition.from_json(json.dumps(definition.to_json()))

    assert again == definition
    assert again.fingerprint == definition.fingerprint


# Functions


def takes_parts(parts: Any) -> Any:
    return parts


def test_collected_and_mapped_parameters_are_held_to_the_signature() -> None:
    listed = workflow(step("a"), step(task="shop:join", collect={"parts": ["a"]}))
    mapped = workflow(step("a"), step(task="shop:join", over={"parts": "a"}))
    tasks = {"a": print, "pay": takes_parts}
    for definition in (listed, mapped):
        assert bind(definition, tasks).functions["pay"] is takes_parts


@pytest.mark.parametrize("giver", ["collect", "over"])
def test_a_parameter_that_the_function_lacks_is_an_error(giver: str) -> None:
    value = {"rows": ["a"]} if giver == "collect" else {"rows": "a"}
    definition = workflow(step("a"), step(**{giver: value}))

    with pytest.raises(DefinitionError, match="has no parameter 'rows'") as refused:
        bind(definition, {"a": print, "pay": takes_parts})

    assert (refused.value.source, refused.value.node, refused.value.attribute) == ("orders", "pay", giver)


def test_an_undo_that_cannot_be_imported_is_an_error_before_anything_runs() -> None:
    definition = workflow(step(compensate="no.such.module:undo"))

    with pytest.raises(DefinitionError, match="cannot be imported") as refused:
        bind(definition, {"pay": print})

    assert (refused.value.node, refused.value.attribute) == ("pay", "compensate")
