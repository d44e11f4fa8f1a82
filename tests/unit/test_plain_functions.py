"""Only what has done its work when it returns can be a step, an effect or an undo (case J07)."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.declared import nothing, waits, yields, yields_and_waits

from louver.binding import bind
from louver.definition import ApprovalNode, Definition, Step
from louver.engine import run_inline
from louver.errors import ConfigurationError, DefinitionError, ValueRefused
from louver.plain_functions import check_returned, why_not_plain
from louver.references import path_of
from louver.states import RunState


class Waiting:
    """An object that is called as an async function."""

    async def __call__(self) -> str:
        return "done"

    async def method(self) -> str:
        return "done"


class Yielding:
    def __call__(self) -> Any:
        yield "done"


class Plain:
    def __call__(self) -> str:
        return "done"


@functools.wraps(nothing)
async def wrapped_in_async() -> str:
    return "done"


@functools.wraps(waits)
def runs_it(order: Any = None) -> Any:
    return asyncio.run(waits(order))


@functools.wraps(waits)
def hands_it_on(order: Any = None) -> Any:
    return waits(order)


def yields_later() -> Any:
    return yields()


def a_future() -> Any:
    loop = asyncio.new_event_loop()
    try:
        return loop.create_future()
    finally:
        loop.close()


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "async": (waits, "an async function"),
    "generator": (yields, "a generator function"),
    "async generator": (yields_and_waits, "an async generator function"),
    "partial": (functools.partial(waits, 1), "an async function"),
    "partial of a partial": (functools.partial(functools.partial(yields)), "a generator function"),
    "async __call__": (Waiting(), "an async function"),
    "partial of async __call__": (functools.partial(Waiting()), "an async function"),
    "async method": (Waiting().method, "an async function"),
    "partial of an async method": (functools.partial(Waiting().method), "an async function"),
    "generator __call__": (Yielding(), "a generator function"),
    "async around a plain one": (wrapped_in_async, "an async function"),
}

PLAIN: dict[str, Any] = {
    "function": nothing,
    "partial": functools.partial(nothing),
    "__call__": Plain(),
    "a class": Waiting,
    "a built-in": len,
    "around an async one": runs_it,
    "no function at all": 5,
}


@pytest.mark.parametrize(("function", "kind"), REFUSED.values(), ids=REFUSED)
def test_what_has_done_nothing_when_it_returns_is_told_by_what_a_call_runs(
    function: Callable[..., Any], kind: str
) -> None:
    assert f"is {kind}" in (why_not_plain(function) or "")


@pytest.mark.parametrize("function", PLAIN.values(), ids=PLAIN)
def test_what_gives_its_result_is_plain(function: Any) -> None:
    assert why_not_plain(function) is None


def orders(path: str = "shop:act", **changes: Any) -> Definition:
    return Definition(name="orders", version="1", nodes=[Step(name="pay", task=path, **changes)])


@pytest.mark.parametrize(("function", "kind"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_when_it_is_bound_and_before_anything_runs(
    function: Callable[..., Any], kind: str
) -> None:
    for refuse in (bind, run_inline):
        with pytest.raises(DefinitionError, match=f"shop:act is {kind}") as caught:
            refuse(orders(), {"pay": function})
        assert str(caught.value).startswith("orders, step 'pay', attribute 'task': ")


def test_a_definition_in_json_that_names_one_is_refused_when_it_is_bound() -> None:
    definition = Definition.from_json(json.dumps(orders("support.declared:waits").to_json()))
    with pytest.raises(
        DefinitionError, match=r"step 'pay'.*support.declared:waits is an async.*asyncio\.run"
    ):
        bind(definition)


@pytest.mark.parametrize("name", ["waits", "yields"])
def test_an_undo_by_path_is_refused_when_it_is_bound(name: str) -> None:
    with pytest.raises(DefinitionError, match=rf"support.declared:{name} is an? ") as caught:
        bind(orders(compensate=f"support.declared:{name}"), {"pay": nothing})
    assert (caught.value.node, caught.value.attribute) == ("pay", "compensate")


def test_a_payload_is_held_to_it_too() -> None:
    definition = Definition(
        name="orders",
        version="1",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload="shop:intent"),
            Step(name="pay", task="shop:act", after=["ask"], approval="ask"),
        ],
    )
    with pytest.raises(DefinitionError, match="shop:intent is an async function") as caught:
        bind(definition, {"ask": waits, "pay": nothing})
    assert (caught.value.node, caught.value.attribute) == ("ask", "approve.payload")


def test_nothing_of_it_is_recorded_by_path() -> None:
    with pytest.raises(ConfigurationError, match=r"verify: support\.declared:waits is an async function"):
        path_of(waits, what="verify")


def test_a_plain_function_around_an_async_one_is_the_way_out() -> None:
    assert run_inline(orders(), {"pay": runs_it}).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("function", "words"),
    [(hands_it_on, "asyncio.run"), (yields_and_waits, "asyncio.run"), (yields_later, "return a list")],
    ids=["a coroutine", "an async generator", "a generator"],
)
def test_what_only_the_call_shows_fails_the_step_and_is_no_result(
    function: Callable[..., Any], words: str
) -> None:
    """Nor does Python warn of a coroutine that nobody has awaited."""
    result = run_inline(orders(), {"pay": lambda: function()})
    error = result.errors["pay"]
    assert isinstance(error, ValueRefused)
    assert words in error.reason
    assert result.state is RunState.FAILED


def test_a_future_is_no_result_either() -> None:
    with pytest.raises(ValueRefused, match="asyncio"):
        check_returned(a_future())


def test_a_value_is_left_alone() -> None:
    for value in (None, [], "text", iter([])):
        check_returned(value)
