"""The plugin: what Louver adds to Airflow's own processes. Registered once, by its entry point."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from louver_provider.api.clear_watch import ClearWatch
from louver_provider.api.hitl_guard import HitlGuard
from louver_provider.listeners import components, task_states

__all__ = ["LouverPlugin"]


class LouverPlugin(AirflowPlugin):
    """
    Guards answers to approvals, records what people do to Louver's tasks in Airflow, and has the scheduler
    bring the reconciler with it.
    """

    name = "louver"
    fastapi_root_middlewares: ClassVar[list[dict[str, Any]]] = [
        {"name": "louver-hitl-guard", "middleware": HitlGuard, "args": [], "kwargs": {}},
        {"name": "louver-clear-watch", "middleware": ClearWatch, "args": [], "kwargs": {}},
    ]
    listeners: ClassVar[list[Any]] = [task_states, components]
