"""A definition together with its functions, checked against each other before anything runs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from louver.definition import ApprovalNode, Definition, Node, Step
from louver.errors import ConfigurationError, DefinitionError
from louver.plain_functions import why_not_plain
from louver.references import resolve

__all__ = ["Workflow", "bind", "check_signature"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Workflow:
    """
    What can be run.

    :param functions: node name to its function: a step's task, an approval's payload.
    """

    definition: Definition
    functions: Mapping[str, Callable[..., Any]]

    def __repr__(self) -> str:
        """The same in every process: Airflow keeps it of a mapped task, and takes a change for a new Dag."""
        return f"<Workflow {self.definition.name} {self.definition.fingerprint}>"

    def takes_context(self, name: str) -> bool:
        """Whether the node's function wants ``ctx``."""
        return "ctx" in _by_name(inspect.signature(self.functions[name]).parameters)


def bind(definition: Definition, tasks: Mapping[str, Callable[..., Any]] | None = None) -> Workflow:
    """
    The definition with its functions.

    :param tasks: functions by ``package.module:function`` or by node name; what is missing is imported.
    :raises DefinitionError: naming workflow and node, where a function cannot be found, lacks a parameter
        that the definition gives, needs one that it does not, or has done nothing when it returns, as an
        async one.
    """
    try:
        return _bind(definition, dict(tasks or {}))
    except DefinitionError as error:
        raise error.within(definition.name) from error.__cause__


def _bind(definition: Definition, given: Mapping[str, Callable[..., Any]]) -> Workflow:
    for node in definition.nodes:
        if isinstance(node, Step) and node.expanded:
            raise DefinitionError(
                "says that the platform expands it, as it does tasks of a plain Dag; to run a step for each "
                "item of a list, name the node that gives it: over",
                node=node.name,
                attribute="expanded",
            )
    known = {name for node in definition.nodes for name in (node.name, _path(node))}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(f"tasks names {', '.join(unknown)}, which {definition.name} does not have")
    functions = {node.name: _function(node, given) for node in definition.nodes}
    for node in definition.nodes:
        check_signature(node, functions[node.name])
        _check_undo(node)
    return Workflow(definition=definition, functions=functions)


def _path(node: Node) -> str:
    return node.payload if isinstance(node, ApprovalNode) else node.task


def _attribute(node: Node) -> str:
    return "approve.payload" if isinstance(node, ApprovalNode) else "task"


def _function(node: Node, given: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    for name in (node.name, _path(node)):
        if name in given:
            return given[name]
    try:
        return resolve(_path(node), what=_attribute(node))
    except ConfigurationError as error:
        raise DefinitionError(str(error), node=node.name, attribute=_attribute(node)) from error


def _check_undo(node: Node) -> None:
    """The undo is found by import alone: another process runs it, perhaps after a deploy."""
    if isinstance(node, ApprovalNode) or node.compensate is None:
        return
    try:
        resolve(node.compensate, what="compensate")
    except ConfigurationError as error:
        raise DefinitionError(str(error), node=node.name, attribute="compensate") from error


def _by_name(parameters: Mapping[str, inspect.Parameter]) -> set[str]:
    """The parameters that can be given by name."""
    kinds = inspect.Parameter
    return {
        name
        for name, parameter in parameters.items()
        if parameter.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }


def check_signature(node: Node, function: Callable[..., Any]) -> None:
    """
    Hold what the definition gives to what the function takes (case J07), and the function to its giving a
    result.

    :raises DefinitionError: naming the node, who gives, and the parameter.
    """
    attribute = _attribute(node)
    if (why := why_not_plain(function)) is not None:
        raise DefinitionError(f"{_path(node)} {why}", node=node.name, attribute=attribute)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise DefinitionError("has no signature to check", node=node.name, attribute=attribute) from error
    kinds = inspect.Parameter
    wants_all = any(parameter.kind is kinds.VAR_KEYWORD for parameter in parameters.values())
    by_name = _by_name(parameters)
    givers: dict[str, Iterable[str]] = {
        "deps": node.inputs,
        "collect": node.collect,
        "over": node.over,
        "params": node.params,
        "kwargs": node.kwargs,
    }
    for giver, names in givers.items():
        lacking = sorted(set(names) - by_name)
        if lacking and not wants_all:
            raise DefinitionError(
                f"{_path(node)} has no parameter {', '.join(map(repr, lacking))}",
                node=node.name,
                attribute=giver,
            )
    provided = by_name & {"ctx", *itertools.chain(*givers.values())}
    if isinstance(node, ApprovalNode) and "ctx" in by_name:
        raise DefinitionError(
            f"{_path(node)} takes ctx; a payload is computed from results alone",
            node=node.name,
            attribute=attribute,
        )
    missing = sorted(
        name
        for name, parameter in parameters.items()
        if parameter.default is kinds.empty
        and parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        and name not in provided
    )
    if missing:
        raise DefinitionError(
            f"{_path(node)} needs {', '.join(map(repr, missing))}, which the definition does not give",
            node=node.name,
            attribute="deps",
        )
