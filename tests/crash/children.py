"""What the processes do that the tests bring up and kill; see :class:`support.nursery.Nursery`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count, takewhile

from sqlalchemy import Connection
from support.nursery import Talk

from crash.proofs import faults_of_all
from crash.stories import STORIES
from crash.story import KEYS, Clock, Scene
from louver.ledger import open_ledger
from louver.ledger.sql.rows import SqlRows
from louver.ledger.sql.store import SqlLedger
from louver.testing import crashes

__all__ = [
    "look_around",
    "look_at",
    "play",
    "play_and_pause",
    "play_and_wait",
    "play_cases",
    "play_many",
    "play_when_told",
    "record",
]


def record(talk: Talk, *, story: str, url: str, shop: str, case: str) -> tuple[list[str], list[str]]:
    """Play a story unharmed; the points that its part reaches in which others are killed, and its faults."""
    with _scene(story, url, shop, case, turn=1) as scene, crashes.recording() as reached:
        STORIES[story].prepare(scene)
        reached.clear()
        STORIES[story].play(scene)
    return reached, _faults(story, url, case)


def play(
    talk: Talk,
    *,
    story: str,
    url: str,
    shop: str,
    case: str,
    turn: int = 1,
    killed_at: tuple[str, int] | None = None,
) -> list[str]:
    """
    Play a story to its end; what is wrong then.

    :param turn: the how-manieth process of the case this is; the first one makes the setting.
    :param killed_at: point and hit at which this one ends.
    """
    with _scene(story, url, shop, case, turn=turn) as scene:
        if turn == 1:
            STORIES[story].prepare(scene)
        if killed_at is not None:
            point, hit = killed_at
            crashes.kill_at(point, hit=hit)
        STORIES[story].play(scene)
    return _faults(story, url, case)


def play_when_told(talk: Talk, *, story: str, url: str, shop: str, case: str) -> list[str]:
    """Play a story between two words of the test's; what is wrong at its end."""
    with _scene(story, url, shop, case, turn=1) as scene:
        STORIES[story].prepare(scene)
        talk.say("ready")
        talk.hear()
        STORIES[story].play(scene)
        talk.say("played")
        talk.hear()
    return _faults(story, url, case)


def play_and_pause(
    talk: Talk, *, story: str, url: str, shop: str, case: str, paused_at: tuple[str, int]
) -> list[str]:
    """Play a story, and wait for the test's word where a point is hit; what is wrong at its end."""

    def pause() -> None:
        talk.say("paused")
        talk.hear()

    with _scene(story, url, shop, case, turn=1) as scene:
        STORIES[story].prepare(scene)
        point, hit = paused_at
        crashes.act_at(point, pause, hit=hit)
        STORIES[story].play(scene)
    return _faults(story, url, case)


def play_and_pause_at_commit(
    talk: Talk, *, story: str, url: str, shop: str, case: str, commit: int
) -> list[str]:
    """The same, where something is written and its COMMIT is about to be sent: the so-manieth such one."""
    commits = count(1)
    send = SqlLedger._commit

    def pause(ledger: SqlLedger, connection: Connection, rows: SqlRows) -> bool:
        if rows.written and next(commits) == commit:
            talk.say("paused")
            talk.hear()
        return send(ledger, connection, rows)

    with _scene(story, url, shop, case, turn=1) as scene:
        STORIES[story].prepare(scene)
        SqlLedger._commit = pause  # type: ignore[method-assign]
        STORIES[story].play(scene)
    return _faults(story, url, case)


def play_and_wait(
    talk: Talk, *, story: str, url: str, shop: str, case: str, paused_at: tuple[str, int]
) -> list[str]:
    """The same, and wait again wherever the story would let time pass."""

    class Waiting(Clock):
        """Lets time pass at the test's word."""

        def sleep(self, duration: timedelta) -> None:
            """Ask, and skip it."""
            talk.say("waiting")
            talk.hear()
            super().sleep(duration)

    def pause() -> None:
        talk.say("paused")
        talk.hear()

    with _scene(story, url, shop, case, turn=1) as scene:
        point, hit = paused_at
        crashes.act_at(point, pause, hit=hit)
        STORIES[story].play(replace(scene, clock=Waiting(timedelta(0))))
    return _faults(story, url, case)


def play_many(talk: Talk, *, story: str, url: str, shop: str) -> list[str]:
    """Play a story again and again, each time another case, until told; which cases there were."""

    def cases() -> Iterator[str]:
        talk.say("begun")
        yield from (f"case-{number}" for number in takewhile(lambda _: not talk.is_told(), count()))

    return play_cases(story, url, shop, cases())


def play_cases(story: str, url: str, shop: str, cases: Iterable[str]) -> list[str]:
    """Play a story of each case, by one handle on the ledger; which cases there were."""
    played = []
    with _scene(story, url, shop, "", turn=1) as scene:
        for case in cases:
            STORIES[story].prepare(replace(scene, case=case))
            STORIES[story].play(replace(scene, case=case))
            played.append(case)
    return played


def look_at(talk: Talk, *, story: str, url: str, shop: str, cases: list[str]) -> list[str]:
    """What is wrong with cases that were played to their end."""
    os.environ["SHOP_DB"] = shop
    return [f"{case}: {fault}" for case in cases for fault in _faults(story, url, case)]


@contextmanager
def _scene(story: str, url: str, shop: str, case: str, *, turn: int) -> Iterator[Scene]:
    os.environ["SHOP_DB"] = shop
    with open_ledger(url, KEYS) as ledger:
        yield Scene(ledger=ledger, clock=Clock(STORIES[story].LATER * turn), case=case)


def _faults(story: str, url: str, case: str) -> list[str]:
    # By another handle: what the one that played remembers is not what is stored.
    with _scene(story, url, os.environ["SHOP_DB"], case, turn=100) as scene:
        return list(STORIES[story].faults(scene))


def look_around(talk: Talk, *, url: str) -> list[str]:
    """What is wrong with the ledger as a whole."""
    with open_ledger(url, KEYS) as ledger:
        return faults_of_all(ledger)
