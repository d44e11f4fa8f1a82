"""The nodes of a workflow: steps, and approvals. Values, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from louver.errors import DefinitionError
from louver.node_checks import (
    JOINS,
    NAME,
    ON_FAILURE,
    ON_UNKNOWN,
    RESERVED_NAMES,
    check_choice,
    check_join,
    check_literals,
    check_name,
    check_parameters,
    check_task,
    collected_in,
    edges_in,
    flag_in,
    mapped_over_in,
    texts_in,
)
from louver.policies import RetryPolicy
from louver.resources import resources_in
from louver.timeouts import Timeouts

__all__ = [
    "JOINS",
    "NAME",
    "ON_FAILURE",
    "ON_UNKNOWN",
    "RESERVED_NAMES",
    "ApprovalNode",
    "Join",
    "Node",
    "OnFailure",
    "Step",
    "texts_in",
]

OnFailure = str
"""``fail``: the node's failure fails the run. ``continue``: it only skips what depends on it (row W7)."""

Join = str
"""
When a node runs (row T15). ``all_succeeded``: all that it waits for succeeded. ``all_settled``: all ended,
somehow. ``any_succeeded``: all ended, and one at least succeeded; nothing depends on who was first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    A node that runs a function.

    :param name: letters, digits, ``_``, ``.`` and ``-``, not starting with a digit; unique in the workflow.
    :param task: ``package.module:function``.
    :param deps: parameter to upstream node, whose result is injected; or a list of nodes, for order alone.
    :param after: more nodes to wait for, without their results.
    :param collect: parameter to upstream nodes, whose results it gets as one list in this order.
    :param over: parameter to the upstream node whose result is a list; the step runs once for each item of
        it, with the item as that parameter (row W13). At most one.
    :param params: parameter of the function to parameter of the run.
    :param kwargs: literal arguments.
    :param join: ``all_succeeded``, ``all_settled`` or ``any_succeeded``; with the latter two every injected
        and collected value is a tagged result.
    :param branch: the function's result is the name, or a list of the names, of the nodes directly behind
        this one that run; the others of them are skipped.
    :param retry: how often the step is tried.
    :param timeouts: how long it may take to start, to run, and from one checkpoint to the next.
    :param approval: the approval node that must allow what this step does.
    :param queue: Airflow's queue; ``None`` for the default.
    :param priority: Airflow's priority weight.
    :param on_failure: ``fail`` or ``continue``.
    :param resources: what it shares with others, by name, to units (:mod:`louver.resources`).
    :param expanded: the platform runs it once for each item of a list that is no node's result, as Airflow
        does with a task that a plain Dag maps.
    :param compensate: ``package.module:function`` that undoes the step. The whole step is one effect then,
        named after it, whose intent is its arguments.
    :param on_unknown: of that effect: ``manual`` or ``retry``.
    :raises DefinitionError: naming the node and the attribute.
    """

    name: str
    task: str
    deps: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    after: Sequence[str] = ()
    collect: Mapping[str, Sequence[str]] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    join: Join = "all_succeeded"
    branch: bool = False
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    approval: str | None = None
    queue: str | None = None
    priority: int = 1
    on_failure: OnFailure = "fail"
    resources: Mapping[str, int] = field(default_factory=dict)
    expanded: bool = False
    compensate: str | None = None
    on_unknown: str = "manual"

    def __post_init__(self) -> None:
        check_name(self.name)
        check_task(self.name, "task", self.task)
        deps, after = edges_in(self.name, self.deps, self.after)
        object.__setattr__(self, "deps", deps)
        object.__setattr__(self, "after", after)
        object.__setattr__(self, "collect", collected_in(self.name, self.collect))
        object.__setattr__(self, "over", mapped_over_in(self.name, self.over))
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))
        check_literals(self.name, self.kwargs)
        check_choice(self.on_failure, ON_FAILURE, node=self.name, attribute="on_failure")
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
        check_join(self.name, self.join)
        flag_in(self.branch, node=self.name, attribute="branch")
        flag_in(self.expanded, node=self.name, attribute="expanded")
        self._check_effect()
        self._check_shape()
        check_parameters(
            self.name,
            {
                "deps": self.inputs,
                "collect": self.collect,
                "over": self.over,
                "params": self.params,
                "kwargs": self.kwargs,
            },
        )

    def _check_effect(self) -> None:
        if self.compensate is not None:
            check_task(self.name, "compensate", self.compensate)
        elif self.on_unknown != "manual":
            raise DefinitionError(
                "is of the effect that a step with compensate is; name its undo",
                node=self.name,
                attribute="on_unknown",
            )
        check_choice(self.on_unknown, ON_UNKNOWN, node=self.name, attribute="on_unknown")

    def _check_shape(self) -> None:
        """What a node cannot be at the same time."""
        if self.mapped and self.branch:
            raise DefinitionError(
                "a mapped step cannot branch: its indexes could choose differently; let a step behind it "
                "read the whole list and branch",
                node=self.name,
                attribute="branch",
            )
        if self.mapped and self.join != "all_succeeded":
            raise DefinitionError(
                "a mapped step needs its list, so its join is all_succeeded; let a step before it join and "
                "give the list",
                node=self.name,
                attribute="join",
            )
        if self.approval is not None and self.mapped:
            raise DefinitionError(
                "a person allows one act, so the step that acts on an approval cannot be mapped",
                node=self.name,
                attribute="over",
            )
        if self.approval is not None and self.join != "all_succeeded":
            raise DefinitionError(
                "a step that acts on an approval runs only where it was given, so its join is "
                "all_succeeded; let a step before it join",
                node=self.name,
                attribute="join",
            )

    @property
    def inputs(self) -> Mapping[str, str]:
        """Parameter to the upstream node whose result it takes."""
        return self.deps if isinstance(self.deps, Mapping) else {}

    @property
    def mapped(self) -> bool:
        """Whether it runs once for each item of a list."""
        return bool(self.over) or self.expanded

    @property
    def upstream(self) -> tuple[str, ...]:
        """Every node this one waits for, in declared order, each once."""
        collected = [name for names in self.collect.values() for name in names]
        return tuple(dict.fromkeys([*self.inputs.values(), *collected, *self.over.values(), *self.after]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNode:
    """
    A node where a person decides (semantics section 6).

    :param name: as for a step.
    :param of: the step that will act on the decision; it must name this node as its ``approval``.
    :param payload: ``package.module:function`` that returns exactly the intent of the effect to allow.
    :param deps: results handed to ``payload``, by parameter; or a list, for order alone. A mapped node gives
        the list of its results.
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
        check_name(self.name)
        check_task(self.name, "approve.payload", self.payload)
        deps, after = edges_in(self.name, self.deps, self.after)
        object.__setattr__(self, "deps", deps)
        object.__setattr__(self, "after", after)
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
        flag_in(self.four_eyes, node=self.name, attribute="approve.four_eyes")
        check_parameters(self.name, {"deps": self.inputs, "params": self.params, "kwargs": self.kwargs})

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
    def join(self) -> Join:
        """Nobody is asked about what did not come to be."""
        return "all_succeeded"

    @property
    def collect(self) -> Mapping[str, Sequence[str]]:
        """A payload takes results one by one."""
        return {}

    @property
    def over(self) -> Mapping[str, str]:
        """A person is asked once."""
        return {}

    @property
    def branch(self) -> bool:
        """A person allows or refuses; what runs next is for a step to say."""
        return False

    @property
    def mapped(self) -> bool:
        """A person is asked once."""
        return False

    @property
    def inputs(self) -> Mapping[str, str]:
        """Parameter to the upstream node whose result it takes."""
        return self.deps if isinstance(self.deps, Mapping) else {}

    @property
    def upstream(self) -> tuple[str, ...]:
        """Every node this one waits for, in declared order, each once."""
        return tuple(dict.fromkeys([*self.inputs.values(), *self.after]))


Node = Step | ApprovalNode
