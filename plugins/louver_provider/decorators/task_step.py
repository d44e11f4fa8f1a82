"""
``@task.step``: one task of a plain Airflow Dag with the life of a Louver step::

    @dag(schedule=None)
    def billing():
        @task.step(retry=RetryPolicy(max_attempts=3), resources={"payments-api": 1})
        def charge(order, ctx=None):
            return ctx.effect("charge", intent=order, perform=pay, compensate=refund)

        charge(load())
        close()

Fencing, transitions, effects, checkpoints, pause, resume and stop, timeouts, retries and resources are those
of every step; arguments come from Airflow, as for ``@task``, mapped ones too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from airflow.sdk.bases.decorator import task_decorator_factory

from louver.errors import DefinitionError
from louver.marks import StepMark, mark_of
from louver.node_checks import ON_FAILURE, check_choice
from louver.plain_functions import why_not_plain
from louver.policies import RetryPolicy
from louver.resources import resources_in
from louver.task_paths import undo_path
from louver_provider.operators.base import decided_arguments
from louver_provider.operators.step_task import StepTaskOperator
from louver_provider.task_arguments import OF_PLAIN_DAGS, refuse_decided

__all__ = ["step_task"]

_OPTIONS = tuple(entry.name for entry in fields(StepMark))

_NOT_HERE = {
    "approval": "a request is a node of its own, which a plain Dag does not have; write the workflow with "
    "@workflow and wf.approve",
    "join": "in a plain Dag Airflow's trigger_rule says when a task runs",
    "deps": "in a plain Dag arguments come from Airflow: call the task with what others returned",
    "priority_weight": "give it as priority",
}


def step_task(
    python_callable: Callable[..., Any] | None = None, *, multiple_outputs: bool = False, **arguments: Any
) -> Any:
    """
    Make a task of a function, as ``@task`` does.

    :param python_callable: the function, where it is written without parentheses. It may take ``ctx``, which
        Louver gives.
    :param multiple_outputs: whether the members of a dictionary become XComs of their own besides; not
        guessed from the annotation, since they stand there in full.
    :param arguments: those of :func:`louver.step` (``retry``, ``timeouts``, ``resources``, ``compensate``,
        ``on_unknown``, ``on_failure``, ``queue``, ``priority``, ``tags``), which win over the function's
        mark; and those of Airflow's operators, as ``pool`` and ``trigger_rule``.
    :raises DefinitionError: naming the task, for what Louver decides, and what a plain Dag does not have.
    """
    if python_callable is not None:
        return _decorated(python_callable, multiple_outputs, arguments)
    return lambda function: _decorated(function, multiple_outputs, arguments)


def _decorated(function: Any, multiple_outputs: bool, arguments: Mapping[str, Any]) -> Any:
    if not inspect.isfunction(function):
        raise DefinitionError("@task.step decorates a function; write its arguments by name")
    name = str(arguments.get("task_id", function.__name__))
    refuse_decided([one for one in arguments if one not in OF_PLAIN_DAGS], node=name)
    for option, why in _NOT_HERE.items():
        if option in arguments:
            raise DefinitionError(f"{option} cannot be given: {why}", node=name)
    if (why := why_not_plain(function)) is not None:
        raise DefinitionError(f"{function.__name__} {why}", node=name, attribute="task")
    own = StepMark(**{key: value for key, value in arguments.items() if key in _OPTIONS})
    mark = _resolved(own, mark_of(function), node=name)
    settings = {key: value for key, value in arguments.items() if key not in _OPTIONS}
    # Of a mapped task the scheduler knows no more than what is said here.
    decided = decided_arguments(mark.retry or RetryPolicy())
    settings |= {**decided, "multiple_outputs": multiple_outputs}
    if mark.queue is not None:
        settings["queue"] = mark.queue
    if mark.priority is not None:
        settings["priority_weight"] = mark.priority
    return task_decorator_factory(
        without_ctx(function),
        decorated_operator_class=StepTaskOperator,
        step=mark,
        **settings,
    )


def _resolved(own: StepMark, mark: StepMark, *, node: str) -> StepMark:
    """The step's own word before the function's (row W8), checked, with the undo as its path."""
    said: dict[str, Any] = {}
    for option in _OPTIONS:
        first = getattr(own, option)
        said[option] = first if first not in (None, ()) else getattr(mark, option)
    if said["compensate"] is not None:
        said["compensate"] = undo_path(said["compensate"], node=node)
    if said["resources"] is not None:
        said["resources"] = dict(resources_in(said["resources"], node=node))
    if said["on_failure"] is not None:
        check_choice(said["on_failure"], ON_FAILURE, node=node, attribute="on_failure")
    return StepMark(**said)


def without_ctx(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    The function as Airflow is to see it: ``ctx`` is no argument that a Dag file gives.

    Called itself, as a unit test does, it is the function.
    """
    signature = inspect.signature(function)
    if "ctx" not in signature.parameters:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    shown: Sequence[inspect.Parameter] = [one for name, one in signature.parameters.items() if name != "ctx"]
    called.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return called
