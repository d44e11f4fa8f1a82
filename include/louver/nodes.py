"""The nodes of a workflow: steps, and approvals. Values, checked when they are made."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from louver.canonical import encode
from louver.errors import DefinitionError, ValueRefused
from louver.policies import RetryPolicy
from louver.resources import resources_in
from louver.timeouts import Timeouts

__all__ = ["NAME", "ON_FAILURE", "RESERVED_NAMES", "ApprovalNode", "Node", "OnFailure", "Step", "texts_in"]

RESERVED_NAMES = frozenset({"compensate", "outcome"})
"""Task ids of the closing tasks that every Louver Dag has."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}", re.ASCII)
"""What a node and a workflow may be called; Airflow takes it as task id and Dag id."""

_TASK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

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
    :param timeouts: how long it may take to start, to run, and from one checkpoint to the next.
    :param approval: the approval node that must allow what this step does.
    :param queue: Airflow's queue; ``None`` for the default.
    :param priority: Airflow's priority weight.
    :param on_failure: ``fail`` or ``continue``.
    :param resources: what it shares with others, by name, to units (:mod:`louver.resources`).
    :raises DefinitionError: naming the node and the attribute.
    """

    name: str
    task: str
    deps: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    after: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    approval: str | None = None
    queue: str | None = None
    priority: int = 1
    on_failure: OnFailure = "fail"
    resources: Mapping[str, int] = field(default_factory=dict)

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
        if not isinstance(self.timeouts, Timeouts):
            raise DefinitionError("must be Timeouts", node=self.name, attribute="timeouts")
        if type(self.priority) is not int or not 1 <= self.priority <= 1_000_000:
            raise DefinitionError(
                "must be a whole number from 1 to 1000000", node=self.name, attribute="priority"
            )
        object.__setattr__(self, "resources", resources_in(self.resources, node=self.name))
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
        approvers = texts_in(self.approvers, node=self.name, attribute="approve.approvers")
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
    def timeouts(self) -> Timeouts:
        """A person has until the request expires."""
        return Timeouts()

    @property
    def on_failure(self) -> OnFailure:
        """A decision that was not given always fails the run."""
        return "fail"

    @property
    def resources(self) -> Mapping[str, int]:
        """A person is no resource of this kind."""
        return {}

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
    if not isinstance(name, str) or not NAME.fullmatch(name):
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
    deps, after = node.deps, texts_in(node.after, node=node.name, attribute="after")
    if isinstance(deps, str):
        raise DefinitionError("must be a mapping or a list, not a string", node=node.name, attribute="deps")
    if not isinstance(deps, Mapping):
        deps, after = {}, (*deps, *after)
    if len(set(after)) < len(after):
        raise DefinitionError("names a node twice", node=node.name, attribute="deps")
    object.__setattr__(node, "deps", MappingProxyType(dict(deps)))
    object.__setattr__(node, "after", after)


def texts_in(value: Sequence[str], *, node: str | None, attribute: str) -> tuple[str, ...]:
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
