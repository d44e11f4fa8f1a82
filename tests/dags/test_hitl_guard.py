"""Answers on their way through the API server: one after the other where SQLite cannot see to that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from louver_provider.api import hitl_guard
from louver_provider.api.hitl_guard import HitlGuard
from louver_provider.api.refusal import Refusal
from louver_provider.turns import Turn

ANSWER = "/api/v2/dags/d/dagRuns/r/taskInstances/t/-1/hitlDetails"


class Airflow:
    """Airflow's app: takes a moment for each request, and sees how many it has at once."""

    def __init__(self) -> None:
        self.inside = self.most = self.served = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.01)
        self.inside -= 1
        self.served += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def request(guard: HitlGuard, *, method: str = "PATCH", path: str = ANSWER) -> Any:
    """One request; its status and body."""

    async def ask() -> tuple[int, bytes]:
        said: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b'{"chosen_options": ["Resume"]}', "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": method, "path": path, "headers": [(b"authorization", b"Bearer x")]}
        await guard(scope, receive, send)
        return said[0]["status"], said[-1]["body"]

    return ask()


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Refusal | None], None]:
    async def anybody(dag_id: str, scope: Any) -> bool:
        return True

    monkeypatch.setattr(hitl_guard, "_may_answer", anybody)

    def by(refusal: Refusal | None) -> None:
        monkeypatch.setattr(hitl_guard, "_judge", lambda place, body: refusal)

    return by


async def together(*requests: Any) -> list[tuple[int, bytes]]:
    return list(await asyncio.gather(*requests))


def test_answers_take_turns(judged: Any) -> None:
    judged(None)
    app = Airflow()
    guard = HitlGuard(app)

    # More than there are threads that could wait for the turn.
    said = asyncio.run(together(*(request(guard) for _ in range(60))))

    assert {status for status, _ in said} == {200}
    assert (app.served, app.most) == (60, 1)


def test_other_requests_do_not_wait(judged: Any) -> None:
    judged(None)
    app = Airflow()
    guard = HitlGuard(app)

    asyncio.run(together(*(request(guard, method="GET") for _ in range(5))))

    assert app.most == 5


def test_who_waits_in_vain_is_told_to_come_again(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(None)
    monkeypatch.setattr(Turn.take, "__defaults__", (0.0,))
    app, others = Airflow(), Turn()
    assert others.take()
    try:
        ((status, body),) = asyncio.run(together(request(HitlGuard(app))))
    finally:
        others.give()

    assert (status, app.served) == (409, 0)
    assert "answer again" in json.loads(body)["detail"]


def test_what_is_refused_does_not_reach_airflow(judged: Any) -> None:
    judged(Refusal(status=409, detail="too early", retry_after=2))
    app = Airflow()

    ((status, body),) = asyncio.run(together(request(HitlGuard(app))))

    assert (status, json.loads(body), app.served) == (409, {"detail": "too early"}, 0)
