"""
What a workflow is: steps, approvals and what they depend on. Values, checked when they are made.

A definition says nothing about how it runs: the embedded engine and the Airflow glue both read it. Its
fingerprint tells one definition from another; it is no signature (product row O1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from louver.canonical import encode, fingerprint
from louver.errors import DefinitionError, ValueRefused
from louver.nodes import NAME, ON_FAILURE, RESERVED_NAMES, ApprovalNode, Node, OnFailure, Step, texts_in

__all__ = ["ON_FAILURE", "RESERVED_NAMES", "ApprovalNode", "Definition", "Node", "OnFailure", "Step"]

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}", re.ASCII)


# No slots here: cached_property needs the instance's dict.
@dataclass(frozen=True, kw_only=True)
class Definition:
    """
    A whole workflow.

    :param name: also the Dag's id.
    :param version: the author's version, as ``1.4.0``.
    :param nodes: steps and approvals in declared order.
    :param params: names of the run's parameters.
    :param event_type: the CloudEvents type that starts a run. Such a workflow has one root step, which takes
        the event in, and the one parameter ``event``.
    :param sink: the node whose result is the run's; by default the last one declared.
    :raises DefinitionError: duplicate name, self-dependency, cycle, unknown dependency or parameter, an
        approval that does not match its step, empty workflow, unknown sink (row W4).
    """

    name: str
    version: str
    nodes: Sequence[Node]
    params: Sequence[str] = ()
    event_type: str | None = None
    sink: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "params", texts_in(self.params, node=None, attribute="params"))
        self._check_head()
        self._check_nodes()
        self._check_order()
        self._check_approvals()
        self._check_event()
        self._check_form()

    def _check_head(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise DefinitionError("must be letters, digits, '_', '.' or '-'", attribute="name")
        if not isinstance(self.version, str) or not _VERSION.fullmatch(self.version):
            raise DefinitionError("must be a version such as '1.0.0'", attribute="version")
        if not self.nodes:
            raise DefinitionError("a workflow needs at least one step", attribute="steps")
        if len(set(self.params)) < len(self.params):
            raise DefinitionError("a parameter stands twice", attribute="params")

    def _check_nodes(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if node.name in seen:
                raise DefinitionError("another step has this name", node=node.name, attribute="name")
            seen.add(node.name)
        for node in self.nodes:
            for upstream in node.upstream:
                if upstream == node.name:
                    raise DefinitionError("depends on itself", node=node.name, attribute="deps")
                if upstream not in seen:
                    raise DefinitionError(
                        f"depends on {upstream!r}, which is not a step of this workflow; "
                        f"there are: {', '.join(sorted(seen))}",
                        node=node.name,
                        attribute="deps",
                    )
            for parameter in node.params.values():
                if parameter not in self.params:
                    raise DefinitionError(
                        f"takes run parameter {parameter!r}, which the workflow does not declare",
                        node=node.name,
                        attribute="params",
                    )
        if self.sink is not None and self.sink not in seen:
            raise DefinitionError(f"{self.sink!r} is not a step of this workflow", attribute="sink")

    def _check_order(self) -> None:
        waiting = {node.name: set(node.upstream) for node in self.nodes}
        while free := [name for name, upstream in waiting.items() if not upstream]:
            for name in free:
                del waiting[name]
            for upstream in waiting.values():
                upstream.difference_update(free)
        # What only waits for the cycle is not to blame for it.
        while idle := set(waiting).difference(*waiting.values()):
            for name in idle:
                del waiting[name]
        if waiting:
            raise DefinitionError(
                f"these steps wait for each other in a cycle: {', '.join(waiting)}",
                node=next(iter(waiting)),
                attribute="deps",
            )

    def _check_approvals(self) -> None:
        for node in self.nodes:
            if isinstance(node, ApprovalNode):
                acting = self._by_name.get(node.of)
                if not isinstance(acting, Step) or acting.approval != node.name:
                    raise DefinitionError(
                        f"{node.of!r} must be a step with approval {node.name!r}",
                        node=node.name,
                        attribute="approve.of",
                    )
            elif node.approval is not None:
                asking = self._by_name.get(node.approval)
                if not isinstance(asking, ApprovalNode) or asking.of != node.name:
                    raise DefinitionError(
                        f"{node.approval!r} must be an approval of {node.name!r}",
                        node=node.name,
                        attribute="approval",
                    )
                if node.approval not in self.ancestors(node.name):
                    raise DefinitionError(
                        f"must wait for {node.approval!r}; name it in deps or after",
                        node=node.name,
                        attribute="approval",
                    )

    def _check_event(self) -> None:
        if self.event_type is None:
            return
        if not isinstance(self.event_type, str) or not self.event_type:
            raise DefinitionError("must be a non-empty string", attribute="event_type")
        roots = [node.name for node in self.nodes if not node.upstream]
        if len(roots) != 1:
            raise DefinitionError(
                "a workflow that an event starts has one root step, which takes the event in; "
                f"here are {len(roots)}: {', '.join(roots)}",
                attribute="event_type",
            )
        if self.params != ("event",):
            raise DefinitionError(
                "a workflow that an event starts has the one parameter 'event'", attribute="params"
            )

    def _check_form(self) -> None:
        """Whatever a text of the definition may hold, its fingerprint can be computed."""
        try:
            encode(self.to_json())
        except ValueRefused as error:
            raise DefinitionError(error.reason, attribute=error.path.removeprefix("$.")) from error

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def node(self, name: str) -> Node:
        """
        The node of that name.

        :raises DefinitionError: where there is none.
        """
        node = self._by_name.get(name)
        if node is None:
            raise DefinitionError(f"{name!r} is not a step of this workflow", source=self.name)
        return node

    @property
    def names(self) -> tuple[str, ...]:
        """Node names in declared order."""
        return tuple(node.name for node in self.nodes)

    @property
    def result_node(self) -> str:
        """The node whose result is the run's."""
        return self.sink or self.nodes[-1].name

    @property
    def root(self) -> str:
        """The first node that waits for nothing; it takes the event in."""
        return next(node.name for node in self.nodes if not node.upstream)

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Everything that ``name`` waits for, directly or not, in declared order."""
        found: set[str] = set()
        open_names = list(self.node(name).upstream)
        while open_names:
            current = open_names.pop()
            if current not in found:
                found.add(current)
                open_names.extend(self.node(current).upstream)
        return tuple(candidate for candidate in self.names if candidate in found)

    @classmethod
    def from_json(cls, raw: bytes | str, *, source: str | None = None) -> Definition:
        """
        A definition from its JSON form, read strictly.

        :param raw: the document; see ``docs/definitions.md``.
        :param source: the file it came from, named in errors.
        :raises DefinitionError: naming file, step and attribute.
        """
        from louver.definition_json import read_definition

        return read_definition(raw, source=source)

    def to_json(self) -> dict[str, Any]:
        """The plain form that :meth:`from_json` reads; every default spelled out."""
        from louver.definition_json import write_definition

        return write_definition(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the canonical form, 64 hex digits."""
        return fingerprint(self.to_json())
