"""
What a workflow is: steps, approvals and what they depend on. Values, checked when they are made.

A definition says nothing about how it runs: the embedded engine and the Airflow glue both read it. Its
fingerprint tells one definition from another; it is no signature (product row O1).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from louver.canonical import encode, fingerprint
from louver.errors import DefinitionError, ValueRefused
from louver.policies import RetryPolicy

__all__ = ["ON_FAILURE", "RESERVED_NAMES", "ApprovalNode", "Definition", "Node", "OnFailure", "Step"]

RESERVED_NAMES = frozenset({"compensate", "outcome"})
"""Task ids of the closing tasks that every Louver Dag has."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}", re.ASCII)
_TASK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}", re.ASCII)

ON_FAILURE = ("fail", "continue")
OnFailure = str
"""``fail``: the node's failure fails the run. ``continue``: it only skips what depends on it (row W7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    A node that runs a function.

    :param name: letters, digits, ``_``, ``.`` and ``-``, not starting with a digit; unique in the workflow.
    :param task: ``package.module:function``.
    :param deps: parameter to upstream node, whose result is injected; or a list of nodes, for order alone.
    :param after: more nodes to wait for, without their results.
    :param params: parameter of the function to parameter of the run.
    :param kwargs: literal arguments.
    :param retry: how often the step is tried.
    :param approval: the approval node that must allow what this step does.
    :param queue: Airflow's queue; ``None`` for the default.
    :param priority: Airflow's priority weight.
    :param on_failure: ``fail`` or ``continue``.
    :raises DefinitionError: naming the node and the attribute.
    """

    name: str
    task: str
    deps: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    after: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    approval: str | None = None
    queue: str | None = None
    priority: int = 1
    on_failure: OnFailure = "fail"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_task(self.name, "task", self.task)
        _normalise_deps(self)
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))
        try:
            encode(dict(self.kwargs))
        except ValueRefused as error:
            raise DefinitionError(str(error), node=self.name, attribute="kwargs") from error
        if self.on_failure not in ON_FAILURE:
            raise DefinitionError(
                f"must be one of {', '.join(ON_FAILURE)}", node=self.name, attribute="on_failure"
            )
        for attribute, text in (("approval", self.approval), ("queue", self.queue)):
            if text is not None and (not isinstance(text, str) or not text):
                raise DefinitionError("must be a non-empty string", node=self.name, attribute=attribute)
        if not isinstance(self.retry, RetryPolicy):
            raise DefinitionError("must be a RetryPolicy", node=self.name, attribute="retry")
        if type(self.priority) is not int or not 1 <= self.priority <= 1_000_000:
            raise DefinitionError(
                "must be a whole number from 1 to 1000000", node=self.name, attribute="priority"
            )
        _check_parameters(self)

    @property
    def inputs(self) -> Mapping[str, str]:
        """Parameter to the upstream node whose result it takes."""
        return self.deps if isinstance(self.deps, Mapping) else {}

    @property
    def upstream(self) -> tuple[str, ...]:
        """Every node this one waits for, in declared order, each once."""
        return _upstream(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNode:
    """
    A node where a person decides (semantics section 6).

    :param name: as for a step.
    :param of: the step that will act on the decision; it must name this node as its ``approval``.
    :param payload: ``package.module:function`` that returns exactly the intent of the effect to allow.
    :param deps: results handed to ``payload``, by parameter; or a list, for order alone.
    :param after: more nodes to wait for.
    :param params: parameter of ``payload`` to parameter of the run.
    :param kwargs: literal arguments of ``payload``.
    :param expires_after: seconds until the request expires; ``None`` waits for ever.
    :param approvers: ids, as Airflow's auth manager knows them, of the users that may decide; empty means
        everybody whom Airflow lets. The simple auth manager's ids are the user names.
    :param four_eyes: the person who started the run may not approve.
    :raises DefinitionError: naming the node and the attribute.
    """

    name: str
    of: str
    payload: str
    deps: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    after: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expires_after: float | None = None
    approvers: Sequence[str] = ()
    four_eyes: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_task(self.name, "approve.payload", self.payload)
        _normalise_deps(self)
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))
        approvers = _texts(self.approvers, node=self.name, attribute="approve.approvers")
        object.__setattr__(self, "approvers", approvers)
        if self.expires_after is not None:
            if type(self.expires_after) not in (int, float) or not 0 < self.expires_after <= 31_536_000:
                raise DefinitionError(
                    "must be a number of seconds, more than 0 and at most a year",
                    node=self.name,
                    attribute="approve.expires_after_seconds",
                )
            object.__setattr__(self, "expires_after", float(self.expires_after))
        if not isinstance(self.four_eyes, bool):
            raise DefinitionError("must be true or false", node=self.name, attribute="approve.four_eyes")
        _check_parameters(self)

    @property
    def retry(self) -> RetryPolicy:
        """Asking is not retried; a lost process is."""
        return RetryPolicy()

    @property
    def on_failure(self) -> OnFailure:
        """A decision that was not given always fails the run."""
        return "fail"

    @property
    def inputs(self) -> Mapping[str, str]:
        """Parameter to the upstream node whose result it takes."""
        return self.deps if isinstance(self.deps, Mapping) else {}

    @property
    def upstream(self) -> tuple[str, ...]:
        """Every node this one waits for, in declared order, each once."""
        return _upstream(self)


