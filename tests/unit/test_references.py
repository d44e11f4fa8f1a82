"""What is recorded by name is found again, or refused where it is recorded (semantics section 4)."""

from __future__ import annotations

import functools
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.errors import ConfigurationError
from louver.references import path_of, resolve

SHOP = """
import functools

RATE = 5


def outer(call):
    @functools.wraps(call)
    def inner():
        return call()
    return inner


def refund():
    return "refunded"


@outer
def wrapped():
    return "wrapped"


def nested():
    def inside():
        return None
    return inside


nameless = lambda: None


class Desk:
    def close(self):
        return "closed"

    @classmethod
    def open(cls):
        return "opened"

    @staticmethod
    def ring():
        return "rung"

    def __call__(self):
        return None


desk = Desk()
bound_refund = functools.partial(refund)
refund_card = refund
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of its own on the path, as a user's package is; gone again afterwards."""
    (tmp_path / "corner_shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "broken_shop.py").write_text("raise RuntimeError('card 4711')\n", encoding="utf-8")
    (tmp_path / "halted_shop.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("corner_shop")
    for name in ("corner_shop", "broken_shop"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("corner_shop:refund", "refunded"),
        ("corner_shop:wrapped", "wrapped"),
        ("corner_shop:Desk.ring", "rung"),
    ],
)
def test_a_function_is_found_under_its_own_path(shop: types.ModuleType, path: str, result: str) -> None:
    function = resolve(path, what="compensate")
    assert function() == result
    assert path_of(function, what="compensate") == path


def test_a_package_and_its_module_are_found() -> None:
    assert resolve("json.decoder:JSONDecoder.decode", what="task") is json.JSONDecoder.decode
    # The path is that of the function's home, under whatever name it was taken from.
    assert path_of(json.JSONDecoder, what="task") == "json.decoder:JSONDecoder"


def test_an_alias_keeps_an_old_path_alive(shop: types.ModuleType) -> None:
    assert resolve("corner_shop:refund_card", what="compensate") is shop.refund
    assert path_of(shop.refund_card, what="compensate") == "corner_shop:refund"


@pytest.mark.parametrize(
    "pick",
    [
        pytest.param(lambda shop: shop.nameless, id="lambda"),
        pytest.param(lambda shop: shop.nested(), id="nested"),
        pytest.param(lambda shop: shop.bound_refund, id="partial"),
        pytest.param(lambda shop: shop.desk, id="callable object"),
        pytest.param(lambda shop: None, id="nothing"),
    ],
)
def test_what_has_no_path_is_refused(shop: types.ModuleType, pick: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^compensate must be a function at the top of an import"):
        path_of(pick(shop), what="compensate")


def test_a_function_of_the_main_script_is_refused(
    shop: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has another ``__main__``, even where the name can be found in this one."""
    monkeypatch.setattr(shop.refund, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "refund", shop.refund, raising=False)
    with pytest.raises(ConfigurationError, match="importable module"):
        path_of(shop.refund, what="compensate")


@pytest.mark.parametrize(
    "pick",
    [
        pytest.param(lambda shop: shop.desk.close, id="bound method"),
        pytest.param(lambda shop: shop.Desk.open, id="class method"),
        pytest.param(lambda shop: shop.wrapped.__wrapped__, id="undecorated"),
        pytest.param(lambda shop: functools.wraps(shop.refund)(lambda: None), id="wrapper elsewhere"),
    ],
)
def test_a_path_that_leads_to_something_else_is_refused(
    shop: types.ModuleType, pick: Callable[[Any], Any]
) -> None:
    with pytest.raises(ConfigurationError, match=r"^compensate: corner_shop:\S+ is another object"):
        path_of(pick(shop), what="compensate")


def test_a_function_that_left_its_module_is_refused_when_recorded(
    shop: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    refund = shop.refund
    monkeypatch.delattr(shop, "refund")
    with pytest.raises(ConfigurationError, match=r"^compensate: corner_shop:refund cannot be imported"):
        path_of(refund, what="compensate")


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("no_such_shop:refund", "ModuleNotFoundError"),
        ("corner_shop.till:refund", "ModuleNotFoundError"),
        ("corner_shop:refunds", "AttributeError"),
        ("corner_shop:Desk.lock", "AttributeError"),
        ("corner_shop:refund:again", "AttributeError"),
        ("corner_shop:", "AttributeError"),
        ("corner_shop", "AttributeError"),
        (":refund", "ValueError"),
        ("", "ValueError"),
        (".corner_shop:refund", "TypeError"),
        ("broken_shop:refund", "RuntimeError"),
    ],
)
def test_what_cannot_be_found_says_what_why_and_the_way_out(
    shop: types.ModuleType, path: str, cause: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(path, what="compensate")
    text = str(caught.value)
    assert text.startswith(f"compensate: {path} cannot be imported ({cause}); ")
    assert "PYTHONPATH" in text
    assert "alias" in text
    # What the module itself said may hold anything.
    assert "4711" not in text


@pytest.mark.parametrize("path", ["corner_shop:RATE", "corner_shop:refund.__doc__"])
def test_what_cannot_be_called_is_refused(shop: types.ModuleType, path: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^task: {path} is not a function$"):
        resolve(path, what="task")


def test_an_interruption_while_a_module_is_imported_is_not_swallowed(shop: types.ModuleType) -> None:
    with pytest.raises(KeyboardInterrupt):
        resolve("halted_shop:refund", what="task")


@settings(max_examples=50)
@given(st.text("acdeJlnopsN._:<> \0\n\N{LATIN SMALL LETTER E WITH ACUTE}\N{FULLWIDTH COLON}", max_size=20))
def test_any_text_after_the_colon_gives_a_callable_or_one_clear_error(text: str) -> None:
    try:
        found = resolve(f"json:{text}", what="task")
    except ConfigurationError as refused:
        complaint = str(refused)
    else:
        assert callable(found)
        return
    assert complaint.startswith("task: json:")
