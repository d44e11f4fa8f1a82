"""
What a step is given of its upstreams' results, and what its own result has to be for those behind it.

With the join ``all_succeeded`` a step gets plain values: of a mapped upstream the list of values by index.
With the others every result is a :class:`~louver.results.NodeResult`, which tells a failure from a legal
``None``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from louver.definition import Definition, Node, Step
from louver.errors import NoResult, ValueRefused
from louver.evaluation import has_own_rules
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.plain_functions import check_returned
from louver.results import RunResults, choice_of, items_of

__all__ = ["Given", "Upstream", "check_result", "gather", "has_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """
    What a step gets of its upstreams.

    :param arguments: by parameter of its function.
    :param upstream: by node, the values of those that succeeded (row T8).
    """

    arguments: dict[str, Any]
    upstream: Mapping[str, Any]


def has_rules(definition: Definition, node: Node) -> bool:
    """Whether more than the platform's own rule, that everything upstream has succeeded, says if it runs."""
    return definition.aggregation != "skip_downstream" or has_own_rules(definition, node)


def gather(definition: Definition, node: Node, key: TaskKey, ledger: Ledger) -> Given:
    """
    The results of the upstreams, loaded and verified.

    :param key: the task that asks; of a mapped step its index picks the item.
    :raises IntegrityError: where one is missing or not what was signed.
    """
    if node.join == "all_succeeded":
        return _plain(definition, node, key, ledger)
    results = RunResults(definition, key.run, ledger)
    shown = {name: results.of(name) for name in node.upstream}
    return Given(arguments=_arguments(node, shown), upstream=results.delivered(node.upstream))


def _plain(definition: Definition, node: Node, key: TaskKey, ledger: Ledger) -> Given:
    # The platform has seen to it that all are there, so each is looked up by itself.
    upstream = Upstream(definition, node, key.run, ledger)
    mapped = {name for name in node.upstream if definition.node(name).mapped}
    whole = {*node.inputs.values(), *chain.from_iterable(node.collect.values())}
    shown = {}
    for name in node.upstream:
        if name not in mapped:
            try:
                shown[name] = ledger.load_result(TaskKey(key.dag_id, key.run_id, name))
            except NoResult:
                # Marked by hand, it is done; who only waits for that goes on.
                if name in whole or name in node.over.values():
                    raise
        elif name in whole:
            shown[name] = upstream.whole(name)
    upstream.keep(shown)
    arguments = _arguments(node, shown)
    for parameter, name in node.over.items():
        if name in mapped:
            # One item of a mapped step is the result of one index; the others are not this one's concern.
            item = TaskKey(key.dag_id, key.run_id, name, key.map_index)
            arguments[parameter] = shown[name][key.map_index] if name in shown else ledger.load_result(item)
        else:
            arguments[parameter] = items_of(shown[name], node=name)[key.map_index]
    return Given(arguments=arguments, upstream=upstream)


def _arguments(node: Node, shown: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {parameter: shown[name] for parameter, name in node.inputs.items()}
    for parameter, names in node.collect.items():
        # In declared order, whoever finished first (row W3, case J02).
        arguments[parameter] = [shown[name] for name in names]
    return arguments


class Upstream(Mapping[str, Any]):
    """
    By node, the values of the upstreams that succeeded (row T8); each is loaded when it is looked at.

    So of a mapped step the many tasks behind it need not load the whole list, each of them, to see one item.

    :raises IntegrityError: on access, where a value is missing or not what was signed.
    """

    def __init__(self, definition: Definition, node: Node, run: RunKey, ledger: Ledger) -> None:
        self._names = node.upstream
        self._open = partial(RunResults, definition, run, ledger)
        self._results: RunResults | None = None
        self._known: dict[str, Any] = {}

    def keep(self, values: Mapping[str, Any]) -> None:
        """Values that are known already."""
        self._known.update(values)

    def whole(self, name: str) -> Any:
        """
        The node's value; of a mapped one the list of values by index.

        :raises UpstreamFailed: where one is missing.
        """
        return self._opened().value(name)

    def _opened(self) -> RunResults:
        if self._results is None:
            self._results = self._open()
        return self._results

    def __getitem__(self, name: str) -> Any:
        if name not in self._known and name in self._names:
            self._known.update(self._opened().delivered([name]))
        return self._known[name]

    def copy(self) -> dict[str, Any]:
        """All of them, loaded."""
        return dict(self)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def check_result(definition: Definition, step: Step, value: Any, *, most: int | None = None) -> None:
    """
    Whether those behind the step can go on with what it returned.

    :param most: over how many items a step can be mapped.
    :raises ValueRefused: where a step is mapped over it and it is no list, or too long a one; where it is a
        branch, and what it chose is not behind it; where nothing has been done yet, as by an async function.
    """
    check_returned(value)
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
