"""
Refuses a run at the API server, where the person who starts it can still be told.

A root middleware, on the one path by which the web UI and API clients start runs. It decides from the request
alone, and passes on what it does not understand, and who may not start the run: Airflow has its own words for
that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from anyio.to_thread import run_sync

from louver.clock import SystemClock
from louver.errors import ConfigurationError, ValueRefused
from louver_provider.api.asgi import App, Message, Receive, Scope, Send, refuse
from louver_provider.api.callers import is_allowed
from louver_provider.api.refusal import Refusal
from louver_provider.cluster_policies import installed

__all__ = ["BucketGuard", "judge_trigger"]

_TRIGGER = re.compile(r".*/api/v2/dags/(?P<dag_id>[^/]+)/dagRuns/?\n?")
_MOST = 16 * 1024 * 1024
"""Of a larger body no more is kept; it passes, and the run is looked at when it starts."""


class BucketGuard:
    """
    ASGI middleware around Airflow's whole API app.

    :param app: the next app.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        triggers = scope["type"] == "http" and scope["method"] == "POST" and installed() is not None
        found = _TRIGGER.fullmatch(scope["path"]) if triggers else None
        if found is None or not await _may_trigger(found["dag_id"], scope):
            await self._app(scope, receive, send)
            return
        messages, whole = await _read(receive)
        if whole:
            body = b"".join(message["body"] for message in messages)
            # In a thread: a large one takes its time to be read.
            refusal = await run_sync(judge_trigger, found["dag_id"], body)
            if refusal is not None:
                await refuse(refusal, send)
                return
        await self._app(scope, _replay(messages, receive), send)


async def _may_trigger(dag_id: str, scope: Scope) -> bool:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    return await is_allowed(scope, "POST", DagAccessEntity.RUN, dag_id=dag_id)


def judge_trigger(dag_id: str, body: bytes) -> Refusal | None:
    """
    Whether a run may be started with this.

    :param body: of the request, which may be anything.
    """
    from louver_provider.buckets.intake import check_submission

    router = installed()
    if router is None:
        return None
    try:
        document = json.loads(body)
        conf = document.get("conf") if isinstance(document, dict) else None
    except (ValueError, RecursionError):
        return None
    try:
        check_submission(router, dag_id, conf, now=SystemClock().now())
    except ValueRefused as refused:
        way_out = "send another key, or leave it out: then the run's tasks keep their own pools"
        return Refusal(status=422, detail=f"{refused}; {way_out}")
    except ConfigurationError as refused:
        return Refusal(status=422, detail=str(refused))
    return None


async def _read(receive: Receive) -> tuple[list[Message], bool]:
    """The body in its parts, and whether that is all of it."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request":
            return messages, False
        message.setdefault("body", b"")
        size += len(message["body"])
        if not message.get("more_body"):
            return messages, True
        if size > _MOST:
            return messages, False


def _replay(messages: Sequence[Message], receive: Receive) -> Receive:
    left = iter(messages)

    async def again() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return again
