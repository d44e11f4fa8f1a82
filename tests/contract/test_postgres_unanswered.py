"""A ledger in Postgres that does what it is asked and is away before it has said so."""

from __future__ import annotations

import pytest
from support.proxy import LossyProxy, Lost
from support.supervised import Told

from louver.clock import FixedClock
from louver.errors import LedgerUnavailable, Superseded
from louver.ledger.sql.postgres import store
from louver.observations import Observations
from louver.states import TaskState
from louver.testing.scene import COMPLETED, LAUNCHED, Scene


class Outage(LossyProxy):
    """After what it loses it lets nobody through, so many times."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.refusals = 0
        self._away = False

    def _swallow(self, server):
        super()._swallow(server)
        self._away = True

    def _pass_on(self, client):
        if self._away and self.refusals > 0:
            self.refusals -= 1
            client.close()
        else:
            super()._pass_on(client)


@pytest.fixture
def proxy(postgres, monkeypatch):
    monkeypatch.setattr(store, "_SETTLE_WAIT", 0.0)
    with Outage(postgres.port) as between:
        yield between


@pytest.fixture
def scene(postgres, proxy, opening):
    url = postgres.fresh_schema(sslmode="disable").replace(f":{postgres.port}/", f":{proxy.port}/")
    return Scene(name="scene", open_ledger=lambda: opening(url))


@pytest.fixture
def token(scene):
    return scene.open().token


def told_of(scene, token):
    return Observations(ledger=scene.ledger, token=token, clock=FixedClock(scene.tick()), log=Told())


def test_an_answer_is_looked_for_until_the_server_is_back(scene, proxy, token):
    proxy.refusals = 5
    proxy.lose(Lost.ANSWER, of=b"louver_advance")

    (row,) = scene.ledger.advance(token, LAUNCHED, now=scene.tick())

    assert (proxy.losses, proxy.refusals) == (1, 0)
    assert row == scene.told()[-1]
    # What this process knows of the task is what it wrote.
    scene.ledger.complete(token, COMPLETED, 7, now=scene.tick())
    assert [row.version for row in scene.told()] == [1, 2, 3, 4]


def test_where_it_stays_away_nobody_claims_to_know(scene, proxy, token):
    proxy.refusals = 10**6
    proxy.lose(Lost.ANSWER, of=b"louver_advance")

    with pytest.raises(LedgerUnavailable, match="whether it was written is not known"):
        scene.ledger.advance(token, LAUNCHED, now=scene.tick())

    proxy.refusals = 0
    # Nor is anything remembered of it that may not be so.
    scene.ledger.complete(token, COMPLETED, 7, now=scene.tick())
    assert [row.to_state for row in scene.told()][-2:] == [TaskState.RUNNING, TaskState.SUCCEEDED]


def test_what_tells_of_the_task_then_is_told_once_and_in_order(scene, proxy, token):
    told = told_of(scene, token)
    proxy.refusals = 10**6
    proxy.lose(Lost.ANSWER, of=b"louver_advance")
    assert not told.tell(LAUNCHED)

    proxy.refusals = 0
    told.tell_all()
    scene.ledger.complete(token, COMPLETED, 7, now=scene.tick())

    assert [row.to_state for row in scene.told()][-2:] == [TaskState.RUNNING, TaskState.SUCCEEDED]


def test_what_was_lost_on_its_way_there_is_told_later(scene, proxy, token):
    told = told_of(scene, token)
    proxy.refusals = 10**6
    proxy._away = True
    scene.ledger._prepared.close()
    scene.ledger._engines.close()
    assert not told.tell(LAUNCHED)

    proxy.refusals = 0
    scene.ledger.advance(token, now=scene.tick())
    told.tell_all(COMPLETED)

    assert [row.to_state for row in scene.told()][-2:] == [TaskState.RUNNING, TaskState.SUCCEEDED]


def test_who_has_been_replaced_meanwhile_hears_that(scene, proxy, token):
    told = told_of(scene, token)
    proxy.refusals = 10**6
    proxy.lose(Lost.ANSWER, of=b"louver_advance")
    assert not told.tell(LAUNCHED)
    proxy.refusals = 0
    scene.open(try_number=2)

    with pytest.raises(Superseded):
        told.tell_all(COMPLETED)
    assert TaskState.SUCCEEDED not in [row.to_state for row in scene.told()]
