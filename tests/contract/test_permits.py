"""Real processes that want one resource: never more inside than there is, and no turn lost under SIGKILL."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import create_engine
from support.earlier import at_revision

from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import RunStart
from louver.ledger.sql.engine import parse_url
from louver.ledger.sql.schema import upgrade
from louver.semaphores import PermitTerms, ResourceLimit, Stage, parse_resources
from louver.sessions import Claim
from louver.states import Source
from louver.timestamps import format_utc

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
PROCESSES = 8
LIMIT = 2
TURNS = 12

CHILD = """
import json
import os
import random
import sqlite3
import sys
import time
from datetime import datetime, timedelta, timezone

from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import RunStart
from louver.semaphores import PermitTerms, Stage, parse_resources
from louver.sessions import Claim
from louver.states import Source

wanted = json.loads(sys.argv[1])
terms = PermitTerms(lease=timedelta(seconds=wanted["lease"]), grant_ttl=timedelta(seconds=1))
limits = parse_resources(wanted["limits"])
world = sqlite3.connect(wanted["world"], timeout=60, isolation_level=None)
me = os.getpid()
run = RunKey(f"dag-{wanted['number']}", "run-1")
start = RunStart(
    key=run,
    definition_name="d",
    definition_version="1",
    definition_fingerprint="f" * 64,
    definition={},
    marker=None,
)


def now():
    return datetime.now(timezone.utc)


def tell(what, turn):
    # CLOCK_MONOTONIC is one for all processes of the machine.
    world.execute("INSERT INTO told VALUES (?, ?, ?, ?)", (time.monotonic(), me, what, turn))


with open_ledger(wanted["url"]) as ledger:
    ledger.open_run(start, now=now())
    for turn in range(wanted["turns"]):
        key = TaskKey(run.dag_id, run.run_id, f"act-{turn}")
        done = world.execute("SELECT 1 FROM done WHERE number = ? AND turn = ?", (wanted["number"], turn))
        if done.fetchone():
            continue
        claim = Claim(
            try_number=wanted["try"], max_tries=100, process=f"p:{me}:1", source=Source.WORKER
        )
        token = ledger.open_task(key, claim, now=now()).token
        needs = wanted["needs"] if turn % 3 else wanted["other_needs"]
        while True:
            permit = ledger.take_permit(
                token, needs, limits=limits, priority=turn % 2 + 1, terms=terms, now=now()
            )
            if permit.stage is Stage.HELD:
                break
            while not all(watch.wake for watch in ledger.list_permit_watches([key])):
                time.sleep(0.002)
                if ledger.plan_permits(now=now()).changes:
                    ledger.settle_permits(limits=limits, terms=terms, now=now())
        tell("in", turn)
        while world.execute("SELECT count(*) FROM told WHERE what = 'in'").fetchone()[0] < wanted["company"]:
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.004))
        tell("out", turn)
        world.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (wanted["number"], turn))
        ledger.release_permit(key, session=token.session, terms=terms, now=now())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


class Crowd:
    """Processes that take turns; each says when it is in and when it is out, in a file that is no ledger."""

    def __init__(self, url, world, *, limits, needs, other_needs=None, lease=60.0, company=1):
        """The first stay in until ``company`` have come in."""
        self.world = world
        self.given = {
            "url": url,
            "world": str(world),
            "turns": TURNS,
            "limits": json.dumps(limits),
            "needs": needs,
            "other_needs": other_needs or needs,
            "lease": lease,
            "company": company,
        }
        self.children = {}
        self.tries = {}
        self.killed = {}
        open_ledger(url).close()
        with closing(sqlite3.connect(world)) as made:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("CREATE TABLE told (at REAL, process INTEGER, what TEXT, turn INTEGER)")
            made.execute("CREATE TABLE done (number INTEGER, turn INTEGER, PRIMARY KEY (number, turn))")

    def __enter__(self):
        for number in range(PROCESSES):
            self.start(number)
        return self

    def __exit__(self, *exc_info):
        for child in self.children.values():
            child.kill()
            child.wait()

    def start(self, number):
        self.tries[number] = self.tries.get(number, 0) + 1
        wanted = json.dumps({**self.given, "number": number, "try": self.tries[number]})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.children[number] = subprocess.Popen([sys.executable, "-c", CHILD, wanted], env=environment)

    def kill(self, number):
        """By SIGKILL, wherever it is, and a new one goes on; False where it has ended already."""
        child = self.children[number]
        child.kill()
        if child.wait() == 0:
            return False
        self.killed[child.pid] = time.monotonic()
        self.start(number)
        return True

    def end(self):
        """Wait for all of them."""
        assert [child.wait(timeout=180) for child in self.children.values()] == [0] * PROCESSES

    def told(self):
        with closing(sqlite3.connect(self.world)) as read:
            return read.execute("SELECT at, process, what, turn FROM told ORDER BY at").fetchall()

    def most_inside(self, units=lambda turn: 1):
        """How much was in use at a time; what a killed process had, until it was dead."""
        events = [(at, units(turn) if what == "in" else -units(turn)) for at, _, what, turn in self.told()]
        still = {}
        for _, process, what, turn in self.told():
            still[process] = (what, turn)
        events += [
            (at, -units(still[process][1]))
            for process, at in self.killed.items()
            if still.get(process, ("out", 0))[0] == "in"
        ]
        inside, most = 0, 0
        for _, change in sorted(events):
            inside += change
            most = max(most, inside)
        return most

    def done(self):
        with closing(sqlite3.connect(self.world)) as read:
            return read.execute("SELECT count(*) FROM done").fetchone()[0]


