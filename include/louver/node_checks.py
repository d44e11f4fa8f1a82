"""
What every node is held to when it is made: its name, its task, what it waits for, where its arguments come
from. Errors name the node and the attribute (row W4).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from louver.canonical import canonical_bytes
from louver.errors import DefinitionError, ValueRefused

__all__ = [
    "JOINS",
    "NAME",
    "ON_FAILURE",
    "ON_UNKNOWN",
    "RESERVED_NAMES",
    "check_choice",
    "check_join",
    "check_literals",
    "check_name",
    "check_parameters",
    "check_task",
    "collected_in",
    "edges_in",
    "flag_in",
    "mapped_over_in",
    "texts_in",
]

RESERVED_NAMES = frozenset({"compensate", "outcome"})
"""Task ids of the closing tasks that every Louver Dag has."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}", re.ASCII)
"""What a node and a workflow may be called; Airflow takes it as task id and Dag id."""

ON_FAILURE = ("fail", "continue")
"""What a node's failure does to its run (row W7)."""

JOINS = ("all_succeeded", "all_settled", "any_succeeded")
"""When a node runs, by the ends of what it waits for (row T15)."""

ON_UNKNOWN = ("manual", "retry")
"""What a step that is one effect does where nobody knows whether it acted (semantics section 3)."""

_TASK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

_COUNTING = re.compile(r"\d|quorum|majority|most|half|n_of|at_least", re.IGNORECASE)

_AIRFLOW_RULES = {
    "all_success": "all_succeeded",
    "all_done": "all_settled",
    "all_done_min_one_success": "any_succeeded",
}
"""Airflow's trigger rules that a join stands for."""

_FIRST_COME = frozenset({"one_success", "one_failed", "one_done", "any", "any_settled", "first"})


