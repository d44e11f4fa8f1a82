"""Functions by name: what is recorded must be found again by another process, perhaps after a deploy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from louver.errors import ConfigurationError
from louver.plain_functions import why_not_plain

__all__ = ["path_of", "resolve"]


def path_of(function: Callable[..., Any], *, what: str) -> str:
    """
    ``package.module:function`` of a callable that another process can import.

    :param what: the argument, named in the error.
    :raises ConfigurationError: for a lambda, a nested function, a bound method, or one of ``__main__``.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        raise ConfigurationError(
            f"{what} must be a function at the top of an importable module, since another process has "
            "to find it"
        )
    path = f"{module}:{name}"
    if resolve(path, what=what) is not function:
        raise ConfigurationError(f"{what}: {path} is another object than the one given")
    return path


def resolve(path: str, *, what: str) -> Callable[..., Any]:
    """
    The function behind ``package.module:function``.

    :param what: what the path stands for, named in the error.
    :raises ConfigurationError: where it cannot be imported, or called for its result; the message says why.
    """
    module_name, _, qualified = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualified.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing runs the module, which may raise anything
        raise ConfigurationError(
            f"{what}: {path} cannot be imported ({type(error).__name__}); put its package on PYTHONPATH, or "
            "keep an alias where it was"
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{what}: {path} is not a function")
    if (why := why_not_plain(found)) is not None:
        raise ConfigurationError(f"{what}: {path} {why}")
    return found  # type: ignore[no-any-return]