def test_there_are_never_more_inside_than_there_is_and_all_have_their_turn(url, tmp_path):
    limits, needs = {"api": LIMIT}, {"api": 1}
    with Crowd(url, tmp_path / "world.db", limits=limits, needs=needs, company=LIMIT) as crowd:
        crowd.end()

    assert crowd.most_inside() == LIMIT
    assert crowd.done() == PROCESSES * TURNS
    with open_ledger(url) as ledger:
        assert ledger.list_permits() == []


def test_who_needs_two_things_and_who_needs_much_have_their_turn_too(url, tmp_path):
    limits, needs = {"a": 2, "b": 1}, {"a": 1}
    with Crowd(url, tmp_path / "world.db", limits=limits, needs=needs, other_needs={"b": 1, "a": 2}) as crowd:
        crowd.end()

    assert crowd.most_inside(lambda turn: 1 if turn % 3 else 2) <= 2
    assert crowd.done() == PROCESSES * TURNS


def test_processes_killed_anywhere_lose_no_turn_and_let_nobody_in_too_much(url, tmp_path):
    chance = random.Random(7)
    with Crowd(url, tmp_path / "world.db", limits={"api": LIMIT}, needs={"api": 1}, lease=2.0) as crowd:
        kills = 0
        for _ in range(12):
            time.sleep(chance.uniform(0.05, 0.6))
            kills += crowd.kill(chance.randrange(PROCESSES))
        crowd.end()

    assert kills >= 6
    assert crowd.most_inside() <= LIMIT
    assert crowd.done() == PROCESSES * TURNS


def test_a_place_whose_permit_is_gone_keeps_nobody_waiting(tmp_path):
    path = tmp_path / "ledger.db"
    terms = PermitTerms(lease=timedelta(hours=1))
    limits = parse_resources('{"api": 1}')
    with open_ledger(f"sqlite:///{path}") as ledger:
        tokens = [begun(ledger, number) for number in range(3)]
        for token in tokens:
            ledger.take_permit(token, {"api": 1}, limits=limits, priority=1, terms=terms, now=NOW)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM louver_permit WHERE run_id = 'run-1'")
            other.commit()

        settled = ledger.release_permit(tokens[0].key, session=tokens[0].session, terms=terms, now=NOW)

        assert [permit.run_id for permit in settled.granted] == ["run-2"]
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM louver_place").fetchone() == (0,)


def test_who_waits_while_the_ledger_is_upgraded_keeps_its_place(url):
    at_revision(url, "0007")
    columns = "dag_id, run_id, task_id, map_index, incarnation, session, process, needs, stage, wanted_at"
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        for run, priority, sequence, stage in (
            ("one", 1, 1, "granted"),
            ("two", 1, 2, "waiting"),
            ("three", 5, 3, "waiting"),
        ):
            connection.exec_driver_sql(
                f"INSERT INTO louver_permit ({columns}, priority, sequence) VALUES ('dag', '{run}', 'act', "
                f"-1, 1, 1, 'p', '[\"api=1\",\"b=2\"]', '{stage}', '{format_utc(NOW)}', "
                f"{priority}, {sequence})"
            )

    upgrade(url)

    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT resource, rank, sequence, run_id FROM louver_place ORDER BY resource, rank"
        ).fetchall()
    engine.dispose()
    assert [tuple(row) for row in found] == [
        *(("api", -5, 3, "three"), ("api", -1, 2, "two")),
        *(("b", -5, 3, "three"), ("b", -1, 2, "two")),
    ]
    terms = PermitTerms()
    with open_ledger(url) as ledger:
        for name, limit in (("api", 1), ("b", 2)):
            ledger.set_resource(ResourceLimit(resource=name, limit=limit), by="ann", terms=terms, now=NOW)
        ledger.release_permit(TaskKey("dag", "one", "act"), session=1, terms=terms, now=NOW)
        assert [row.run_id for row in ledger.list_permits() if row.stage is Stage.GRANTED] == ["three"]


def begun(ledger, number):
    run = RunKey("dag", f"run-{number}")
    start = RunStart(
        key=run,
        definition_name="d",
        definition_version="1",
        definition_fingerprint="f" * 64,
        definition={},
        marker=None,
    )
    ledger.open_run(start, now=NOW)
    claim = Claim(try_number=1, max_tries=1, process="p:1:1", source=Source.WORKER)
    return ledger.open_task(TaskKey(run.dag_id, run.run_id, "act"), claim, now=NOW).token
