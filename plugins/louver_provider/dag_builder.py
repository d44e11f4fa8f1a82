"""
From a definition to a real Airflow Dag: a task per node, and two teardowns that close the run.

A Dag file stays thin; as in every Dag file, the words ``airflow`` and ``dag`` have to stand in it, or
Airflow's safe mode passes it over::

    # airflow Dag
    from louver_provider.dag_builder import dag_from_file

    dag = dag_from_file(Path(__file__).with_name("order.json"))

A definition that breaks a rule raises while the file is parsed, so Airflow shows it as an import error of
that Dag alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from louver.binding import bind
from louver.closing import COMPENSATE, OUTCOME
from louver.cloudevents import EventProfile
from louver.definition import ApprovalNode, Definition, Node
from louver.errors import DefinitionError
from louver.intake import Intake, profile_for
from louver.sightings import in_order
from louver_provider.operators.closing import CompensateOperator, OutcomeOperator
from louver_provider.operators.step import ApprovalStepOperator, StepOperator, node_arguments
from louver_provider.run_times import RUN_TIMES
from louver_provider.task_arguments import TaskArguments, checked_task_arguments, refuse_of_dag

__all__ = ["build_dag", "dag_from_file"]


def build_dag(
    definition: Definition,
    *,
    tasks: Mapping[str, Callable[..., Any]] | None = None,
    profile: EventProfile | None = None,
    task_arguments: TaskArguments | None = None,
    **dag_arguments: Any,
) -> DAG:
    """
    The Dag of a workflow; its ``dag_id`` is the definition's name.

    :param definition: the workflow.
    :param tasks: functions by ``package.module:function`` or node name; what is missing is imported.
    :param profile: checks events, where the definition has an ``event_type`` of its own kind.
    :param task_arguments: Airflow's own arguments by node, or by closing task: ``{"extract": {"pool": "db",
        "outlets": [Asset("rows")]}}``; those that Louver decides are refused.
    :param dag_arguments: handed on to :class:`~airflow.sdk.DAG`: ``schedule``, ``params``, ``tags``, ...
    :raises DefinitionError: naming the Dag and the node.
    """
    try:
        return _build(
            definition,
            tasks=tasks,
            profile=profile,
            task_arguments=task_arguments,
            dag_arguments=dag_arguments,
        )
    except DefinitionError as error:
        raise (error if error.source else error.within(definition.name)) from None


def _build(
    definition: Definition,
    *,
    tasks: Mapping[str, Callable[..., Any]] | None,
    profile: EventProfile | None,
    task_arguments: TaskArguments | None,
    dag_arguments: Mapping[str, Any],
) -> DAG:
    refuse_of_dag(dag_arguments)
    workflow = bind(definition, tasks)
    more = checked_task_arguments(definition, task_arguments)
    intake = None
    if definition.event_type is not None:
        intake = Intake(dag_id=definition.name, profile=_profile(definition.event_type, profile))
    else:
        _check_params(definition, dag_arguments.get("params") or {})
    settings = {"schedule": None, "catchup": False, "tags": ["louver"], **dag_arguments}
    with DAG(dag_id=definition.name, **settings) as dag:
        operators: dict[str, Any] = {}
        for node in in_order(definition):
            takes_event = intake if node.name == definition.root else None
            shared = {"workflow": workflow, "intake": takes_event, **more.get(node.name, {})}
            operators[node.name] = _operator(node, operators, **shared)
            operators[node.name].set_upstream([operators[name] for name in node.upstream])
        compensate = CompensateOperator(workflow=workflow, **more.get(COMPENSATE, {}))
        outcome = OutcomeOperator(workflow=workflow, **more.get(OUTCOME, {}))
        for closing in (compensate, outcome):
            closing.as_teardown(on_failure_fail_dagrun=True)
        compensate.set_upstream(list(operators.values()))
        outcome.set_upstream(compensate)
    return dag


def _operator(node: Node, upstream: Mapping[str, Any], **shared: Any) -> Any:
    if isinstance(node, ApprovalNode):
        return ApprovalStepOperator(node=node.name, **shared)
    if not node.mapped:
        return StepOperator(node=node.name, **shared)
    (source,) = node.over.values()
    partial = StepOperator.partial(task_id=node.name, node=node.name, **node_arguments(node), **shared)
    return partial.expand(item=upstream[source].output)


def _profile(event_type: str, given: EventProfile | None) -> EventProfile:
    profile = given or profile_for(event_type)
    if profile.event_type != event_type:
        raise DefinitionError(
            f"is {event_type!r}, but the profile checks {profile.event_type!r}", attribute="event_type"
        )
    return profile


def _check_params(definition: Definition, params: Mapping[str, Any]) -> None:
    lacking = sorted(set(definition.params) - set(params) - set(RUN_TIMES))
    if lacking:
        raise DefinitionError(
            f"the Dag declares no param {', '.join(map(repr, lacking))}; give params= with a Param for each",
            attribute="params",
        )


def dag_from_file(path: Path, **arguments: Any) -> DAG:
    """
    The Dag of the definition in a JSON file.

    :param path: the file; errors name it.
    :param arguments: as :func:`build_dag`.
    :raises DefinitionError: where it cannot be read, or breaks a rule.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", source=path.name) from error
    return build_dag(Definition.from_json(raw, source=path.name), **arguments)
