"""The plugin: what Louver adds to Airflow's own processes. Registered once, by its entry point."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from louver.errors import describe
from louver_provider.api.bucket_guard import BucketGuard
from louver_provider.api.clear_watch import ClearWatch
from louver_provider.api.hitl_guard import HitlGuard
from louver_provider.api.mount import PREFIX, LouverApi
from louver_provider.api.start_report import StartReport
from louver_provider.cluster_policies import install
from louver_provider.listeners import bucket_runs, components, task_states

__all__ = ["LouverPlugin"]

log = logging.getLogger(__name__)


class LouverPlugin(AirflowPlugin):
    """
    Guards answers to approvals, records what people do to Louver's tasks in Airflow, has the scheduler bring
    the reconciler with it, and routes runs into their buckets where there are any. Louver's own REST
    interface is part of the API server.
    """

    name = "louver"
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [
        {"name": "louver", "app": LouverApi(), "url_prefix": PREFIX},
    ]
    fastapi_root_middlewares: ClassVar[list[dict[str, Any]]] = [
        {"name": "louver-hitl-guard", "middleware": HitlGuard, "args": [], "kwargs": {}},
        {"name": "louver-bucket-guard", "middleware": BucketGuard, "args": [], "kwargs": {}},
        {"name": "louver-start-report", "middleware": StartReport, "args": [], "kwargs": {}},
        {"name": "louver-clear-watch", "middleware": ClearWatch, "args": [], "kwargs": {}},
    ]
    listeners: ClassVar[list[Any]] = [task_states, components, bucket_runs]

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """
        Make the cluster policy live, in a process where its own entry point was not loaded.

        Airflow drops a plugin that raises here, with all its guards; so nothing does.
        """
        try:
            install()
        except Exception as error:
            log.error("louver: buckets are off: %s", describe(error))
