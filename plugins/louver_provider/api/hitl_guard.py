"""
Guards the answers to approvals on their way through the API server.

A root middleware, since Airflow has no other place before an answer is recorded. It can only refuse, and
passes on whom Airflow will refuse; the decision itself is recorded by the resumed task alone. What it refuses
(semantics sections 6 and 8): anything but exactly one legal option, an answer to another request than the
pending one, a late answer, and one that comes before the parked process has surely gone.

It also mends a fault of Airflow: a task that asks again in the same instance keeps its old subject, body and
people. Once Airflow has accepted a question, its row is brought up to what the task has sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync

from louver.errors import describe
from louver.ledger.names import TaskKey
from louver_provider.api.asgi import App, Message, Receive, Scope, Send, refuse
from louver_provider.api.callers import is_allowed
from louver_provider.api.refusal import Refusal

__all__ = ["HitlGuard"]

log = logging.getLogger(__name__)

_ANSWER = re.compile(
    r".*/api/v2/dags/(?P<dag_id>[^/]+)/dagRuns/(?P<run_id>[^/]+)/taskInstances/(?P<task_id>[^/]+)"
    r"/(?P<map_index>[^/]+)/hitlDetails/?\n?"
)
"""What Airflow's own route matches: it takes " +0" and "0.0" for 0, and a path may end in a line break."""
_QUESTION = re.compile(r".*/execution/hitlDetails/(?P<ti_id>[0-9a-fA-F-]{36})/?")
_MAX_BODY = 1024 * 1024
_BUSY = Refusal(status=409, detail="Others are answering at this moment; answer again.", retry_after=1)


class HitlGuard:
    """
    ASGI middleware around Airflow's whole API app; everything but the two paths above passes untouched.

    :param app: the next app.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if scope["method"] == "PATCH" and (found := _ANSWER.fullmatch(path)):
                if await _may_answer(found["dag_id"], scope):
                    await self._answer(found.groupdict(), scope, receive, send)
                else:
                    await self._app(scope, receive, send)
                return
            if scope["method"] == "POST" and (asked := _QUESTION.fullmatch(path)):
                await self._question(asked["ti_id"], scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(
        self,
        place: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        body = await _read(receive)
        async with self._turn() as mine:
            refusal = await run_sync(_judge, place, body) if mine else _BUSY
            if refusal is not None:
                await refuse(refusal, send)
                return
            await self._app(scope, _replay(body, receive), send)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[bool]:
        """One answer after the other where Airflow's database does not see to that; False after a while."""
        from louver_provider.turns import Turn

        turn = Turn()
        if not turn.needed():
            yield True
            return
        # Not more than one thread of this process waits: the answer that all wait for needs one too.
        async with self._turns:
            try:
                yield await run_sync(turn.take)
            finally:
                turn.give()

    async def _question(self, ti_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                # Before the task hears of it, so that nobody can see the old text of a parked task.
                await run_sync(_renew, ti_id, body)
            await send(message)

        await self._app(scope, _replay(body, receive), watch)


async def _may_answer(dag_id: str, scope: Scope) -> bool:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    return await is_allowed(scope, "PUT", DagAccessEntity.HITL_DETAIL, dag_id=dag_id)


async def _read(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= _MAX_BODY:
            chunks.append(chunk)
        if not message.get("more_body"):
            break
    # Nobody's answer is that large; cut, it is no JSON and Airflow refuses it.
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _judge(place: Mapping[str, str], body: bytes) -> Refusal | None:
    """In a thread: it asks the ledger and Airflow's database."""
    # Loaded here: the plugin is imported by every Airflow process, this only where answers arrive.
    from louver_provider.api.answers import judge_answer, map_index_in

    index = map_index_in(place["map_index"])
    if index is None:
        # Airflow has its own words for it.
        return None
    key = TaskKey(place["dag_id"], place["run_id"], place["task_id"], index)
    try:
        return judge_answer(key, body)
    except Exception as error:
        # Closed, not open: without the ledger nobody can tell whether this answer still fits.
        log.error("louver: an answer to %r could not be checked: %s", str(key), describe(error))
        return Refusal(
            status=503, detail="Louver cannot check this answer now; the request stays open", retry_after=5
        )


def _renew(ti_id: str, body: bytes) -> None:
    from louver_provider.api.questions import renew_question

    try:
        renew_question(ti_id, body)
    except Exception as error:
        log.error("louver: the text of a question could not be brought up to date: %s", describe(error))
