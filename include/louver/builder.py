"""
Workflows declared in code (row W1)::

    @workflow(version="1.0.0")
    def etl(wf, source):
        rows = wf.step("extract", extract, args=[source])
        parts = wf.map("clean", clean, over=rows, param="row")
        return wf.step("load", load, deps={"rows": parts})

``etl.definition()`` is the same :class:`~louver.definition.Definition` that JSON gives; ``etl.tasks`` are its
functions. The function runs once for it, with placeholders for the run's parameters. Embedded,
``etl.build(source="a.csv")`` runs it with the real values of one submission.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from louver.arguments import node_name
from louver.canonical import canonical_bytes
from louver.definition import Definition
from louver.errors import ConfigurationError, DefinitionError, ValueRefused
from louver.graph_builder import GraphBuilder
from louver.marks import StepMark
from louver.placeholders import NodeRef, Placeholder
from louver.policies import CompensationPolicy, RetryPolicy
from louver.timeouts import Timeouts

__all__ = ["BuiltWorkflow", "GraphBuilder", "NodeRef", "Placeholder", "WorkflowTemplate", "workflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorkflow:
    """
    A definition with the functions that its author gave.

    :param definition: the workflow.
    :param tasks: node name to function, for :func:`louver.engine.run_inline` or :func:`louver.binding.bind`;
        a node whose task was given as a path is not in it.
    :param tags: node name to the tags of its function's mark, where it has some.
    """

    definition: Definition
    tasks: Mapping[str, Callable[..., Any]]
    tags: Mapping[str, tuple[str, ...]]


def workflow(
    *,
    name: str | None = None,
    version: str = "1.0.0",
    retry: RetryPolicy | None = None,
    timeouts: Timeouts | None = None,
    queue: str | None = None,
    priority: int | None = None,
    resources: Mapping[str, int] | None = None,
    aggregation: str = "skip_downstream",
    on_change: str = "fail",
    compensation: CompensationPolicy | None = None,
    event_type: str | None = None,
) -> Callable[[Callable[..., Any]], WorkflowTemplate]:
    """
    Make a workflow of a function that declares it.

    :param name: the workflow's, and the Dag's; by default the function's name.
    :param version: the author's version.
    :param retry: for all its steps, as the following; a step and its function's mark come first (row W8).
    :param timeouts: how long a step may take.
    :param queue: Airflow's queue.
    :param priority: Airflow's priority weight.
    :param resources: what a step shares with others, by name, to units.
    :param aggregation: ``skip_downstream`` or ``fail_fast``.
    :param on_change: ``fail``, ``finish_old`` or ``accept_compatible``.
    :param compensation: how a run without success is compensated; by default the rest goes on where an undo
        failed.
    :param event_type: the CloudEvents type that starts a run.
    :raises DefinitionError: where the function cannot declare a workflow.
    """

    def templated(function: Callable[..., Any]) -> WorkflowTemplate:
        return WorkflowTemplate(
            function,
            name=str(getattr(function, "__name__", "workflow")) if name is None else name,
            version=version,
            defaults=StepMark(
                retry=retry, timeouts=timeouts, queue=queue, priority=priority, resources=resources
            ),
            aggregation=aggregation,
            on_change=on_change,
            compensation=compensation,
            event_type=event_type,
        )

    return templated


class WorkflowTemplate:
    """
    A workflow function, and what can be made of it.

    :param function: takes the builder, then the run's parameters.
    :param name: the workflow's.
    :param version: the author's version.
    :param defaults: what it says for all its steps.
    :param aggregation: as for :class:`~louver.definition.Definition`, like the following.
    :raises DefinitionError: naming the workflow, where the function takes no builder, or parameters that no
        run could give, or has a default that is no typed value.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        version: str,
        defaults: StepMark,
        aggregation: str = "skip_downstream",
        on_change: str = "fail",
        compensation: CompensationPolicy | None = None,
        event_type: str | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self._step_defaults = defaults
        self._aggregation = aggregation
        self._on_change = on_change
        self._compensation = CompensationPolicy() if compensation is None else compensation
        self._event_type = event_type
        self._parameters = _run_parameters(function, workflow=name)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} version {self.version!r}>"

    @property
    def params(self) -> tuple[str, ...]:
        """The run's parameters, in order."""
        return tuple(parameter.name for parameter in self._parameters)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Run parameter to its default, where it has one."""
        return MappingProxyType(
            {
                parameter.name: parameter.default
                for parameter in self._parameters
                if parameter.default is not inspect.Parameter.empty
            }
        )

    def definition(self) -> Definition:
        """
        The workflow for any run: its parameters are the run's.

        :raises DefinitionError: naming workflow, node and attribute.
        """
        return self._template.definition

    @property
    def tasks(self) -> Mapping[str, Callable[..., Any]]:
        """Node name to its function, of :meth:`definition`."""
        return self._template.tasks

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """Node name to the tags of its function's mark, of :meth:`definition`."""
        return self._template.tags

    def build(self, **values: Any) -> BuiltWorkflow:
        """
        The workflow of one submission: the function sees the real values, and may decide by them.

        :param values: the run's parameters; what is missing takes its default. They become literal arguments.
        :raises ConfigurationError: for a parameter that is unknown, or missing without a default.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        unknown = sorted(set(values) - set(self.params))
        if unknown:
            raise ConfigurationError(f"workflow {self.name} has no parameter {', '.join(map(repr, unknown))}")
        given = {**self.defaults, **values}
        lacking = [name for name in self.params if name not in given]
        if lacking:
            raise ConfigurationError(f"workflow {self.name} needs {', '.join(map(repr, lacking))}")
        # The event is in the arguments already; nothing is left to take in.
        return self._run({name: given[name] for name in self.params}, params=(), event_type=None)

    @cached_property
    def _template(self) -> BuiltWorkflow:
        values = {name: Placeholder(workflow=self.name, parameter=name) for name in self.params}
        return self._run(values, params=self.params, event_type=self._event_type)

    def _run(
        self, values: Mapping[str, Any], *, params: tuple[str, ...], event_type: str | None
    ) -> BuiltWorkflow:
        wf = GraphBuilder(workflow=self.name, defaults=self._step_defaults)
        try:
            sink = self.function(wf, **values)
            definition = Definition(
                name=self.name,
                version=self.version,
                nodes=wf.nodes,
                params=params,
                sink=None if sink is None else self._sink(sink),
                event_type=event_type,
                aggregation=self._aggregation,
                on_change=self._on_change,
                compensation=self._compensation,
            )
        except DefinitionError as error:
            raise (error if error.source else error.within(self.name)) from error.__cause__
        return BuiltWorkflow(
            definition=definition, tasks=MappingProxyType(wf.tasks), tags=MappingProxyType(wf.tags)
        )

    def _sink(self, value: Any) -> str:
        try:
            return node_name(value, workflow=self.name, node=None, attribute="sink")
        except DefinitionError as error:
            raise DefinitionError(
                f"{error.reason}; the function returns the one node whose result is the run's, or nothing "
                "for the last one",
                attribute="sink",
            ) from None


def _run_parameters(function: Callable[..., Any], *, workflow: str) -> tuple[inspect.Parameter, ...]:
    """What a run has to give: all that the function takes after the builder."""
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            "decorates a function, and takes its arguments by keyword: @workflow(version='1.0.0')",
            source=workflow,
        ) from error
    kinds = inspect.Parameter
    if not parameters or parameters[0].kind not in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
        raise DefinitionError(
            "the function takes the builder first, then the run's parameters, as def etl(wf, source)",
            source=workflow,
        )
    for parameter in parameters[1:]:
        if parameter.kind not in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY):
            raise DefinitionError(
                f"{parameter.name!r} cannot be a parameter of a run; name each of them",
                source=workflow,
                attribute="params",
            )
        if parameter.default is not kinds.empty:
            try:
                canonical_bytes(parameter.default)
            except ValueRefused as error:
                raise DefinitionError(
                    f"the default is no value that a run can have: {error.reason}",
                    source=workflow,
                    attribute=f"params.{parameter.name}",
                ) from error
    return parameters[1:]
