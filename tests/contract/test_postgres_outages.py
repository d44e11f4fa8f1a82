"""A ledger in Postgres while the server is away, restarted or killed, or the network loses something."""

from __future__ import annotations

import threading

import pytest
from support.ledgers import EVENT, await_, hold_connections, place, read, refused, schema_of, write
from support.proxy import LossyProxy, Lost

from louver.errors import LedgerUnavailable, LouverError
from louver.ledger import open_ledger
from louver.ledger.names import EffectState
from louver.ledger.requests import EventOutcome
from louver.ledger.sql.postgres import connections
from louver.ledger.sql.schema import upgrade
from louver.states import TaskState
from louver.testing.scene import COMPLETED, PARKED, Scene


@pytest.fixture(scope="module")
def fragile(start_postgres):
    """A server that may be stopped and killed."""
    return start_postgres()


@pytest.fixture
def away(fragile):
    """The same, running at the end of the test whatever happened in it."""
    yield fragile
    fragile.start()


def ended_by_an_administrator(server):
    assert server.end_sessions() >= 3


def restarted(server):
    server.restart()


def crashed(server):
    server.kill()
    server.start()


@pytest.mark.parametrize("happened", [restarted, crashed, ended_by_an_administrator])
def test_nobody_notices_that_the_server_was_away_while_the_ledger_was_idle(away, opening, happened):
    ledger = opening(away.fresh_schema())
    hold_connections(ledger, 3)
    write(ledger)
    happened(away)
    for identity in ("b", "c", "d", "e"):
        outcome, _ = write(ledger, identity)
        assert outcome.value == "accepted"
        assert read(ledger, identity) == EVENT


def test_many_threads_at_once_do_not_notice_either(away, opening):
    ledger = opening(away.fresh_schema())
    hold_connections(ledger, 4)
    away.restart()
    met = threading.Barrier(4)
    failures = []

    def work(number):
        met.wait(30)
        try:
            for step in range(5):
                write(ledger, f"{number} {step}")
        except LouverError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(read(ledger, f"{number} {step}") == EVENT for number in range(4) for step in range(5))


@pytest.mark.parametrize("stop", ["shut_down", "kill"])
def test_a_server_that_is_down_is_told_each_time_and_all_is_well_when_it_is_back(away, opening, stop):
    ledger = opening(away.fresh_schema())
    write(ledger)
    getattr(away, stop)()
    for _ in range(3):
        for use in (lambda: write(ledger, "b"), lambda: read(ledger)):
            said = refused(use)
            assert place(away) in said
            assert "check that the server runs" in said
    away.start()
    assert read(ledger) == EVENT
    assert read(ledger, "b") is None
    write(ledger, "b")
    assert read(ledger, "b") == EVENT


def test_a_server_that_is_down_at_start_is_told_and_nothing_is_left_over(away, opening):
    url = away.fresh_schema()
    away.shut_down()
    for way in (open_ledger, upgrade):
        said = refused(lambda way=way: way(url))
        assert place(away) in said
        assert "check that the server runs" in said
    away.start()
    write(opening(url))


class Blocked:
    """
    A write that waits in the middle of its transaction, for a table that somebody else has locked.

    As a context manager; at its end the lock is let go and the write has ended.
    """

    def __init__(self, server, ledger, role, url, table):
        self.server, self.ledger, self.role, self.table = server, ledger, role, table
        self.schema = schema_of(url)
        self.outcome = []
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        try:
            self.outcome.append(write(self.ledger)[0].value)
        except LouverError as error:
            self.outcome.append(error)

    def __enter__(self):
        self._other = self.server.connect()
        connection = self._other.__enter__()
        with connection.cursor() as cursor:
            # Everybody may read meanwhile, nobody write.
            cursor.execute(f"LOCK TABLE {self.schema}.{self.table} IN EXCLUSIVE MODE")
        self.thread.start()
        return self

    def __exit__(self, *error):
        self._other.__exit__(*error)
        self.thread.join()

    def waiting(self):
        return self.server.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = %s AND wait_event_type = 'Lock'",
            [self.role.name],
        )

    def end_once(self):
        await_(lambda: self.waiting() or not self.thread.is_alive())
        for (pid,) in self.waiting():
            self.server.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


@pytest.fixture
def guarded(postgres):
    """A role of its own and a schema of that, which the common role may lock."""
    role = postgres.fresh_role()
    url = postgres.fresh_schema(role=role)
    upgrade(url)
    schema = schema_of(url)
    for statement in (
        f"GRANT USAGE ON SCHEMA {schema} TO louver",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO louver",
    ):
        postgres.execute(statement, database=postgres.database)
    return role, url


def rows_of(server, url):
    return {
        table: server.execute(
            f"SELECT count(*) FROM {schema_of(url)}.louver_{table}", database=server.database
        )[0][0]
        for table in ("event", "payload")
    }


