"""
Has clears recorded that arrive at the API server: Airflow tells no listener of them.

A root middleware, which lets everything pass as it is. Once the server has carried a request out that may
have cleared something, its tables tell what; the dry runs behind the Clear dialog change nothing there, so
they leave nothing (case C02).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime
from typing import Any

from anyio.to_thread import run_sync

from louver.clock import SystemClock
from louver.errors import describe

__all__ = ["ClearWatch"]

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_DAG = r".*/api/v2/dags/(?P<dag_id>[^/]+)"
_CLEARING = {
    "POST": re.compile(rf"{_DAG}/(?:clearTaskInstances|clearDagRuns|clearPartitions|dagRuns/[^/]+/clear)/?"),
    # Whoever marks a task has Airflow clear what had failed downstream of it.
    "PATCH": re.compile(rf"{_DAG}/dagRuns/[^/]+/(?:taskInstances|taskGroupInstances)(?:/[^/]+){{0,2}}/?"),
}

_PASSED = ("/hitlDetails", "/dry_run")
"""Answers to questions, and what only shows what would be done."""


class ClearWatch:
    """
    ASGI middleware around Airflow's whole API app.

    :param app: the next app.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path = _CLEARING.get(scope["method"]) if scope["type"] == "http" else None
        found = path.fullmatch(scope["path"]) if path is not None else None
        if found is None or found[0].rstrip("/").endswith(_PASSED):
            await self._app(scope, receive, send)
            return
        dag_id, since = found["dag_id"], SystemClock().now()

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                await run_sync(_record, dag_id, since)
            await send(message)

        await self._app(scope, receive, watch)


def _record(dag_id: str, since: datetime) -> None:
    """In a thread: it asks Airflow's database."""
    # Loaded here: the plugin is imported by every Airflow process, this only where something is cleared.
    from louver_provider.marks import record_clears

    try:
        record_clears(dag_id, since=since)
    except Exception as error:
        log.error("louver: a clear could not be recorded; it is found later: %s", describe(error))
