"""Postgres: who waits for whom where a row is locked by somebody else, with locks that are really held."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from support.ledgers import await_
from support.postgres import PostgresServer, Role

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState
from louver.ledger.requests import Progress
from louver.testing import crashes
from louver.testing.scene import Scene


@pytest.fixture
def role(postgres: PostgresServer) -> Role:
    return postgres.fresh_role()


@pytest.fixture
def url(postgres: PostgresServer, role: Role) -> str:
    # The ledger's own lock_timeout ends a wait with an error, so none of these can hang.
    return str(postgres.fresh_schema(role=role))


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], Ledger]]:
    handles: list[Ledger] = []

    def open_one() -> Ledger:
        handles.append(open_ledger(url))
        return handles[-1]

    yield open_one
    crashes.disarm()
    for handle in handles:
        handle.close()


@contextmanager
def locked(url: str, *command_ids: str) -> Iterator[None]:
    """Somebody else is at these commands: their rows are locked by a transaction that does not end."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT command_id FROM louver_command WHERE command_id = ANY(%s) FOR UPDATE", [list(command_ids)]
        )
        assert sorted(row[0] for row in cursor.fetchall()) == sorted(command_ids)
        yield
        connection.rollback()


def test_a_claim_passes_over_a_command_that_somebody_else_has_locked(
    url: str, opened: Callable[[], Ledger]
) -> None:
    scene = Scene(name="locks", open_ledger=opened)
    token = scene.launch("act")
    sent = [scene.send(number).command_id for number in range(5)]
    first, *others = sent

    with locked(url, first):
        # It comes back while the lock is held, so it did not wait for it.
        claimed = [command.command_id for command in scene.take_up(token)]
        states = {command.command_id: command.state for command in scene.ledger.list_commands(scene.run)}

    assert claimed == others
    assert states == {first: CommandState.PENDING, **dict.fromkeys(others, CommandState.CLAIMED)}
    assert [command.command_id for command in scene.take_up(token)] == [first]


def test_a_claim_fills_its_limit_with_commands_that_nobody_has_locked(
    url: str, opened: Callable[[], Ledger]
) -> None:
    scene = Scene(name="locks", open_ledger=opened)
    token = scene.launch("act")
    sent = [scene.send(number).command_id for number in range(5)]

    with locked(url, *sent[:2]):
        claimed = [command.command_id for command in scene.take_up(token, limit=2)]

    assert claimed == sent[2:4]


def test_a_claim_of_nothing_but_locked_commands_is_empty_at_once(
    url: str, opened: Callable[[], Ledger]
) -> None:
    scene = Scene(name="locks", open_ledger=opened)
    token = scene.launch("act")
    sent = [scene.send(number).command_id for number in range(2)]

    with locked(url, *sent):
        assert scene.take_up(token) == ()

    assert [command.command_id for command in scene.take_up(token)] == sent


@pytest.mark.parametrize(
    "said",
    [{"persist_failures": 9}, {"progress": Progress(done=1.0)}],
    ids=["a heartbeat", "progress"],
)
def test_a_sign_of_life_that_meets_its_successor_at_the_door_is_dropped(
    said: dict[str, Any], postgres: PostgresServer, role: Role, opened: Callable[[], Ledger]
) -> None:
    """The old process speaks while the new one has opened the task and its transaction is about to end."""
    scene, other = Scene(name="locks", open_ledger=opened), opened()
    old = scene.launch("act")
    other.list_touches(scene.run)
    speaking = threading.Thread(target=lambda: other.touch(old, now=scene.now, **said))

    def speak() -> None:
        speaking.start()
        # Until it waits for the new process's transaction, or has written past it.
        await_(lambda: not speaking.is_alive() or waits(postgres, role))

    crashes.act_at("open_task.inside", speak)
    token = scene.open("act", try_number=2).token
    crashes.disarm()
    speaking.join()

    assert scene.ledger.list_touches(scene.run) == []
    scene.ledger.touch(token, now=scene.tick())
    assert [touch.session for touch in scene.ledger.list_touches(scene.run)] == [token.session]


def waits(server: PostgresServer, role: Role) -> bool:
    """Whether a session of the role waits for a lock."""
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE usename = '{role.name}' AND wait_event_type = 'Lock'"
    return bool(server.execute(waiting))
