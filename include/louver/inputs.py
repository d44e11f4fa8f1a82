"""
What a step is given of its upstreams' results, and what its own result has to be for those behind it.

With the join ``all_succeeded`` a step gets plain values: of a mapped upstream the list of values by index.
With the others every result is a :class:`~louver.results.NodeResult`, which tells a failure from a legal
``None``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from louver.definition import Definition, Node, Step
from louver.errors import NoResult, ValueRefused
from louver.evaluation import has_own_rules
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.results import RunResults, choice_of, items_of

__all__ = ["Given", "check_result", "gather", "has_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """
    What a step gets of its upstreams.

    :param arguments: by parameter of its function.
    :param upstream: by node, the values of those that succeeded (row T8).
    """

    arguments: dict[str, Any]
    upstream: dict[str, Any]


def has_rules(definition: Definition, node: Node) -> bool:
    """Whether more than the platform's own rule, that everything upstream has succeeded, says if it runs."""
    return definition.aggregation != "skip_downstream" or has_own_rules(definition, node)


def gather(definition: Definition, node: Node, key: TaskKey, ledger: Ledger) -> Given:
    """
    The results of the upstreams, loaded and verified.

    :param key: the task that asks; of a mapped step its index picks the item.
    :raises IntegrityError: where one is missing or not what was signed.
    """
    plain = node.join == "all_succeeded"
    if plain and not _mapped(definition, node.upstream):
        # Airflow has seen to it that all are there; each is looked up by itself.
        shown = delivered = _each(node, key, ledger)
    else:
        results = RunResults(definition, key.run, ledger)
        shown = {name: results.value(name) if plain else results.of(name) for name in node.upstream}
        delivered = results.delivered(node.upstream)
    arguments = {parameter: shown[name] for parameter, name in node.inputs.items()}
    for parameter, names in node.collect.items():
        # In declared order, whoever finished first (row W3, case J02).
        arguments[parameter] = [shown[name] for name in names]
    for parameter, name in node.over.items():
        arguments[parameter] = items_of(shown[name], node=name)[key.map_index]
    return Given(arguments=arguments, upstream=delivered)


def _each(node: Node, key: TaskKey, ledger: Ledger) -> dict[str, Any]:
    needed = {*node.inputs.values(), *chain.from_iterable(node.collect.values()), *node.over.values()}
    values = {}
    for name in node.upstream:
        try:
            values[name] = ledger.load_result(TaskKey(key.dag_id, key.run_id, name))
        except NoResult:
            # Marked by hand, it is done; who only waits for that goes on.
            if name in needed:
                raise
    return values


def _mapped(definition: Definition, names: Iterable[str]) -> bool:
    return any(definition.node(name).mapped for name in names)


def check_result(definition: Definition, step: Step, value: Any, *, most: int | None = None) -> None:
    """
    Whether those behind the step can go on with what it returned.

    :param most: over how many items a step can be mapped.
    :raises ValueRefused: where a step is mapped over it and it is no list, or too long a one; where it is a
        branch, and what it chose is not behind it.
    """
    if any(step.name in node.over.values() for node in definition.nodes) and not step.mapped:
        items = items_of(value, node=step.name)
        if most is not None and len(items) > most:
            raise ValueRefused("$", f"has {len(items)} items; a step may be mapped over {most} at most")
    if step.branch:
        _check_choice(definition, step, value)


def _check_choice(definition: Definition, step: Step, value: Any) -> None:
    behind = [node.name for node in definition.nodes if step.name in node.upstream]
    if value is not None and not isinstance(value, (str, list, tuple)):
        raise ValueRefused("$", "a branch returns the name of a step behind it, or a list of such names")
    if any(not isinstance(name, str) or name not in behind for name in choice_of(value)):
        raise ValueRefused("$", f"a branch can choose among {', '.join(behind)}")
