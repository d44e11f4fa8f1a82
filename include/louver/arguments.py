"""
Where each argument of a step comes from, as its author wrote the call: a literal, a parameter of the run, or
another node's result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from louver.errors import DefinitionError
from louver.placeholders import NodeRef, Placeholder, holds_reference

__all__ = ["Arguments", "bound_by_position", "node_name", "positional_parameters", "sorted_arguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """
    The arguments of a step, by origin.

    :param deps: parameter to the node whose result it gets.
    :param params: parameter to the run's parameter.
    :param kwargs: parameter to the literal value.
    """

    deps: Mapping[str, str]
    params: Mapping[str, str]
    kwargs: Mapping[str, Any]


def positional_parameters(function: Callable[..., Any], *, node: str) -> tuple[str, ...]:
    """
    The parameters that arguments without a name go to; ``ctx`` is left out, since Louver gives it.

    :raises DefinitionError: where the function has no signature to read.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            "the task has no signature, so give arguments by name: kwargs=", node=node, attribute="args"
        ) from error
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and parameter.name != "ctx"
    )


def bound_by_position(args: Sequence[Any], *, function: Callable[..., Any], node: str) -> dict[str, Any]:
    """
    Arguments without a name, by the parameter that each goes to.

    :raises DefinitionError: where there are more of them than parameters.
    """
    names = positional_parameters(function, node=node)
    if len(args) > len(names):
        raise DefinitionError(
            f"has {len(args)} values, but the task takes {len(names)} by position"
            + (f": {', '.join(names)}" if names else ""),
            node=node,
            attribute="args",
        )
    return dict(zip(names, args, strict=False))


def sorted_arguments(given: Mapping[str, Mapping[str, Any]], *, workflow: str, node: str) -> Arguments:
    """
    Arguments by where their values come from.

    :param given: ``args`` and ``kwargs``, each parameter to value.
    :raises DefinitionError: where a parameter is given twice, or a value that only a run knows lies inside
        of another one, where nothing could fill it.
    """
    deps: dict[str, str] = {}
    params: dict[str, str] = {}
    literals: dict[str, Any] = {}
    seen: set[str] = set()
    for attribute, values in given.items():
        if not isinstance(values, Mapping):
            raise DefinitionError("must map parameters to values", node=node, attribute=attribute)
        for parameter, value in values.items():
            if parameter in seen:
                raise DefinitionError(
                    f"parameter {parameter!r} is given twice", node=node, attribute=attribute
                )
            seen.add(parameter)
            if isinstance(value, NodeRef):
                deps[parameter] = node_name(value, workflow=workflow, node=node, attribute=attribute)
            elif isinstance(value, Placeholder):
                if value.workflow != workflow:
                    raise DefinitionError(
                        f"parameter {value.parameter!r} is one of workflow {value.workflow!r}",
                        node=node,
                        attribute=attribute,
                    )
                params[parameter] = value.parameter
            elif holds_reference(value):
                raise DefinitionError(
                    f"the value for {parameter!r} holds a result or a parameter of the run inside of it; "
                    "give each to a parameter of its own, or collect results into a list with "
                    "wf.join(..., collect=...)",
                    node=node,
                    attribute=attribute,
                )
            else:
                literals[parameter] = value
    return Arguments(deps=deps, params=params, kwargs=literals)


def node_name(value: Any, *, workflow: str, node: str | None, attribute: str) -> str:
    """
    The name of the node that is meant.

    :param value: what ``wf.step`` and the others returned, or the name itself.
    :raises DefinitionError: where it is neither, or a node of another workflow.
    """
    if isinstance(value, NodeRef):
        if value.workflow != workflow:
            raise DefinitionError(
                f"{value.name!r} is a node of workflow {value.workflow!r}", node=node, attribute=attribute
            )
        return value.name
    if isinstance(value, str):
        return value
    if isinstance(value, Placeholder):
        raise DefinitionError(
            f"{value.parameter!r} is a parameter of the run and no node; give it in args= or kwargs=",
            node=node,
            attribute=attribute,
        )
    raise DefinitionError(
        f"must be a node, as wf.step returns it, or its name; not a {type(value).__name__}",
        node=node,
        attribute=attribute,
    )
