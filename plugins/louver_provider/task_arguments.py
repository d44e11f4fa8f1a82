"""
Airflow's own arguments for a Louver Dag and its single tasks: ``pool``, ``outlets``, ``executor_config``,
callbacks and what else an operator takes.

What Louver decides itself is refused, with the place where it is said instead: given twice, one of the two
would be silently ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.retry_policy import RetryPolicy

from louver.closing import COMPENSATE, OUTCOME
from louver.definition import Definition
from louver.errors import DefinitionError

__all__ = [
    "OF_PLAIN_DAGS",
    "TaskArguments",
    "checked_task_arguments",
    "refuse_changed",
    "refuse_decided",
    "refuse_of_dag",
]

TaskArguments = Mapping[str, Mapping[str, Any]]
"""Node name to arguments of its operator."""

_RETRY = "how often and when a step is tried again, its retry says"
_OWN = "Louver makes the task itself"

_DECIDED = {
    "retries": _RETRY,
    "retry_delay": _RETRY,
    "retry_policy": _RETRY,
    "retry_exponential_backoff": _RETRY,
    "max_retry_delay": _RETRY,
    "trigger_rule": "when a step runs, its join says",
    "execution_timeout": "it would start anew at each resume; the step's timeouts do not",
    "do_xcom_push": "Louver's XCom backend shows the results; to keep values out of XCom set "
    "[louver] xcom_inline_bytes = 0",
    "multiple_outputs": "what stands behind a step takes parts of its result from the ledger",
    "task_group": "Louver puts its tasks into no group: most would be part of the task's name, the node's",
    "task_id": "it is the node's name",
    "dag": _OWN,
    "workflow": _OWN,
    "node": _OWN,
    "intake": _OWN,
    "item": _OWN,
}
OF_PLAIN_DAGS = ("task_id", "dag", "task_group", "trigger_rule", "multiple_outputs")
"""What a plain Dag says itself of its ``@task.step``, and Louver of the tasks that it makes."""

_DECIDED_OF_STEPS = {
    "queue": "it is part of the definition; give the step a queue",
    "priority_weight": "it is part of the definition; give the step a priority",
}
_DECIDED_OF_DAGS = {
    "dagrun_timeout": "it counts the time that people take and skips the closing tasks",
    "fail_fast": "it skips the closing tasks",
}
_CLOSING = {
    OUTCOME: {"doc_json": "the run's definition is kept there"},
    COMPENSATE: dict[str, str](),
}


def checked_task_arguments(definition: Definition, given: TaskArguments | None) -> dict[str, dict[str, Any]]:
    """
    The arguments by task, those of the closing tasks too.

    :param given: node name, or ``compensate`` or ``outcome``, to arguments of Airflow's ``BaseOperator``.
    :raises DefinitionError: naming the task and the argument: no such node, no such argument, one that Louver
        decides.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DefinitionError(
            "must map nodes to arguments, as {'extract': {'pool': 'warehouse'}}", attribute="task_arguments"
        )
    tasks = (*definition.names, *_CLOSING)
    known = _known()
    for name, arguments in given.items():
        if name not in tasks:
            raise DefinitionError(
                f"{str(name)[:80]!r} is no task of it; there are: {', '.join(tasks)}",
                attribute="task_arguments",
            )
        if not isinstance(arguments, Mapping):
            raise DefinitionError(
                "must be the arguments by name, as {'pool': 'warehouse'}",
                node=name,
                attribute="task_arguments",
            )
        refuse_decided(arguments, node=name, more=_CLOSING.get(name, _DECIDED_OF_STEPS))
        unknown = sorted(str(argument) for argument in set(arguments) - known)
        if unknown:
            raise DefinitionError(
                f"is no argument of Airflow's operators: {', '.join(unknown)}",
                node=name,
                attribute="task_arguments",
            )
    return {name: dict(arguments) for name, arguments in given.items()}


def refuse_decided(arguments: Collection[str], *, node: str, more: Mapping[str, str] | None = None) -> None:
    """
    Hold arguments to what is not Louver's to say.

    :param more: what else is decided, to the reason.
    :raises DefinitionError: where one of the arguments is for Louver to decide; it says where that is done.
    """
    for argument, why in {**_DECIDED, **(more or {})}.items():
        if argument in arguments:
            raise DefinitionError(f"{argument} cannot be given: {why}", node=node, attribute="task_arguments")


def refuse_changed(given: Mapping[str, Any], decided: Mapping[str, Any], *, node: str) -> None:
    """
    Hold a step of a plain Dag to what its decorator has put there; an ``override`` may have said otherwise.

    :param given: arguments of its operator.
    :param decided: what they are to be.
    :raises DefinitionError: where one is another; it says where that is decided.
    """
    changed = [name for name, value in decided.items() if not _is_as(given.get(name, value), value)]
    refuse_decided([name for name in changed if name not in OF_PLAIN_DAGS], node=node)


def _is_as(given: Any, decided: Any) -> bool:
    # A retry policy has nothing in it to compare.
    alike = isinstance(decided, RetryPolicy) and type(given) is type(decided)
    return alike or bool(given == decided)


def refuse_of_dag(arguments: Mapping[str, Any]) -> None:
    """:raises DefinitionError: where a Dag is to do what would keep its closing tasks from running."""
    for name, why in _DECIDED_OF_DAGS.items():
        if arguments.get(name):
            raise DefinitionError(f"a Louver Dag takes no {name}: {why}", attribute=name)


def _known() -> frozenset[str]:
    parameters = inspect.signature(BaseOperator).parameters.values()
    return frozenset(
        parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    )
