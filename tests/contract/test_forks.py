"""A ledger that was opened before a fork works on both sides of it, each side with connections of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from functools import partial

import psycopg2
import pytest

from louver.ledger import open_ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Forks run in a process of their own: pytest's may have threads, and a child must never go on as pytest.
PRELUDE = """
import os, sys, threading, time
from datetime import datetime, timezone
from louver.errors import LedgerUnavailable
from louver.ledger import open_ledger
from louver.ledger.records import TaskRecord

def task(name):
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return TaskRecord(dag_id="d", run_id="r", task_id=name, map_index=-1, updated_at=at)

def insert(ledger, name):
    with ledger._transaction(write=True) as rows:
        assert rows.insert(task(name))

def fork(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
    return child

def code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

ledger = open_ledger(sys.argv[1])
"""


def run(code, url):
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + textwrap.dedent(code), url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


class Sqlite:
    def __init__(self, path):
        self.url = f"sqlite:///{path}"
        self.connect = partial(sqlite3.connect, path)


class Postgres:
    def __init__(self, url):
        self.url = url
        self.connect = partial(psycopg2.connect, url)


def names(database):
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT task_id FROM louver_task")
        return {name for (name,) in cursor.fetchall()}


@pytest.fixture
def sqlite(tmp_path):
    return Sqlite(tmp_path / "ledger.db")


@pytest.fixture
def postgresql(postgres_url):
    return Postgres(postgres_url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    return request.getfixturevalue(request.param)


def test_parent_and_child_write_on(database):
    run(
        """
        insert(ledger, "before")
        child = fork(lambda: [insert(ledger, f"child {n}") for n in range(20)])
        for n in range(20):
            insert(ledger, f"parent {n}")
        assert code(child) == 0
        ledger.close()
        """,
        database.url,
    )
    assert names(database) == {"before", *(f"{who} {n}" for who in ("parent", "child") for n in range(20))}


def test_nothing_that_the_child_wrote_is_lost_when_its_parent_closes_first(database):
    # With a connection inherited, SQLite in the child took no lock: the parent, closing, removed the log that
    # the child was writing to.
    run(
        """
        insert(ledger, "before")
        go, closed = os.pipe(), os.pipe()
        def work():
            insert(ledger, "child 1")
            os.write(go[1], b"x")
            os.read(closed[0], 1)
            insert(ledger, "child 2")
            os.kill(os.getpid(), 9)
        child = fork(work)
        os.read(go[0], 1)
        insert(ledger, "parent")
        ledger.close()
        os.write(closed[1], b"x")
        assert code(child) == -9
        """,
        database.url,
    )
    assert names(database) == {"before", "child 1", "parent", "child 2"}


def test_a_fork_waits_for_the_transaction_of_another_thread(sqlite):
    run(
        """
        begun = threading.Event()
        def work():
            with ledger._transaction(write=True) as rows:
                rows.insert(task("thread"))
                begun.set()
                time.sleep(0.2)
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        assert code(fork(lambda: insert(ledger, "child"))) == 0
        thread.join()
        """,
        sqlite.url,
    )
    assert names(sqlite) == {"thread", "child"}


def test_a_child_does_not_wait_for_a_transaction_of_its_parents_in_postgres(postgresql):
    run(
        """
        with ledger._transaction(write=True) as rows:
            rows.insert(task("parent"))
            assert code(fork(lambda: insert(ledger, "child"))) == 0
        insert(ledger, "after")
        """,
        postgresql.url,
    )
    assert names(postgresql) == {"parent", "child", "after"}


def test_a_child_that_ends_as_any_process_leaves_its_parents_connection_alone(database):
    run(
        """
        insert(ledger, "before")
        child = os.fork()
        if child == 0:
            insert(ledger, "child")
            sys.exit()
        assert code(child) == 0
        for n in range(3):
            insert(ledger, f"parent {n}")
        """,
        database.url,
    )
    assert names(database) == {"before", "child", "parent 0", "parent 1", "parent 2"}


def test_a_child_has_connections_of_its_own(postgresql):
    said = run(
        """
        def backend():
            with ledger._engines.begin() as connection:
                print(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar(), flush=True)
        backend()
        assert code(fork(backend)) == 0
        backend()
        """,
        postgresql.url,
    )
    first, of_child, again = said.split()
    assert first == again
    assert first != of_child


def test_a_child_that_was_forked_inside_a_transaction_is_told_so(sqlite):
    said = run(
        """
        with ledger._transaction(write=True) as rows:
            rows.insert(task("parent"))
            assert code(fork(lambda: insert(ledger, "child"))) == 1
        insert(ledger, "after")
        """,
        sqlite.url,
    )
    assert said.startswith("LedgerUnavailable")
    assert "forked in the middle of a transaction" in said
    assert names(sqlite) == {"parent", "after"}


def test_forks_and_threads_that_write_do_not_wait_for_each_other_for_ever(database):
    run(
        """
        def work(number):
            for n in range(25):
                insert(ledger, f"thread {number} {n}")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for n in range(10):
            assert code(fork(lambda: insert(ledger, f"child {n}"))) == 0
        for thread in threads:
            thread.join()
        """,
        database.url,
    )
    assert len(names(database)) == 85


def test_a_ledger_that_nobody_holds_any_more_is_not_kept_for_the_fork(tmp_path):
    import gc
    import weakref

    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.close()
    engines = weakref.ref(ledger._engines)
    del ledger
    gc.collect()
    assert engines() is None
