"""
Functions that have done their work when they return.

Louver calls a function and records what it returns. An async function has done nothing by then, and a
generator function neither: what they return would be taken for a result that it is not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from louver.errors import ValueRefused

__all__ = ["check_returned", "why_not_plain"]

_ASYNC = "write a function around it that calls asyncio.run, and returns what that gives"

_KINDS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.iscoroutinefunction, f"is an async function, which has done nothing when it returns; {_ASYNC}"),
    (inspect.isasyncgenfunction, f"is an async generator function, which gives no result; {_ASYNC}, a list"),
    (
        inspect.isgeneratorfunction,
        "is a generator function, which has done nothing when it returns; return a list of what it yields",
    ),
)


def why_not_plain(function: Any) -> str | None:
    """
    Why the function cannot be called for its result, with the way out; None where it can.

    What is looked at is the function that a call runs: behind a partial, and of an object its ``__call__``.
    Not what a decorator has wrapped: a plain function around an async one is the way out.
    """
    while isinstance(function, functools.partial):
        function = function.func
    looked_at = [function]
    if callable(function) and not (inspect.isroutine(function) or inspect.isclass(function)):
        looked_at.append(type(function).__call__)
    return next((why for is_kind, why in _KINDS if any(map(is_kind, looked_at))), None)


def check_returned(value: Any) -> None:
    """
    What is left for the call itself to find: a plain function that hands on what an async one returned.

    :raises ValueRefused: for a coroutine, a future, a generator; a coroutine is closed, so that Python does
        not warn of it besides.
    """
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        raise ValueRefused(
            "$", "is what an async function returns at once, and no result; call it with asyncio.run"
        )
    if inspect.isgenerator(value):
        raise ValueRefused("$", "is a generator, and no result; return a list of what it yields")
