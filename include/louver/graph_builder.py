"""
The ``wf`` that a workflow function is given: every call declares a node and returns a reference to it.

Each call is checked as it is made, against the signature of the task too, so that an error points to the line
that is wrong (row W4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from louver.arguments import bound_by_position, node_name, sorted_arguments
from louver.binding import check_signature
from louver.errors import ConfigurationError, DefinitionError
from louver.mapped_items import items
from louver.marks import StepMark, mark_of
from louver.nodes import ApprovalNode, Join, Node, Step
from louver.placeholders import NodeRef, Placeholder
from louver.policies import RetryPolicy
from louver.references import resolve
from louver.task_paths import task_path, undo_path
from louver.timeouts import Timeouts

__all__ = ["Dependencies", "GraphBuilder", "NodeLike", "TaskLike"]

NodeLike = NodeRef | str
"""A node, or its name."""

TaskLike = Callable[..., Any] | str
"""A function, or the path of one."""

Dependencies = Mapping[str, NodeLike] | Sequence[NodeLike]
"""Parameter to the node whose result it gets; or nodes to wait for."""

_CALL = frozenset({"args", "kwargs", "deps", "after"})

_OPTIONS = frozenset(entry.name for entry in fields(StepMark)) - {"tags"}


class GraphBuilder:
    """
    A workflow while it is declared.

    :param workflow: its name.
    :param defaults: what it says for all its steps; a step and a mark come first (row W8).
    """

    def __init__(self, *, workflow: str, defaults: StepMark | None = None) -> None:
        self._workflow = workflow
        self._defaults = defaults or StepMark()
        self._nodes: dict[str, Node] = {}
        self._tasks: dict[str, Callable[..., Any]] = {}
        self._tags: dict[str, tuple[str, ...]] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What was declared so far, in order."""
        return tuple(self._nodes.values())

    @property
    def tasks(self) -> Mapping[str, Callable[..., Any]]:
        """Node name to its function, where a function was given."""
        return dict(self._tasks)

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """Node name to the tags of its function's mark."""
        return dict(self._tags)

    def step(
        self,
        name: str,
        task: TaskLike,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        deps: Dependencies = (),
        after: Sequence[NodeLike] = (),
        join: Join = "all_succeeded",
        approval: NodeLike | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_failure: str | None = None,
        retry: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        resources: Mapping[str, int] | None = None,
        compensate: TaskLike | None = None,
        on_unknown: str | None = None,
    ) -> NodeRef:
        """
        A step that runs ``task``.

        :param name: unique in the workflow.
        :param task: a function at the top of a module or Dag file; or a path, ``package.module:function``.
        :param args: arguments by position: literals, parameters of the run, nodes whose result is meant.
        :param kwargs: the same by name.
        :param deps: parameter to node; or a list of nodes, for order alone (row W2).
        :param after: more nodes to wait for, without their results.
        :param join: ``all_succeeded``, ``all_settled`` or ``any_succeeded``.
        :param approval: the approval that must allow what the step does; it is waited for.
        :param queue: Airflow's queue.
        :param priority: Airflow's priority weight.
        :param on_failure: ``fail`` or ``continue``.
        :param retry: how often it is tried.
        :param timeouts: how long it may take.
        :param resources: what it shares with others, by name, to units.
        :param compensate: function that undoes the step; it must be importable.
        :param on_unknown: of the effect that the step is then: ``manual`` or ``retry``.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        own = StepMark(
            retry=retry,
            timeouts=timeouts,
            queue=queue,
            priority=priority,
            on_failure=on_failure,
            resources=resources,
            compensate=compensate,
            on_unknown=on_unknown,
        )
        call = {"args": args, "kwargs": kwargs, "deps": deps, "after": after}
        return self._declare(name, task, call, own=own, approval=approval, shape={"join": join})

    def join(
        self,
        name: str,
        task: TaskLike,
        *,
        deps: Dependencies,
        collect: str | None = None,
        join: Join = "all_succeeded",
        **others: Any,
    ) -> NodeRef:
        """
        A step that brings branches together.

        :param deps: the nodes; their results come in this order, whoever finishes first (row W3).
        :param collect: the parameter that gets the results as one list; ``None`` for order alone.
        :param join: when it runs. With ``all_settled`` and ``any_succeeded`` the results are tagged ones.
        :param others: as for :meth:`step`.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        if collect is None:
            return self.step(name, task, deps=deps, join=join, **others)
        if isinstance(deps, Mapping):
            raise DefinitionError(
                "must be a list of nodes where collect is given; give single results in kwargs=",
                source=self._workflow,
                node=name,
                attribute="deps",
            )
        with self._named():
            lists = {collect: self._names(name, deps, "deps")}
        return self._shaped(name, task, others, join=join, collect=lists)

    def map(
        self,
        name: str,
        task: TaskLike,
        *,
        over: NodeLike | Placeholder | Sequence[Any],
        param: str = "item",
        **others: Any,
    ) -> NodeRef:
        """
        A step that runs once for each item of a list that only the run knows (row W13).

        :param over: the node whose result is the list; or a parameter of the run, or a literal list: then a
            step ``<name>_items`` is put in, which hands it on.
        :param param: the parameter that gets the item.
        :param others: as for :meth:`step`.
        :returns: the node, whose result is the list of results by index.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        if isinstance(over, (Placeholder, list, tuple)):
            # It shares the queue of its neighbours, for there are workers, but none of what they use up.
            over = self.step(
                f"{name}_items", items, kwargs={"items": over}, resources={}, timeouts=Timeouts()
            )
        return self._shaped(name, task, others, over={param: over})

    def branch(self, name: str, task: TaskLike, **others: Any) -> NodeRef:
        """
        A step whose result is the name, or a list of the names, of the nodes directly behind it that run.

        :param others: as for :meth:`step`.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        return self._shaped(name, task, others, branch=True)

    def approve(
        self,
        name: str,
        *,
        of: NodeLike,
        payload: TaskLike,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        deps: Dependencies = (),
        after: Sequence[NodeLike] = (),
        expires_after: float | None = None,
        approvers: Sequence[str] = (),
        four_eyes: bool = False,
    ) -> NodeRef:
        """
        A node where a person decides (semantics section 6).

        :param of: the name of the step that will act; it is declared later, with ``approval=`` this node.
        :param payload: function that returns exactly the intent of the effect to allow.
        :param args: its arguments by position, as for a step.
        :param kwargs: the same by name.
        :param deps: parameter to node; or a list of nodes, for order alone.
        :param after: more nodes to wait for.
        :param expires_after: seconds until the request expires.
        :param approvers: ids of the users that may decide; empty for everybody whom Airflow lets.
        :param four_eyes: the person who started the run may not approve.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        attribute = "approve.payload"
        call = {"args": args, "kwargs": kwargs, "deps": deps, "after": after}
        with self._named():
            node = ApprovalNode(
                name=name,
                of=node_name(of, workflow=self._workflow, node=name, attribute="approve.of"),
                payload=self._path(payload, node=name, attribute=attribute),
                expires_after=expires_after,
                approvers=approvers,
                four_eyes=four_eyes,
                **self._inputs(name, payload, call),
            )
            return self._add(node, payload)

    def _shaped(self, name: str, task: TaskLike, others: Mapping[str, Any], **shape: Any) -> NodeRef:
        """A step with what :meth:`step` has no keyword for."""
        unknown = sorted(set(others) - _CALL - _OPTIONS - {"approval", "join"})
        if unknown or (shape.keys() & others.keys()):
            raise DefinitionError(
                f"is not an argument here; choose from: {', '.join(sorted(_CALL | _OPTIONS | {'approval'}))}",
                source=self._workflow,
                node=name,
                attribute=(unknown or sorted(shape.keys() & others.keys()))[0],
            )
        return self._declare(
            name,
            task,
            {key: value for key, value in others.items() if key in _CALL},
            own=StepMark(**{key: value for key, value in others.items() if key in _OPTIONS}),
            approval=others.get("approval"),
            shape={"join": others.get("join", "all_succeeded"), **shape},
        )

    def _declare(
        self,
        name: str,
        task: TaskLike,
        call: Mapping[str, Any],
        *,
        own: StepMark,
        approval: NodeLike | None,
        shape: Mapping[str, Any],
    ) -> NodeRef:
        with self._named():
            mark = StepMark() if isinstance(task, str) else mark_of(task)
            options = _resolved(own, mark, self._defaults)
            if "compensate" in options:
                options["compensate"] = undo_path(options["compensate"], node=name)
            inputs = self._inputs(name, task, call)
            shape = dict(shape)
            if "over" in shape:
                ((parameter, source),) = shape["over"].items()
                shape["over"] = {parameter: self._name(name, source, "over")}
            if approval is not None:
                options["approval"] = self._name(name, approval, "approval")
                if options["approval"] not in (*inputs["deps"].values(), *inputs["after"]):
                    inputs["after"] = (*inputs["after"], options["approval"])
            path = self._path(task, node=name, attribute="task")
            return self._add(Step(name=name, task=path, **inputs, **shape, **options), task, tags=mark.tags)

    def _add(self, node: Node, function: TaskLike, *, tags: tuple[str, ...] = ()) -> NodeRef:
        if node.name in self._nodes:
            raise DefinitionError("another step has this name", node=node.name, attribute="name")
        if not isinstance(function, str):
            check_signature(node, function)
            self._tasks[node.name] = function
        if tags:
            self._tags[node.name] = tags
        self._nodes[node.name] = node
        return NodeRef(workflow=self._workflow, name=node.name)

    def _inputs(self, node: str, task: TaskLike, call: Mapping[str, Any]) -> dict[str, Any]:
        """Where the arguments of a call come from, and what it waits for besides."""
        args = call.get("args", ())
        if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
            raise DefinitionError("must be a list or a tuple", node=node, attribute="args")
        by_position: Mapping[str, Any] = {}
        if args:
            by_position = bound_by_position(args, function=self._callable(task, node=node), node=node)
        kwargs = call.get("kwargs")
        given = {"args": by_position, "kwargs": {} if kwargs is None else kwargs}
        arguments = sorted_arguments(given, workflow=self._workflow, node=node)
        deps = call.get("deps", ())
        after = self._names(node, call.get("after", ()), "after")
        taken: dict[str, str] = {}
        if isinstance(deps, Mapping):
            taken = {parameter: self._name(node, value, "deps") for parameter, value in deps.items()}
        else:
            after = (*self._names(node, deps, "deps"), *after)
        twice = sorted(
            taken.keys() & (arguments.deps.keys() | arguments.params.keys() | arguments.kwargs.keys())
        )
        if twice:
            raise DefinitionError(f"parameter {twice[0]!r} is given twice", node=node, attribute="deps")
        return {
            "deps": {**taken, **arguments.deps},
            "after": after,
            "params": arguments.params,
            "kwargs": arguments.kwargs,
        }

    def _callable(self, task: TaskLike, *, node: str) -> Callable[..., Any]:
        if not isinstance(task, str):
            return task
        try:
            return resolve(task, what="task")
        except ConfigurationError as error:
            raise DefinitionError(
                f"{error}; or give the arguments by name", node=node, attribute="args"
            ) from error

    def _path(self, task: TaskLike, *, node: str, attribute: str) -> str:
        return task if isinstance(task, str) else task_path(task, node=node, attribute=attribute)

    def _names(self, node: str, values: Any, attribute: str) -> tuple[str, ...]:
        if isinstance(values, (str, NodeRef, Placeholder)) or not isinstance(values, Sequence):
            raise DefinitionError(
                "must be a list of nodes"
                + (", or map parameters to nodes, as {'rows': extract}" if attribute == "deps" else ""),
                node=node,
                attribute=attribute,
            )
        return tuple(self._name(node, value, attribute) for value in values)

    def _name(self, node: str, value: Any, attribute: str) -> str:
        return node_name(value, workflow=self._workflow, node=node, attribute=attribute)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors from inside name the workflow."""
        try:
            yield
        except DefinitionError as error:
            raise (error if error.source else error.within(self._workflow)) from error.__cause__


def _resolved(*marks: StepMark) -> dict[str, Any]:
    """Each option from the first who says something of it (row W8); what nobody speaks of is left out."""
    options: dict[str, Any] = {}
    for option in sorted(_OPTIONS):
        said = [getattr(mark, option) for mark in marks if getattr(mark, option) is not None]
        if said:
            options[option] = said[0]
    return options