def check_name(name: Any) -> None:
    """:raises DefinitionError: where no node can be called so."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DefinitionError(
            "must start with a letter or '_' and go on with letters, digits, '_', '.' or '-'",
            node=str(name)[:80],
            attribute="name",
        )
    if name in RESERVED_NAMES:
        raise DefinitionError("is the name of a closing task; take another", node=name, attribute="name")


def check_task(node: str, attribute: str, task: Any) -> None:
    """:raises DefinitionError: where it is no path of a function."""
    if not isinstance(task, str) or not _TASK.fullmatch(task):
        raise DefinitionError("must be 'package.module:function'", node=node, attribute=attribute)


def check_choice(value: Any, choices: Sequence[str], *, node: str | None, attribute: str) -> None:
    """:raises DefinitionError: where it is none of the words that may stand there."""
    if value not in choices:
        raise DefinitionError(f"must be one of {', '.join(choices)}", node=node, attribute=attribute)


def check_join(node: str, join: Any) -> None:
    """
    Hold a join to the three that give the same result whoever finishes first.

    :raises DefinitionError: a count of upstream nodes and the first to come are refused with the reason
        (row T15); Airflow's own rules are translated.
    """
    if isinstance(join, str) and join in JOINS:
        return
    text = str(join)
    if not isinstance(join, str) or _COUNTING.search(text) or text in _FIRST_COME:
        reason = (
            "no quorum and no first-come: the result of the run would depend on who finishes first, and a "
            "repetition could give another; write all_settled, which is given every result with its tag, "
            "and count in the function"
        )
    elif text in _AIRFLOW_RULES:
        reason = f"{text} is Airflow's word; write {_AIRFLOW_RULES[text]}"
    else:
        reason = f"must be one of {', '.join(JOINS)}"
    raise DefinitionError(reason, node=node, attribute="join")


def check_literals(node: str, kwargs: Mapping[str, Any]) -> None:
    """:raises DefinitionError: where an argument is no typed value (semantics section 5)."""
    if not kwargs:
        return
    try:
        canonical_bytes(dict(kwargs))
    except ValueRefused as error:
        raise DefinitionError(str(error), node=node, attribute="kwargs") from error


def flag_in(value: Any, *, node: str, attribute: str) -> bool:
    """:raises DefinitionError: where it is neither true nor false; a number is neither."""
    if not isinstance(value, bool):
        raise DefinitionError("must be true or false", node=node, attribute=attribute)
    return value


def edges_in(
    node: str, deps: Mapping[str, str] | Sequence[str], after: Sequence[str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """
    What a node takes by parameter, and what it only waits for.

    :param deps: parameter to node; or a list of nodes, for order alone.
    :raises DefinitionError: where it is neither, or a node stands twice.
    """
    behind = texts_in(after, node=node, attribute="after")
    if isinstance(deps, str):
        raise DefinitionError("must be a mapping or a list, not a string", node=node, attribute="deps")
    if not isinstance(deps, Mapping):
        deps, behind = {}, (*deps, *behind)
    if len(set(behind)) < len(behind):
        raise DefinitionError("names a node twice", node=node, attribute="deps")
    return MappingProxyType(dict(deps)), behind


def collected_in(node: str, collect: Any) -> Mapping[str, tuple[str, ...]]:
    """
    The lists of results that a node is given: parameter to nodes, in declared order.

    :raises DefinitionError: where a list has no nodes, or one twice.
    """
    if not isinstance(collect, Mapping):
        raise DefinitionError(
            "must map a parameter to the nodes whose results it gets as one list, as {'parts': ['a', 'b']}",
            node=node,
            attribute="collect",
        )
    lists: dict[str, tuple[str, ...]] = {}
    for parameter, nodes in collect.items():
        names = texts_in(nodes, node=node, attribute="collect")
        if not names:
            raise DefinitionError(
                f"parameter {str(parameter)[:80]!r} collects the results of no node; name them in deps",
                node=node,
                attribute="collect",
            )
        if len(set(names)) < len(names):
            raise DefinitionError("names a node twice", node=node, attribute="collect")
        lists[parameter] = names
    return MappingProxyType(lists)


def mapped_over_in(node: str, over: Any) -> Mapping[str, str]:
    """
    What a mapped node takes one by one: parameter to the node whose result is the list.

    :raises DefinitionError: where there is more than one, or it is no node's name.
    """
    if not isinstance(over, Mapping) or any(not isinstance(name, str) for name in over.values()):
        raise DefinitionError(
            "must map one parameter to the node whose result is the list, as {'row': 'extract'}",
            node=node,
            attribute="over",
        )
    if len(over) > 1:
        raise DefinitionError(
            "a step is mapped over one list; let a step before it pair the lists up",
            node=node,
            attribute="over",
        )
    return MappingProxyType(dict(over))


def texts_in(value: Sequence[str], *, node: str | None, attribute: str) -> tuple[str, ...]:
    """The strings in a sequence; a single string is one too to Python, but nobody means its letters."""
    if (
        isinstance(value, str)
        or not isinstance(value, Iterable)
        or any(not isinstance(item, str) for item in value)
    ):
        raise DefinitionError("must be a list of strings", node=node, attribute=attribute)
    return tuple(value)


def check_parameters(node: str, givers: Mapping[str, Iterable[Any]]) -> None:
    """
    Every parameter comes from one place.

    :param givers: attribute to the parameters that it gives.
    :raises DefinitionError: blaming the second who gives a parameter, or who gives what cannot be one.
    """
    seen: set[str] = set()
    for attribute, names in givers.items():
        for name in names:
            problem = _parameter_problem(name, seen)
            if problem is not None:
                raise DefinitionError(problem, node=node, attribute=attribute)
            seen.add(name)


def _parameter_problem(name: Any, seen: set[str]) -> str | None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        return f"{str(name)[:80]!r} cannot be a parameter of a Python function"
    if name == "ctx":
        return "'ctx' is the task context; take another name"
    return f"parameter {name!r} is given twice" if name in seen else None
