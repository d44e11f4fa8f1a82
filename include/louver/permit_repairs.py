"""
Pure: which permits nobody will give back, though their leases may still run (semantics sections 7 and 9).

A lease ends by itself; who knows better need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from louver.ledger.names import TaskKey
from louver.ledger.records import PermitRecord, TaskRecord
from louver.semaphores import Stage

__all__ = ["FreePermit", "decide_permits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreePermit:
    """Give a permit back, or a place up, in the name of a task that cannot."""

    permit: PermitRecord
    why: str


def decide_permits(
    permits: Iterable[PermitRecord],
    tasks: Mapping[TaskKey, TaskRecord],
    *,
    proves_dead: Callable[[str], bool],
) -> list[FreePermit]:
    """
    What is to be freed.

    :param tasks: as the ledger has them, read after the permits: whoever took one has opened its task before.
    :param proves_dead: whether it is certain that a process acts no more; asked only about holders.
    """
    found = []
    for permit in permits:
        task = tasks.get(permit.task)
        if task is None:
            found.append(FreePermit(permit=permit, why="its task is not in the ledger any more"))
        elif permit.stage is Stage.HELD:
            if proves_dead(permit.process):
                found.append(FreePermit(permit=permit, why="its process is proven dead"))
        elif task.state.terminal and task.session >= permit.session:
            found.append(FreePermit(permit=permit, why=f"its task is {task.state}"))
    return found
