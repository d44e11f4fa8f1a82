"""The trigger of a task that waits for a resource: it fires when the ledger says that it is its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from louver.ledger.names import TaskKey
from louver_provider.settings import load_settings
from louver_provider.triggers.poller import get_poller

__all__ = ["PermitTrigger"]


class PermitTrigger(BaseTrigger):
    """
    Waits until a task has something to do: its turn has come, or somebody wants it stopped or paused.

    What it does not do: decide anything, or keep anything. Whose turn it is stands in the ledger, and the
    task asks there itself when it is back. Fired too often it costs a start of the task, and nothing else.

    :param dag_id: of the task, as the other names.
    """

    def __init__(self, *, dag_id: str, run_id: str, task: str, map_index: int) -> None:
        super().__init__()
        # Not task_id: Airflow sets that one itself.
        self.key = TaskKey(dag_id, run_id, task, map_index)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Airflow's way to hand it to a triggerer."""
        key = self.key
        names = {"dag_id": key.dag_id, "run_id": key.run_id, "task": key.task_id, "map_index": key.map_index}
        return f"{type(self).__module__}.{type(self).__qualname__}", names

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Airflow's hook, in the triggerer's event loop."""
        # Airflow takes a task that is back before its process's end was noticed for one that was killed.
        guard = (await asyncio.to_thread(load_settings)).resume_guard
        await asyncio.sleep(guard.total_seconds())
        why = await get_poller().wait_for(self.key)
        yield TriggerEvent({"louver": why})
