"""Closing a plain Dag that has steps: the two tasks that every Dag of a workflow ends with."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG
from airflow.sdk.definitions._internal.contextmanager import DagContext

from louver.binding import Workflow
from louver.closing import COMPENSATE, OUTCOME
from louver.errors import DefinitionError
from louver_provider.operators.closing import CompensateOperator, OutcomeOperator
from louver_provider.plain_dags import ON_CHANGE, definition_of_dag, steps_of
from louver_provider.task_arguments import refuse_of_dag

__all__ = ["close"]


def close(dag: DAG | None = None, *, on_change: str = ON_CHANGE) -> Any:
    """
    Let the Dag undo its effects, and tell the truth, by tasks of its own; call it behind all steps.

    It adds ``compensate`` and ``outcome``, teardowns behind every ``@task.step``. Without them the reconciler
    settles the run once it is over, and has ``louver_compensate`` undo it; Airflow's colour is then as in any
    other Dag.

    :param dag: by default the one that is being made.
    :param on_change: what becomes of runs that began before the steps were changed: ``accept_compatible``,
        ``fail`` or ``finish_old`` (:mod:`louver.versions`).
    :returns: ``outcome``, to put tasks behind it.
    :raises DefinitionError: naming the Dag and the task; also where there is no step to close.
    """
    dag = dag or DagContext.get_current()
    if dag is None:
        raise DefinitionError("close() closes a Dag: call it within one, or give it: close(dag)")
    try:
        refuse_of_dag({"dagrun_timeout": dag.dagrun_timeout, "fail_fast": dag.fail_fast})
    except DefinitionError as error:
        raise error.within(dag.dag_id) from None
    for name in (COMPENSATE, OUTCOME):
        if dag.has_task(name):
            raise DefinitionError(
                "is there already: a Dag is closed once, and the name is taken for that",
                source=dag.dag_id,
                node=name,
            )
    workflow = Workflow(definition=definition_of_dag(dag, on_change=on_change), functions={})
    # Of the Dag itself, wherever close() was called.
    place = {"dag": dag, "task_group": dag.task_group}
    compensate = CompensateOperator(workflow=workflow, **place)
    outcome = OutcomeOperator(workflow=workflow, **place)
    for closing in (compensate, outcome):
        closing.as_teardown(on_failure_fail_dagrun=True)
    compensate.set_upstream(list(steps_of(dag).values()))
    outcome.set_upstream(compensate)
    return outcome
