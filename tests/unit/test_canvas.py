"""``chain``, ``group`` and ``chord`` build definitions that mean what they mean in Celery (row W14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.canvas import Canvas, chain, chord, group, param, si, sig
from louver.definition import Definition
from louver.engine import run_inline
from louver.errors import DefinitionError
from louver.policies import CompensationPolicy
from louver.states import RunState

HERE = __name__


def start(x: Any = 1) -> Any:
    return x


def add(x: Any, y: Any = 0) -> Any:
    return x + y


def subtract(x: int, y: int = 0, *, ctx: Any) -> int:
    return x - y


def total(numbers: list[int], offset: int = 0) -> int:
    return sum(numbers) + offset


def notify() -> str:
    return "told"


def keyword_only(*, x: Any) -> Any:
    return x


def ran(flow: Canvas, **params: Any) -> Any:
    result = run_inline(flow.definition("flow", "1.0.0"), flow.tasks, params)
    assert result.state is RunState.SUCCEEDED, result.errors
    return result.value


FLOWS: dict[str, tuple[Canvas, Any]] = {
    "a signature": (sig(start, 5), 5),
    "a chain": (chain(sig(start, 5), sig(add, 4), sig(add, y=1)), 10),
    "the result goes first": (chain(sig(start, 5), sig(subtract, 2)), 3),
    "the result goes to the first that is free": (chain(sig(start, 5), sig(subtract, x=20)), 15),
    "si takes no result": (chain(sig(start, 5), si(notify)), "told"),
    "a group": (group(sig(start, 1), sig(start, 2), sig(start, 3)), [1, 2, 3]),
    "a chord": (chord([sig(start, 1), sig(start, 2)], sig(total)), 3),
    "a chord of a group": (chord(group(sig(start, 1), sig(start, 2)), sig(total, 10)), 13),
    "a group after a step": (chain(sig(start, 5), group(sig(add, 1), sig(subtract, 1))), [6, 4]),
    "a step after a group": (chain(group(sig(start, 1), sig(start, 2)), sig(total), sig(add, 1)), 4),
    "si after a group": (chain(group(sig(start, 1), sig(start, 2)), si(notify)), "told"),
    "a group after a group": (
        chain(group(sig(start, 1), sig(start, 2)), group(sig(total), sig(total, 5))),
        [3, 8],
    ),
    "a chain in a group": (group(chain(sig(start, 1), sig(add, 1)), sig(start, 9)), [2, 9]),
    "a group in a group": (group(group(sig(start, 1), sig(start, 2)), sig(start, 3)), [[1, 2], 3]),
    "a chain in a chain": (chain(chain(sig(start, 1), sig(add, 1)), chain(sig(add, 2))), 4),
}


@pytest.mark.parametrize(("flow", "value"), FLOWS.values(), ids=FLOWS.keys())
def test_a_canvas_gives_what_it_gives_in_celery(flow: Canvas, value: Any) -> None:
    assert ran(flow) == value


def test_parameters_of_the_run_are_declared_in_the_order_in_which_they_are_met() -> None:
    flow = chain(sig(start, param("amount")), sig(add, y=param("fee")), sig(add, param("amount")))

    assert flow.definition("flow", "1.0.0").params == ("amount", "fee")
    assert ran(flow, amount=5, fee=1) == 11


def test_nodes_are_named_after_functions_and_numbered_from_the_second_on() -> None:
    flow = chain(sig(start), sig(add), sig(add).set(name="last"), sig(add))

    assert flow.definition("flow", "1.0.0").names == ("start", "add", "last", "add_2")
    assert flow.tasks == {"start": start, "add": add, "last": add, "add_2": add}


def test_options_of_a_signature_are_those_of_its_step() -> None:
    flow = chain(sig(start).set(queue="slow"), sig(add).set(priority=3).set(on_failure="continue"))
    first, second = flow.definition("flow", "1.0.0", aggregation="fail_fast").nodes

    assert (first.queue, second.priority, second.on_failure) == ("slow", 3, "continue")
    assert flow.definition("flow", "1.0.0", aggregation="fail_fast").aggregation == "fail_fast"
    stops = CompensationPolicy(on_failure="stop")
    assert flow.definition("flow", "1.0.0", compensation=stops).compensation == stops


def tags(parts: list[Any]) -> list[str]:
    return [part.tag for part in parts]


def fails() -> None:
    raise ValueError


def test_a_callback_may_be_told_of_failures() -> None:
    header = [sig(start, 1), sig(fails).set(on_failure="continue")]
    flow = chord(header, sig(tags).set(join="all_settled"))
    result = run_inline(flow.definition("flow", "1.0.0"), flow.tasks)

    assert (result.state, result.value) == (RunState.SUCCEEDED_WITH_FAILURES, ["ok", "failed"])


def test_setting_options_leaves_the_signature_as_it_was() -> None:
    plain = sig(start)
    plain.set(queue="slow", name="other")

    assert (plain.options, plain.name) == ({}, None)


def test_a_canvas_is_the_same_definition_as_json() -> None:
    flow = chord([sig(start, param("a")), sig(start, 2)], sig(total, 1))
    by_json = Definition.from_json(
        json.dumps(
            {
                "louver": 1,
                "name": "flow",
                "version": "1.0.0",
                "params": ["a"],
                "sink": "total",
                "steps": [
                    {"name": "start", "task": f"{HERE}:start", "params": {"x": "a"}},
                    {"name": "start_2", "task": f"{HERE}:start", "kwargs": {"x": 2}},
                    {
                        "name": "total",
                        "task": f"{HERE}:total",
                        "collect": {"numbers": ["start", "start_2"]},
                        "kwargs": {"offset": 1},
                    },
                ],
            }
        )
    )

    assert flow.definition("flow", "1.0.0") == by_json
    assert flow.definition("flow", "1.0.0").fingerprint == by_json.fingerprint


@settings(max_examples=25)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6), st.lists(st.integers(-9, 9), max_size=5))
def test_any_chord_adds_up(parts: list[int], more: list[int]) -> None:
    flow = chain(group(*(sig(start, part) for part in parts)), sig(total), *(sig(add, one) for one in more))

    assert ran(flow) == sum(parts) + sum(more)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an empty chain": (lambda: chain(), "a chain needs at least one part"),
    "an empty group": (lambda: group(), "a group needs at least one part"),
    "an empty chord": (lambda: chord([], sig(total)), "a group needs at least one part"),
    "a bare function": (lambda: chain(start), r"not of function; write sig\(function"),  # type: ignore[arg-type]
    "a bare value": (lambda: group(sig(start), 5), "not of int"),  # type: ignore[arg-type]
    "a header that is one function": (
        lambda: chord(start, sig(total)),  # type: ignore[arg-type]
        "not of function",
    ),
    "no parameter for the result": (lambda: ran(chain(sig(start), sig(notify))), r"write si\(\.\.\.\)"),
    "no parameter left for the result": (lambda: ran(chain(sig(start), sig(add, 1, 2))), "no parameter left"),
    "a result that has to be named": (lambda: ran(chain(sig(start), sig(keyword_only))), "no parameter left"),
    "a misspelt option": (
        lambda: sig(total).set(ressources={"a": 1}),
        "'ressources'.*there are: compensate, join",
    ),
    "a lambda": (lambda: ran(sig(lambda: 1)), "is a lambda"),
    "a name twice": (
        lambda: ran(chain(sig(start).set(name="a"), sig(add).set(name="a"))),
        "another step has this name",
    ),
    "a policy that is none": (lambda: sig(start).definition("flow", "1.0.0", on_change="ask"), "finish_old"),
}


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_makes_no_workflow_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        make()
