"""Functions and definition are checked against each other before anything runs (row W4, case J07)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from louver.binding import bind
from louver.definition import ApprovalNode, Definition, Step
from louver.engine import run_inline
from louver.errors import ConfigurationError, DefinitionError
from louver.references import path_of, resolve


def nothing() -> None:
    pass


def takes_x(x: Any) -> Any:
    return x


@functools.wraps(takes_x)
def impostor() -> None:
    pass


def takes_default(x: Any = 1) -> Any:
    return x


def takes_context_alone(ctx: Any) -> str:
    return str(ctx.name)


def takes_keyword(*, x: Any, ctx: Any) -> Any:
    return x, ctx.name


def takes_anything(**anything: Any) -> Any:
    return anything


def takes_anything_called_ctx(**ctx: Any) -> Any:
    return ctx


def takes_all(*args: Any, x: Any) -> Any:
    return args, x


def takes_ti(ti: Any, context: Any, self: Any) -> Any:
    return ti, context, self


def by_position(x: Any, /) -> Any:
    return x


def by_position_or_anything(x: Any, /, **more: Any) -> Any:
    return x, more


def context_by_position(ctx: Any, /) -> Any:
    return ctx


class Machine:
    def __call__(self, x: Any) -> Any:
        return x

    def __bool__(self) -> bool:
        return False

    def method(self, x: Any) -> Any:
        return x

    @staticmethod
    def static(x: Any) -> Any:
        return x


def workflow(function: Callable[..., Any] | None = None, **changes: Any) -> Definition:
    path = "nowhere:act" if function is None else f"{__name__}:{function.__name__}"
    return Definition(name="orders", version="1", nodes=[Step(name="pay", task=path, **changes)])


def bound(function: Callable[..., Any], **changes: Any) -> Any:
    """The function bound under the step's name, and run."""
    definition = workflow(**changes)
    bind(definition, {"pay": function})
    return run_inline(definition, {"pay": function}).value


@pytest.mark.parametrize(
    ("function", "kwargs", "value"),
    [
        (nothing, {}, None),
        (takes_x, {"x": 5}, 5),
        (takes_default, {}, 1),
        (takes_default, {"x": 2}, 2),
        (takes_context_alone, {}, "pay"),
        (takes_keyword, {"x": 5}, (5, "pay")),
        (takes_anything, {"x": 5, "y": 6}, {"x": 5, "y": 6}),
        (takes_anything_called_ctx, {"x": 5}, {"x": 5}),
        (takes_all, {"x": 5}, ((), 5)),
        (takes_ti, {"ti": 1, "context": 2, "self": 3}, (1, 2, 3)),
        (functools.partial(takes_ti, ti=1), {"context": 2, "self": 3}, (1, 2, 3)),
        (Machine(), {"x": 5}, 5),
        (Machine().method, {"x": 5}, 5),
    ],
)
def test_what_fits_runs(function: Callable[..., Any], kwargs: dict[str, Any], value: Any) -> None:
    assert bound(function, kwargs=kwargs) == value


@pytest.mark.parametrize(
    ("function", "kwargs", "attribute", "complaint"),
    [
        (nothing, {"x": 5}, "kwargs", "has no parameter 'x'"),
        (takes_x, {"y": 5}, "kwargs", "has no parameter 'y'"),
        (takes_x, {}, "deps", "needs 'x'"),
        (takes_ti, {"ti": 1}, "deps", "needs 'context', 'self'"),
        (by_position, {"x": 5}, "kwargs", "has no parameter 'x'"),
        (by_position, {}, "deps", "needs 'x'"),
        (by_position_or_anything, {"x": 5}, "deps", "needs 'x'"),
        (context_by_position, {}, "deps", "needs 'ctx'"),
        (5, {}, "task", "has no signature"),
    ],
)
def test_what_does_not_fit_names_step_and_parameter(
    function: Any, kwargs: dict[str, Any], attribute: str, complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint) as caught:
        bind(workflow(kwargs=kwargs), {"pay": function})
    assert (caught.value.node, caught.value.attribute) == ("pay", attribute)


def test_the_complaint_names_what_gives_the_parameter() -> None:
    definition = Definition(
        name="orders",
        version="1",
        params=["amount"],
        nodes=[Step(name="look", task="shop:look"), Step(name="pay", task="shop:pay", deps={"seen": "look"})],
    )
    with pytest.raises(DefinitionError, match="no parameter 'seen'") as caught:
        bind(definition, {"look": nothing, "pay": nothing})
    assert (caught.value.node, caught.value.attribute) == ("pay", "deps")

    asks = Definition(
        name="orders",
        version="1",
        params=["amount"],
        nodes=[Step(name="pay", task="shop:pay", params={"amount": "amount"})],
    )
    with pytest.raises(DefinitionError, match="no parameter 'amount'") as caught:
        bind(asks, {"pay": nothing})
    assert caught.value.attribute == "params"


def test_a_payload_is_computed_from_results_alone() -> None:
    definition = Definition(
        name="orders",
        version="1",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload="shop:intent"),
            Step(name="pay", task="shop:pay", after=["ask"], approval="ask"),
        ],
    )
    with pytest.raises(DefinitionError, match="takes ctx") as caught:
        bind(definition, {"ask": takes_context_alone, "pay": nothing})
    assert (caught.value.node, caught.value.attribute) == ("ask", "approve.payload")


def test_functions_are_found_by_step_by_path_and_by_import() -> None:
    assert bind(workflow(), {"nowhere:act": nothing}).functions["pay"] is nothing
    assert bind(workflow(), {"nowhere:act": takes_x, "pay": nothing}).functions["pay"] is nothing
    assert bind(workflow(nothing), {}).functions["pay"] is nothing


def test_a_function_that_cannot_be_imported_is_an_error_of_its_step() -> None:
    with pytest.raises(DefinitionError, match="nowhere:act cannot be imported") as caught:
        bind(workflow())
    assert (caught.value.node, caught.value.attribute) == ("pay", "task")


def test_functions_for_no_step_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="ship, which orders does not have"):
        bind(workflow(), {"pay": nothing, "ship": nothing})


def test_paths_lead_back() -> None:
    for function in (nothing, Machine.static, Machine.method):
        assert resolve(path_of(function, what="it"), what="it") is function


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        Machine().method,
        Machine(),
        functools.partial(nothing),
        impostor,
    ],
    ids=["lambda", "bound method", "instance", "partial", "impostor"],
)
def test_what_another_process_cannot_find_has_no_path(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="compensate"):
        path_of(function, what="compensate")


def test_a_nested_function_has_no_path() -> None:
    def nested() -> None:
        pass

    with pytest.raises(ConfigurationError, match="at the top of an importable module"):
        path_of(nested, what="verify")


@pytest.mark.parametrize(
    "path", ["", ":", "nowhere:act", f"{__name__}:missing", f"{__name__}:Machine.missing", ".relative:x", "x"]
)
def test_a_path_that_leads_nowhere(path: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        resolve(path, what="compensation")


def test_a_path_to_something_else() -> None:
    with pytest.raises(ConfigurationError, match="is not a function"):
        resolve("math:pi", what="compensation")


def test_a_module_that_breaks_while_it_is_imported(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "louver_broken_syntax.py").write_text("def (")
    (tmp_path / "louver_broken_start.py").write_text("raise RuntimeError('card 4711')")
    for module, error in (("louver_broken_syntax", "SyntaxError"), ("louver_broken_start", "RuntimeError")):
        with pytest.raises(ConfigurationError, match=error) as caught:
            resolve(f"{module}:act", what="compensation")
        assert "4711" not in str(caught.value)
