"""
Louver's own REST interface, as the plugin hands it to Airflow: built when the first request comes.

Every Airflow process loads the plugin; the web framework and the routes are for the API server alone.
"""

from __future__ import annotations

import threading

from anyio.to_thread import run_sync

from louver_provider.api.asgi import App, Receive, Scope, Send

__all__ = ["PREFIX", "LouverApi"]

PREFIX = "/louver"
"""Where Airflow mounts it."""


class LouverApi:
    """ASGI app that stands for the one in :mod:`louver_provider.api.application`."""

    def __init__(self) -> None:
        self._app: App | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if app is None:
            app = await run_sync(self._build)
        await app(scope, receive, send)

    def _build(self) -> App:
        with self._lock:
            if self._app is None:
                from louver_provider.api.application import build_application

                self._app = build_application()
            return self._app
