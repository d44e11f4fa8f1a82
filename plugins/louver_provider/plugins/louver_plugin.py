"""The plugin: what Louver adds to Airflow's own processes. Registered once, by its entry point."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from louver_provider.api.hitl_guard import HitlGuard
from louver_provider.listeners import task_states

__all__ = ["LouverPlugin"]


class LouverPlugin(AirflowPlugin):
    """Guards answers to approvals, and records what people do to Louver's tasks in Airflow."""

    name = "louver"
    fastapi_root_middlewares: ClassVar[list[dict[str, Any]]] = [
        {"name": "louver-hitl-guard", "middleware": HitlGuard, "args": [], "kwargs": {}}
    ]
    listeners: ClassVar[list[Any]] = [task_states]
