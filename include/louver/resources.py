"""
What steps share outside of Airflow, by name: a provider's interface, a database, a licence.

A step says which of them it uses and how much of each (``resources={"payments-api": 1}``). Retry budgets
(:mod:`louver.retry_budgets`) go by the names alone, each retry being one. The units are for what takes so
much at a time: semaphores and rate limits (:mod:`louver.semaphores`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from louver.errors import ConfigurationError, DefinitionError

__all__ = ["by_resource", "problem_with", "resources_in"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)

_MOST = 1_000_000


def problem_with(name: Any) -> str | None:
    """Why no resource can be called so; None where one can."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return None
    return (
        f"{str(name)[:80]!r} cannot be a resource; take 1 to 100 letters, digits, '_', '.' or '-', "
        "not beginning with '.' or '-'"
    )


def resources_in(value: Any, *, node: str) -> Mapping[str, int]:
    """
    The resources of a step, checked; name to units.

    :param node: the step, for errors.
    :raises DefinitionError: for a name that none may have, or units that are no whole number of 1 or more;
        bool is no number.
    """
    if not isinstance(value, Mapping):
        raise DefinitionError(
            "must map names of resources to units, as {'payments-api': 1}", node=node, attribute="resources"
        )
    for name, units in value.items():
        problem = problem_with(name)
        if problem is not None:
            raise DefinitionError(problem, node=node, attribute="resources")
        if type(units) is not int or not 1 <= units <= _MOST:
            raise DefinitionError(
                f"must be a whole number from 1 to {_MOST}", node=node, attribute=f"resources.{name}"
            )
    return MappingProxyType(dict(value))


def by_resource(text: str, *, example: str) -> Mapping[str, Any]:
    """
    What a setting says of each resource, read from JSON strictly.

    :param text: empty for nothing.
    :param example: one that could stand there, for errors.
    :raises ConfigurationError: where it is no JSON object, or a name in it cannot be, or stands twice.
    """
    if not text.strip():
        return MappingProxyType({})
    try:
        content = json.loads(text, object_pairs_hook=_members)
    except RecursionError:
        raise ConfigurationError("it is nested too deeply") from None
    except ValueError as error:
        raise ConfigurationError(f"it is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"it must be a JSON object, as {example}")
    for name in content:
        problem = problem_with(name)
        if problem is not None:
            raise ConfigurationError(problem)
    return MappingProxyType(content)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{name[:80]!r} stands twice")
    return dict(pairs)
