"""
What a workflow is: steps, approvals and what they depend on. Values, checked when they are made.

A definition says nothing about how it runs: the embedded engine and the Airflow glue both read it. Its
fingerprint tells one definition from another; it is no signature (product row O1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from louver.canonical import fingerprint
from louver.definition_checks import (
    check_approvals,
    check_branches,
    check_edges,
    check_event,
    check_mapped,
    check_order,
)
from louver.errors import DefinitionError, ValueRefused
from louver.node_checks import NAME, ON_FAILURE, RESERVED_NAMES, check_choice, texts_in
from louver.nodes import ApprovalNode, Node, OnFailure, Step
from louver.policies import CompensationPolicy

__all__ = [
    "AGGREGATIONS",
    "ON_CHANGE",
    "ON_FAILURE",
    "RESERVED_NAMES",
    "ApprovalNode",
    "Definition",
    "Node",
    "OnFailure",
    "Step",
]

AGGREGATIONS = ("skip_downstream", "fail_fast")
"""What a node's failure means for the rest of its run (row T15)."""

ON_CHANGE = ("fail", "finish_old", "accept_compatible")
"""What a run does that finds another definition deployed than it began with."""

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
    :param aggregation: what a failure means for the rest (row T15). ``skip_downstream``: what depends on it
        is skipped, other branches finish. ``fail_fast``: every unfinished node is cancelled.
    :param on_change: what becomes of a run that began with another definition of this name
        (:mod:`louver.versions`): ``fail``, ``finish_old`` or ``accept_compatible``. That of the definition
        deployed now counts.
    :param compensation: how a run without success is compensated (case E06).
    :raises DefinitionError: duplicate name, self-dependency, cycle, unknown dependency or parameter, an
        approval that does not match its step, a branch with nothing to choose, empty workflow, unknown sink
        (row W4).
    """

    name: str
    version: str
    nodes: Sequence[Node]
    params: Sequence[str] = ()
    event_type: str | None = None
    sink: str | None = None
    aggregation: str = "skip_downstream"
    on_change: str = "fail"
    compensation: CompensationPolicy = field(default_factory=CompensationPolicy)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "params", texts_in(self.params, node=None, attribute="params"))
        self._check_head()
        check_edges(self.nodes, params=self.params)
        check_order(self.nodes)
        acting = [node.name for node in self.nodes if isinstance(node, Step) and node.approval is not None]
        check_approvals(self.nodes, ancestors={name: self.ancestors(name) for name in acting})
        check_branches(self.nodes)
        check_mapped(self.nodes)
        if self.sink is not None and self.sink not in self.names:
            raise DefinitionError(f"{self.sink!r} is not a step of this workflow", attribute="sink")
        if self.event_type is not None:
            check_event(self.nodes, params=self.params)
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
        if self.event_type is not None and (not isinstance(self.event_type, str) or not self.event_type):
            raise DefinitionError("must be a non-empty string", attribute="event_type")
        check_choice(self.aggregation, AGGREGATIONS, node=None, attribute="aggregation")
        check_choice(self.on_change, ON_CHANGE, node=None, attribute="on_change")
        if not isinstance(self.compensation, CompensationPolicy):
            raise DefinitionError("must be a CompensationPolicy", attribute="compensation")

    def _check_form(self) -> None:
        """Whatever a text of the definition may hold, its fingerprint can be computed; it is kept."""
        try:
            _ = self.fingerprint
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