Node = Step | ApprovalNode


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            "must start with a letter or '_' and go on with letters, digits, '_', '.' or '-'",
            node=str(name)[:80],
            attribute="name",
        )
    if name in RESERVED_NAMES:
        raise DefinitionError("is the name of a closing task; take another", node=name, attribute="name")


def _check_task(node: str, attribute: str, task: Any) -> None:
    if not isinstance(task, str) or not _TASK.fullmatch(task):
        raise DefinitionError("must be 'package.module:function'", node=node, attribute=attribute)


def _normalise_deps(node: Step | ApprovalNode) -> None:
    deps, after = node.deps, _texts(node.after, node=node.name, attribute="after")
    if isinstance(deps, str):
        raise DefinitionError("must be a mapping or a list, not a string", node=node.name, attribute="deps")
    if not isinstance(deps, Mapping):
        deps, after = {}, (*deps, *after)
    if len(set(after)) < len(after):
        raise DefinitionError("names a node twice", node=node.name, attribute="deps")
    object.__setattr__(node, "deps", MappingProxyType(dict(deps)))
    object.__setattr__(node, "after", after)


def _texts(value: Sequence[str], *, node: str | None, attribute: str) -> tuple[str, ...]:
    """The strings in a sequence; a single string is one too to Python, but nobody means its letters."""
    if isinstance(value, str) or any(not isinstance(item, str) for item in value):
        raise DefinitionError("must be a list of strings", node=node, attribute=attribute)
    return tuple(value)


def _upstream(node: Step | ApprovalNode) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*node.inputs.values(), *node.after]))


def _check_parameters(node: Step | ApprovalNode) -> None:
    givers: dict[str, Mapping[str, Any]] = {
        "deps": node.inputs,
        "params": node.params,
        "kwargs": node.kwargs,
    }
    seen: set[str] = set()
    for attribute, names in givers.items():
        for name in names:
            problem = _parameter_problem(name, seen)
            if problem is not None:
                raise DefinitionError(problem, node=node.name, attribute=attribute)
            seen.add(name)


def _parameter_problem(name: Any, seen: set[str]) -> str | None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        return f"{str(name)[:80]!r} cannot be a parameter of a Python function"
    if name == "ctx":
        return "'ctx' is the task context; take another name"
    return f"parameter {name!r} is given twice" if name in seen else None


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
        object.__setattr__(self, "params", _texts(self.params, node=None, attribute="params"))
        self._check_head()
        self._check_nodes()
        self._check_order()
        self._check_approvals()
        self._check_event()
        self._check_form()

    def _check_head(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
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
