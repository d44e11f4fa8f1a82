"""
Tasks of a Louver Dag that are not Louver's: a ShortCircuit, a branch, a sensor that somebody put beside the
steps.

Airflow skips steps behind them by its own rules. Such a step is ``skipped``: an upstream did not deliver. One
that is skipped and has no such upstream was ended from outside, see :func:`louver.sightings.missed_change`.
So was one behind a task that failed: nothing else in the ledger would tell that the run did not succeed, and
Airflow's colour is that of the closing tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from louver.closing import COMPENSATE, OUTCOME
from louver.definition import Definition

__all__ = ["FAILED", "SKIPS", "behind", "behind_others", "decides", "others_in"]

SKIPS = "skipmixin_key"
"""What a ShortCircuit and a branch leave in XCom (``airflow.sdk.bases.skipmixin``)."""

FAILED = "failed"
"""Airflow's word for a task that failed itself."""


def behind_others(ti: Any, definition: Definition) -> frozenset[str]:
    """
    Steps that foreign tasks keep from running; asked by a task's process.

    :param ti: Airflow's runtime task instance.
    """
    dag = ti.task.dag
    others = others_in(dag.task_dict, definition)
    if not others:
        return frozenset()
    crumbs = list(ti.get_task_breadcrumbs(dag_id=ti.dag_id, run_id=ti.run_id))
    deciding = {
        crumb["task_id"] for crumb in crumbs if decides(crumb["state"], crumb["duration"] is not None)
    }
    failed = {crumb["task_id"] for crumb in crumbs if crumb["state"] == FAILED}
    for name in others:
        if name not in deciding and ti.xcom_pull(task_ids=name, key=SKIPS, map_indexes=-1) is not None:
            deciding.add(name)
    return behind(dag.task_dict, definition, deciding & others, failed=failed & others)


def decides(state: str | None, ran: bool) -> bool:
    """Whether what depends on the task is skipped for it. One skipped without having run decides nothing."""
    return state == "upstream_failed" or (state == "skipped" and ran)


def others_in(tasks: Mapping[str, Any], definition: Definition) -> frozenset[str]:
    """Tasks of the Dag that are no steps and do not close the run."""
    return frozenset(tasks).difference(definition.names, (COMPENSATE, OUTCOME))


def behind(
    tasks: Mapping[str, Any], definition: Definition, deciding: Collection[str], *, failed: Collection[str]
) -> frozenset[str]:
    """
    Steps with one of these tasks somewhere above them.

    :param failed: tasks that are no explanation: what is behind one of them is left out.
    """
    return frozenset(
        name
        for name in definition.names
        if name in tasks and _is_behind(_ancestors(tasks, tasks[name].upstream_task_ids), deciding, failed)
    )


def _is_behind(above: set[str], deciding: Collection[str], failed: Collection[str]) -> bool:
    return above.isdisjoint(failed) and not above.isdisjoint(deciding)


def _ancestors(tasks: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(tasks[name].upstream_task_ids)
    return found
