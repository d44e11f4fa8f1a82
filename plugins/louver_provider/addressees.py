"""
Whom a command to a step is for: the step, or of a mapped one its indexes.

Also those that no process has opened yet. How many there are is known from what the step is mapped over, and
from Airflow's own rows: it has made one for each index as soon as it has expanded the step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from louver.errors import LedgerError
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Node

__all__ = ["addressees", "expanded_indexes"]


def addressees(
    step: TaskKey, node: Node, *, indexes: Iterable[int], map_index: int | None = None
) -> list[TaskKey]:
    """
    The tasks of a step that a command is for.

    :param step: its key, without a map index.
    :param indexes: of a mapped step, all that are known.
    :param map_index: the one that is meant; None for all of them.
    :returns: of a mapped step without indexes the step as a whole: each index meets the command as it begins.
    :raises LedgerError: where it has no such index.
    """
    if not node.mapped:
        if map_index not in (None, -1):
            raise LedgerError(
                f"step {step.task_id!r} of run {step.run_id} is not mapped and has no index {map_index}; "
                "leave the index out"
            )
        return [step]
    known = sorted(set(indexes))
    if map_index is None:
        return [replace(step, map_index=index) for index in known] or [step]
    if map_index not in known:
        has = f"has the indexes {known[0]} to {known[-1]}" if known else "is not expanded yet"
        raise LedgerError(
            f"step {step.task_id!r} of run {step.run_id} has no index {map_index}: it {has}; leave the index "
            "out to mean all of them"
        )
    return [replace(step, map_index=map_index)]


def expanded_indexes(run: RunKey, steps: Collection[str]) -> Mapping[str, list[int]]:
    """
    The indexes that Airflow has expanded these steps into; a step that it has not expanded is left out.

    :raises sqlalchemy.exc.DBAPIError: where Airflow's database cannot be reached.
    """
    found: dict[str, list[int]] = {}
    if not steps:
        return found
    rows = select(TaskInstance.task_id, TaskInstance.map_index).where(
        TaskInstance.dag_id == run.dag_id,
        TaskInstance.run_id == run.run_id,
        TaskInstance.task_id.in_(steps),
        TaskInstance.map_index >= 0,
        # Of a list that has become shorter; a state that is not set yet is no such one.
        TaskInstance.state.is_distinct_from(TaskInstanceState.REMOVED.value),
    )
    with create_session(scoped=False) as session:
        for task_id, map_index in session.execute(rows):
            found.setdefault(task_id, []).append(map_index)
    return found