@pytest.mark.parametrize("table", ["louver_event", "louver_payload"])
def test_a_connection_that_is_killed_in_the_middle_is_replaced_and_the_work_done_once(
    postgres, opening, guarded, table
):
    role, url = guarded
    ledger = opening(url)
    with Blocked(postgres, ledger, role, url, table) as blocked:
        blocked.end_once()
        await_(blocked.waiting)
    assert blocked.outcome == ["accepted"]
    assert rows_of(postgres, url) == {"event": 1, "payload": 1}
    assert read(ledger) == EVENT


@pytest.mark.parametrize("table", ["louver_event", "louver_payload"])
def test_connections_that_are_killed_each_time_leave_nothing_half_written(postgres, opening, guarded, table):
    role, url = guarded
    ledger = opening(url)
    with Blocked(postgres, ledger, role, url, table) as blocked:
        while blocked.thread.is_alive():
            blocked.end_once()
    (error,) = blocked.outcome
    assert isinstance(error, LedgerUnavailable)
    assert f"postgresql://{role.name}:***@" in str(error)
    assert rows_of(postgres, url) == {"event": 0, "payload": 0}
    write(ledger)
    assert rows_of(postgres, url) == {"event": 1, "payload": 1}


def test_a_row_that_stays_locked_is_told(postgres, opening, guarded):
    role, url = guarded
    ledger = opening(postgres.url(role=role, options=f"-csearch_path={schema_of(url)} -clock_timeout=20ms"))
    with Blocked(postgres, ledger, role, url, "louver_event") as blocked:
        blocked.thread.join()
        (error,) = blocked.outcome
        assert isinstance(error, LedgerUnavailable)
        assert "another process was in the way; try again" in str(error)
    write(ledger)
    assert read(ledger) == EVENT


@pytest.fixture
def proxy(postgres):
    with LossyProxy(postgres.port) as between:
        yield between


@pytest.fixture
def scene(postgres, proxy, opening):
    """A run whose ledger is reached through the proxy."""
    url = postgres.fresh_schema(sslmode="disable").replace(f":{postgres.port}/", f":{proxy.port}/")
    return Scene(name="scene", open_ledger=lambda: opening(url))


def begin_effect(scene, token):
    record = scene.started(token)
    assert (record.state, record.epoch) == (EffectState.STARTED, 1)
    assert scene.ledger.list_effects(scene.run) == [record]


def commit_effect(scene, token):
    record = scene.committed(token, result="receipt")
    assert record.state is EffectState.COMMITTED
    assert record.commit_sequence == 1
    assert scene.ledger.list_effects(scene.run) == [record]
    assert scene.ledger.load_effect(record)[1] == "receipt"
    assert scene.committed(token, "second").commit_sequence == 2


def advance(scene, token):
    before = scene.told()
    scene.ledger.advance(token, PARKED, now=scene.tick())
    assert [row.to_state for row in scene.told()[len(before) :]] == [TaskState.PAUSED]


def complete(scene, token):
    scene.ledger.complete(token, COMPLETED, {"n": 5}, now=scene.tick())
    assert [row.to_state for row in scene.told()].count(TaskState.SUCCEEDED) == 1
    assert scene.ledger.load_result(token.key) == {"n": 5}


def save_checkpoint(scene, token):
    for page in (1, 2):
        scene.ledger.save_checkpoint(token, "page", page, now=scene.tick())
        assert scene.ledger.load_checkpoint(token, "page", 0) == page


def accept_event(scene, token):
    outcome, _ = write(scene.ledger)
    assert outcome is EventOutcome.ACCEPTED
    assert read(scene.ledger) == EVENT
    assert write(scene.ledger)[0] is EventOutcome.DUPLICATE


@pytest.mark.parametrize("what", list(Lost), ids=str)
@pytest.mark.parametrize(
    ("decide", "marker"),
    [
        (begin_effect, b"louver_begin_effect"),
        (commit_effect, b"louver_commit_effect"),
        (advance, b"louver_advance"),
        (complete, b"louver_complete"),
        (save_checkpoint, b"louver_save_checkpoint"),
    ],
    ids=["begin", "commit", "advance", "complete", "checkpoint"],
)
@pytest.mark.parametrize(
    ("borrows", "form"), [(0, b"EXECUTE %b"), (99, b"/* %b */")], ids=["held", "borrowed"]
)
def test_a_lost_connection_loses_no_frequent_decision(
    scene, proxy, monkeypatch, decide, marker, what, borrows, form
):
    monkeypatch.setattr(connections, "_BORROWS", borrows)
    token = scene.launch()
    proxy.lose(what, of=form % marker)

    decide(scene, token)

    assert proxy.losses == 1


@pytest.mark.parametrize("what", list(Lost), ids=str)
@pytest.mark.parametrize(
    ("decide", "marker"),
    [(accept_event, b"INSERT INTO louver_payload"), (accept_event, b"COMMIT\0")],
    ids=["event", "COMMIT"],
)
def test_a_lost_connection_changes_neither_the_answer_nor_what_is_written(scene, proxy, decide, marker, what):
    token = scene.launch()
    proxy.lose(what, of=marker)

    decide(scene, token)

    assert proxy.losses == 1
