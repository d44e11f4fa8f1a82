"""
Has the API server say what it is when it starts, for ``airflow louver doctor``.

A root middleware: Airflow tells no listener that an API server starts, but its start-up passes through here.
"""

from __future__ import annotations

from anyio.to_thread import run_sync

from louver_provider.api.asgi import App, Message, Receive, Scope, Send

__all__ = ["StartReport"]


class StartReport:
    """
    ASGI middleware around Airflow's whole API app; requests pass untouched.

    :param app: the next app.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def watch(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                # Here: no other process needs it when it loads the plugin.
                from louver_provider.buckets.start import report_start

                await run_sync(report_start, "api-server")
            await send(message)

        await self._app(scope, receive, watch)
