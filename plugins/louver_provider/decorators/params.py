"""
The params of a Dag from the parameters of its workflow function: what the form in the UI asks for, and what
Airflow checks before a run begins.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

from louver.errors import DefinitionError

__all__ = ["declared_params"]

_MISSING = inspect.Parameter.empty

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
"""Annotations that say what a JSON schema can say."""


def declared_params(
    function: Callable[..., Any],
    *,
    names: Sequence[str],
    given: Mapping[str, Any] | None,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """
    A param for each parameter of the run.

    :param function: takes them, with defaults and annotations.
    :param names: of the parameters.
    :param given: the author's own params; they win, and others than the function's stay as they are, for
        tasks that are not Louver's.
    :param values: defaults in place of the function's.
    :raises DefinitionError: for a value that there is no parameter for, or that the param's schema refuses.
    """
    if given is not None and not isinstance(given, Mapping):
        raise DefinitionError("must map names to Params", attribute="params")
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise DefinitionError(
            f"has no parameter {', '.join(map(repr, unknown))}; there are: {', '.join(names) or 'none'}",
            attribute="params",
        )
    params = dict(given or {})
    hints = _hints(function)
    parameters = inspect.signature(function).parameters
    for name in names:
        default = values.get(name, parameters[name].default)
        if name in params:
            if name in values:
                params[name] = _with_default(name, params[name], values[name])
            elif not isinstance(params[name], Param):
                params[name] = _param(name, params[name], schema_of(hints.get(name), params[name]))
        else:
            params[name] = _param(name, default, schema_of(hints.get(name), default))
    return params


def schema_of(annotation: Any, default: Any) -> dict[str, Any]:
    """
    The JSON schema that an annotation stands for; nothing where it says more than a schema can.

    :param default: where it is None, None is allowed besides.
    """
    found = _types_of(annotation)
    if found and default is None and "null" not in found:
        found.append("null")
    if not found:
        return {}
    return {"type": found[0] if len(found) == 1 else found}


def _types_of(annotation: Any) -> list[str]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [
            ["null"] if member is type(None) else _types_of(member) for member in typing.get_args(annotation)
        ]
        # One that cannot be said would be refused by a schema of the others.
        return [name for found in members for name in found] if all(members) else []
    name = _TYPES.get(origin or annotation) if isinstance(origin or annotation, type) else None
    return [] if name is None else [name]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:
        # A name that only a type checker sees; annotations are evaluated, so anything can come of them.
        return {}


def _param(name: str, default: Any, schema: Mapping[str, Any]) -> Param:
    try:
        if default is _MISSING:
            return Param(**schema)
        param = Param(default, **schema)
        param.resolve()
    except (ParamValidationError, TypeError, ValueError) as error:
        raise _refused(name, error) from error
    return param


def _with_default(name: str, given: Any, value: Any) -> Param:
    if not isinstance(given, Param):
        return _param(name, value, {})
    try:
        param = Param(value, description=given.description, **given.schema)
        param.resolve()
    except (ParamValidationError, TypeError, ValueError) as error:
        raise _refused(name, error) from error
    return param


def _refused(name: str, error: Exception) -> DefinitionError:
    return DefinitionError(
        "its default does not fit its type, or is no JSON value; Airflow's params are JSON: give another "
        f"default, or a Param in params= ({type(error).__name__})",
        attribute=f"params.{name}",
    )
