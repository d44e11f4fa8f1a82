"""
The Postgres server dies in the middle of runs, or a wire to it breaks: the same process goes on.

It finds out what became of what it had asked for, so it neither fails nor does anything twice.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import pytest
from support.nursery import ChildFailed
from support.severed import Break, Wire

from crash.stories import STORIES

NUMBERS = count(1)


@pytest.fixture(scope="module")
def fragile(start_postgres):
    """A server that may be killed."""
    return start_postgres()


@pytest.fixture
def away(fragile):
    """The same, running at the end of the test whatever happened in it."""
    yield fragile
    fragile.start()


@pytest.fixture
def shop(scratch):
    return str(scratch / f"shop-of-a-server-{next(NUMBERS)}.db")


def crash(server):
    server.kill()
    server.start()


def test_a_server_that_is_killed_at_any_point_of_a_run_is_not_noticed(nursery, away, shop):
    done, troubles = set(), []
    for number, name in enumerate(STORIES):
        given = {"story": name, "url": away.fresh_schema(), "shop": shop}
        reached, faults = nursery.call("crash.children:record", case=f"{number}-unharmed", **given)
        assert faults == []
        # Each point once, in the first story that comes there: the next ones are made of the same statements.
        for point in dict.fromkeys(point for point in reached if point not in done):
            child = nursery.start(
                "crash.children:play_and_pause", case=f"{number}-{point}", paused_at=(point, 1), **given
            )
            assert child.said() == "paused"
            crash(away)
            child.say("go on")
            troubles += [f"{name}, {point}: {fault}" for fault in faults_of(child)]
            done.add(point)
        assert nursery.call("crash.children:look_around", url=given["url"]) == []
    assert troubles == []
    assert len(done) > 90


def faults_of(child):
    """What is wrong with the story that the child has played, be it that it could not be played."""
    try:
        return child.result()
    except ChildFailed as error:
        return [str(error)]


@pytest.fixture(scope="module")
def lazy(start_postgres):
    """A server that writes its log when a transaction commits, and no sooner."""
    return start_postgres(settings={"wal_writer_delay": "10s"})


COMMITS = 9


@pytest.mark.parametrize("given_again", [False, True])
def test_what_was_lost_with_its_commit_is_not_taken_for_done(given_again, nursery, lazy, shop):
    """The server has forgotten the transaction, its number too, which is the next one's then."""
    given = {"story": "order", "url": lazy.fresh_schema(), "shop": shop}
    for commit in range(1, COMMITS + 1):
        child = nursery.start(
            "crash.children:play_and_pause_at_commit", case=f"case-{commit}", commit=commit, **given
        )
        assert child.said() == "paused"
        ((number,),) = lazy.execute(
            "SELECT backend_xid::text FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        )
        crash(lazy)
        while given_again and int(lazy.execute("SELECT pg_current_xact_id()::text")[0][0]) < int(number):
            pass
        child.say("go on")
        assert faults_of(child) == [], f"commit {commit}"


CRASHES = 12


def test_a_server_that_is_killed_at_any_moment_is_not_noticed(nursery, away, shop):
    given = {"story": "order", "url": away.fresh_schema(), "shop": shop}
    dice = random.Random(20260101)
    child = nursery.start("crash.children:play_many", **given)
    assert child.said() == "begun"
    for _ in range(CRASHES):
        # Once it is at work again, on all of its connections: of two crashes in one decision it may complain.
        await_more(5, away, given["url"], child)
        time.sleep(dice.uniform(0, 0.2))
        # It sees a connection that broke, not a server that is down, which no process can work with.
        child.signal(signal.SIGSTOP)
        crash(away)
        child.signal(signal.SIGCONT)
    child.say("enough")
    cases = child.result()
    assert nursery.call("crash.children:look_at", cases=cases, **given) == []
    assert nursery.call("crash.children:look_around", url=given["url"]) == []


def transitions(server, url):
    schema = url.rpartition("%3D")[2]
    return server.execute(f"SELECT count(*) FROM {schema}.louver_transition", database=server.database)[0][0]


def await_more(count, server, url, child):
    """Wait for so many more transitions."""
    enough = transitions(server, url) + count
    deadline = time.monotonic() + 60
    while transitions(server, url) < enough:
        assert not child.has_said(), child.result()
        assert time.monotonic() < deadline, "the process does not go on"


def test_a_server_that_is_down_for_a_while_costs_attempts_and_doubles_nothing(nursery, away, shop):
    """Decisions fail closed, so processes end; those that come after the server is back go on."""
    given = {"story": "order", "url": away.fresh_schema(), "shop": shop}
    ended = []
    for point in ("begin_effect.before", "perform.before", "perform.after", "complete.before", "park.inside"):
        child = nursery.start("crash.children:play_and_pause", case=point, paused_at=(point, 1), **given)
        assert child.said() == "paused"
        away.kill()
        child.say("go on")
        with pytest.raises(ChildFailed, match="LedgerUnavailable"):
            child.result()
        away.start()
        ended.append(nursery.call("crash.children:play", turn=20, case=point, **given))
    assert ended == [[]] * len(ended)


@pytest.mark.parametrize("point", ["perform.after", "commit_effect.before"])
def test_an_effect_that_happened_while_the_server_was_down_is_recorded_when_it_is_back(
    point, nursery, away, shop
):
    """It is done and cannot be taken back, so its process waits, as long as the lease holds."""
    given = {"story": "order", "case": point, "url": away.fresh_schema(), "shop": shop}
    child = nursery.start("crash.children:play_and_wait", paused_at=(point, 1), **given)
    assert child.said() == "paused"
    away.kill()
    child.say("go on")
    for _ in range(3):
        assert child.said() == "waiting"
        child.say("go on")
    assert child.said() == "waiting"
    away.start()
    child.say("go on")

    assert child.result() == []


EVERY = 25
"""Each play loses every 25th query: more than one decision and its second try take."""

CUT = ("retries", "undo fails for good", "paused, then stopped")


@pytest.fixture
def wires(postgres) -> Iterator[list[Wire]]:
    with ExitStack() as opened:
        yield [opened.enter_context(Wire(postgres.port)) for _ in range(2)]


@pytest.mark.parametrize("name", CUT)
def test_every_query_may_be_lost_on_its_way_or_its_answer(name, nursery, postgres, wires, scratch):
    lanes = [
        (wire, through(wire, postgres), str(scratch / f"shop-of-a-wire-{next(NUMBERS)}.db")) for wire in wires
    ]
    turns = [(what, first) for what in Break for first in range(EVERY)]

    def play(number: int) -> tuple[int, list[str]]:
        lost, troubles = 0, []
        for what, first in turns[number :: len(lanes)]:
            broken, faults = cut(nursery, name, *lanes[number], what, first)
            lost += broken
            troubles += [f"{what.value} {first}: {fault}" for fault in faults]
        return lost, troubles

    with ThreadPoolExecutor(len(lanes)) as pool:
        played = list(pool.map(play, range(len(lanes))))

    assert [trouble for _, troubles in played for trouble in troubles] == []
    assert sum(lost for lost, _ in played) > len(turns)
    for _, url, _ in lanes:
        assert nursery.call("crash.children:look_around", url=url) == []


def through(wire, server):
    """The URL of an empty schema, by way of the wire."""
    return server.fresh_schema().replace(f":{server.port}/", f":{wire.port}/")


def cut(nursery, story, wire, url, shop, what, first):
    """Play a story while the wire breaks again and again; how often it did, and what is wrong."""
    given = {"story": story, "case": f"{what.value}-{first}", "url": url, "shop": shop}
    child = nursery.start("crash.children:play_when_told", **given)
    assert child.said() == "ready"
    wire.break_at(what, lambda number: number % EVERY == first)
    child.say("go")
    try:
        assert child.said() == "played"
    except ChildFailed as error:
        return wire.broken, [str(error)]
    finally:
        broken = wire.broken
        wire.break_at(None)
    child.say("go")
    return broken, faults_of(child)
