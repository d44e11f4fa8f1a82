"""
What a plain Airflow Dag is to the ledger: the definition of its ``@task.step`` tasks.

All of them have to agree on it, so it is made of the Dag alone, by every process in the same way: a node for
each such task, behind the nearest ones above it, whatever plain tasks lie between. Arguments are Airflow's;
the definition names the parameters, and no values.

It changes with the names of the steps, their functions' places and parameters, their order, retries,
timeouts, resources, queues and undos; not with plain tasks, schedules, pools, or the code inside of a
function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS
from airflow.sdk.definitions.mappedoperator import MappedOperator

from louver.binding import Workflow
from louver.closing import OUTCOME
from louver.definition import Definition, Step
from louver.errors import DefinitionError
from louver.marks import StepMark
from louver.policies import RetryPolicy
from louver.task_paths import module_name
from louver.timeouts import Timeouts
from louver_provider.operators.base import decided_arguments
from louver_provider.task_arguments import refuse_changed

__all__ = ["ON_CHANGE", "VERSION", "definition_of_dag", "step_form", "steps_of", "workflow_of"]

VERSION = "dag"
"""A plain Dag has no version of its author's; its definitions differ by fingerprint."""

ON_CHANGE = "accept_compatible"

_JOINS = {
    "all_success": "all_succeeded",
    "all_done": "all_settled",
    "always": "all_settled",
    "all_done_min_one_success": "any_succeeded",
    "none_failed": "any_succeeded",
    "none_failed_min_one_success": "any_succeeded",
}
"""Airflow's trigger rule, which decides; the join says the same where it can, to tell a skip from an end."""


def workflow_of(dag: Any) -> Workflow:
    """
    The Dag's definition; where it was closed, as it was then.

    :param dag: Airflow's, with all its tasks.
    :raises DefinitionError: naming the Dag and the task.
    """
    closing = dag.get_task(OUTCOME) if dag.has_task(OUTCOME) else None
    known = getattr(closing, "workflow", None)
    if isinstance(known, Workflow):
        return known
    return Workflow(definition=definition_of_dag(dag), functions={})


def definition_of_dag(dag: Any, *, on_change: str = ON_CHANGE) -> Definition:
    """
    :param on_change: what becomes of runs that began under another definition.
    :raises DefinitionError: naming the Dag and the task; also where there is no step.
    """
    try:
        tasks = steps_of(dag)
        nodes = tuple(step_form(task, after=_steps_above(task, dag, tasks)) for task in tasks.values())
        return Definition(
            name=dag.dag_id,
            version=VERSION,
            nodes=nodes,
            params=[param for node in nodes for param in node.params.values()],
            on_change=on_change,
        )
    except DefinitionError as error:
        raise (error if error.source else error.within(dag.dag_id)) from error.__cause__


def steps_of(dag: Any) -> dict[str, Any]:
    """The ``@task.step`` tasks of a Dag, mapped ones too, as they stand in its file."""
    return {name: task for name, task in dag.task_dict.items() if _options(task) is not None}


def step_form(task: Any, *, after: tuple[str, ...] = ()) -> Step:
    """
    A task as a node.

    :param task: an operator of ``@task.step``, or a mapped one.
    :raises DefinitionError: naming the task and what is wrong with it.
    """
    name, options = task.task_id, _options(task) or StepMark()
    retry = options.retry or RetryPolicy()
    if isinstance(task, MappedOperator):
        # Of others their operator sees to it.
        refuse_changed(task.partial_kwargs, decided_arguments(retry), node=name)
    function = _attribute(task, "python_callable")
    rule = str(getattr(task.trigger_rule, "value", task.trigger_rule))
    if rule not in _JOINS or task.is_teardown or task.is_setup:
        kind = "a setup or teardown" if task.is_teardown or task.is_setup else f"trigger_rule {rule!r}"
        raise DefinitionError(
            f"{kind} is for plain tasks; a step takes {', '.join(_JOINS)}",
            node=name,
            attribute="trigger_rule",
        )
    given = {
        "retry": retry,
        "timeouts": options.timeouts or Timeouts(),
        "queue": options.queue,
        "priority": 1 if options.priority is None else options.priority,
        "on_failure": options.on_failure or "fail",
        "resources": options.resources or {},
        "compensate": options.compensate,
        "on_unknown": options.on_unknown or "manual",
    }
    return Step(
        name=name,
        task=_path(function),
        after=after,
        params={parameter: f"{name}.{parameter}" for parameter in _parameters(function)},
        join=_JOINS[rule],
        expanded=_is_expanded(task),
        **given,
    )


def _options(task: Any) -> StepMark | None:
    found = _attribute(task, "step")
    return found if isinstance(found, StepMark) else None


def _attribute(task: Any, name: str) -> Any:
    """Of an operator; of a mapped one, what all its tasks have."""
    if isinstance(task, MappedOperator) and name in task.partial_kwargs:
        return task.partial_kwargs[name]
    return getattr(task, name, None)


def _is_expanded(task: Any) -> bool:
    return isinstance(task, MappedOperator) or task.get_closest_mapped_task_group() is not None


def _parameters(function: Callable[..., Any]) -> Iterator[str]:
    kinds = inspect.Parameter
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (kinds.VAR_POSITIONAL, kinds.POSITIONAL_ONLY):
            raise DefinitionError(
                f"{function.__qualname__} takes {name!r} by position alone; a step's arguments have names",
                attribute="task",
            )
        if parameter.kind is not kinds.VAR_KEYWORD and name != "ctx" and name not in KNOWN_CONTEXT_KEYS:
            yield name


def _path(function: Callable[..., Any]) -> str:
    """Where the function stands; it may be within the function that makes the Dag, so nothing imports it."""
    place = function.__qualname__.replace("<locals>.", "").replace("<lambda>", "lambda_")
    return f"{module_name(function.__module__)}:{re.sub(r'[^0-9A-Za-z_.]', '_', place)}"


def _steps_above(task: Any, dag: Any, steps: dict[str, Any]) -> tuple[str, ...]:
    """The nearest steps above it, in the order of the Dag."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = list(task.upstream_task_ids)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in steps:
            found.add(name)
        else:
            waiting.extend(dag.get_task(name).upstream_task_ids)
    return tuple(name for name in steps if name in found)
