"""
``@workflow`` in a Dag file: the same decorator as :func:`louver.builder.workflow`; calling what it makes
gives the Dag, as Airflow's own ``@dag`` does::

    # airflow Dag
    from louver_provider.decorators import workflow

    @workflow(version="1.0.0", schedule="@daily")
    def etl(wf, source: str = "sales"):
        rows = wf.step("extract", extract, args=[source])
        return wf.step("load", load, deps={"rows": rows})

    etl()

The function's parameters are the Dag's params. What breaks a rule raises while the file is parsed, so Airflow
shows it as an import error of that file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import DAG, Param

from louver.builder import WorkflowTemplate
from louver.cloudevents import EventProfile
from louver.errors import ConfigurationError, DefinitionError
from louver.marks import StepMark
from louver.policies import CompensationPolicy, RetryPolicy
from louver.timeouts import Timeouts
from louver_provider.buckets.declared import tag_of
from louver_provider.dag_builder import build_dag
from louver_provider.decorators.params import declared_params
from louver_provider.run_times import RUN_TIMES
from louver_provider.task_arguments import TaskArguments

__all__ = ["DagTemplate", "workflow"]

_NAMED_OTHERWISE = {"dag_id": "it is the workflow's name; give name="}


class DagTemplate(WorkflowTemplate):
    """
    A workflow function in a Dag file.

    :param function: takes the builder, then the run's parameters.
    :param task_arguments: Airflow's own arguments by node.
    :param profile: checks events, where the workflow has an ``event_type`` of its own kind.
    :param bucket_key: where a run's ``conf`` has the key that its bucket is picked by.
    :param dag_arguments: for Airflow's Dag.
    :param options: as for :class:`~louver.builder.WorkflowTemplate`.
    :raises DefinitionError: naming the workflow.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        task_arguments: TaskArguments | None,
        profile: EventProfile | None,
        bucket_key: str | None,
        dag_arguments: Mapping[str, Any],
        **options: Any,
    ) -> None:
        super().__init__(function, **options)
        self._task_arguments = task_arguments
        self._profile = profile
        self._bucket_key = bucket_key
        self._dag_arguments = dict(dag_arguments)

    def __call__(self, **values: Any) -> DAG:
        """
        The Dag.

        :param values: other defaults for the run's parameters than the function has.
        :raises DefinitionError: naming workflow, node and attribute; also for a default that its own schema
            refuses.
        """
        try:
            arguments = self._arguments(values)
        except DefinitionError as error:
            raise (error if error.source else error.within(self.name)) from error.__cause__
        return build_dag(
            self.definition(),
            tasks=self.tasks,
            profile=self._profile,
            task_arguments=self._task_arguments,
            **arguments,
        )

    def _arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        arguments = dict(self._dag_arguments)
        for name, why in _NAMED_OTHERWISE.items():
            if name in arguments:
                raise DefinitionError(f"cannot be given: {why}", attribute=name)
        unknown = sorted(set(arguments) - _dag_parameters())
        if unknown:
            raise DefinitionError(
                f"is no argument of a workflow or of Airflow's Dag: {', '.join(unknown)}",
                attribute=unknown[0],
            )
        definition = self.definition()
        arguments["params"] = declared_params(
            self.function,
            # An event is no field of a form: its own are the author's to declare. Nor are the run's times.
            names=()
            if definition.event_type
            else [name for name in definition.params if name not in RUN_TIMES],
            given=arguments.get("params"),
            values=values,
        )
        if arguments.get("schedule") is not None:
            _check_defaults(arguments["params"])
        if self._bucket_key is not None:
            try:
                tag = tag_of(self._bucket_key)
            except ConfigurationError as error:
                raise DefinitionError(str(error), attribute="bucket_key") from error
            arguments["tags"] = [*(arguments.get("tags") or ("louver",)), tag]
        if self.__doc__ and "doc_md" not in arguments:
            arguments["doc_md"] = inspect.cleandoc(self.__doc__)
        return arguments


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
    profile: EventProfile | None = None,
    task_arguments: TaskArguments | None = None,
    bucket_key: str | None = None,
    **dag_arguments: Any,
) -> Callable[[Callable[..., Any]], DagTemplate]:
    """
    Make a Dag of a function that declares a workflow.

    The arguments up to ``event_type`` are those of :func:`louver.builder.workflow`.

    :param profile: checks events, where ``event_type`` is one of your own.
    :param task_arguments: Airflow's own arguments by node: ``{"load": {"outlets": [Asset("rows")]}}``.
    :param bucket_key: where a run's ``conf`` has the key that its bucket is picked by, as ``customer.id``;
        kept as a tag of the Dag. ``[louver] bucket_key_by_dag`` wins over it.
    :param dag_arguments: of Airflow's Dag: ``schedule``, ``params``, ``tags``, ``start_date``, ``catchup``,
        ``default_args``, ``doc_md``, ``max_active_runs``, callbacks, ...
    :raises DefinitionError: where the function cannot declare a workflow.
    """

    def templated(function: Callable[..., Any]) -> DagTemplate:
        return DagTemplate(
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
            task_arguments=task_arguments,
            profile=profile,
            bucket_key=bucket_key,
            dag_arguments=dag_arguments,
        )

    return templated


def _check_defaults(params: Mapping[str, Any]) -> None:
    unset = type(Param().value)
    lacking = sorted(
        name for name, param in params.items() if isinstance(param, Param) and isinstance(param.value, unset)
    )
    if lacking:
        raise DefinitionError(
            "a scheduled run is given no values, so give it a default, in the function or in params=",
            attribute=f"params.{lacking[0]}",
        )


def _dag_parameters() -> frozenset[str]:
    return frozenset(inspect.signature(DAG).parameters)
