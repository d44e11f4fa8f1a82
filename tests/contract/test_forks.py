"""A ledger that was opened before a fork works on both sides of it, each side with connections of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap

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
    with ledger._transaction() as rows:
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


def names(path):
    with sqlite3.connect(path) as connection:
        found = {name for (name,) in connection.execute("SELECT task_id FROM louver_task")}
    connection.close()
    return found


def test_parent_and_child_write_on(tmp_path):
    path = tmp_path / "ledger.db"
    run(
        """
        insert(ledger, "before")
        child = fork(lambda: [insert(ledger, f"child {n}") for n in range(20)])
        for n in range(20):
            insert(ledger, f"parent {n}")
        assert code(child) == 0
        ledger.close()
        """,
        f"sqlite:///{path}",
    )
    assert names(path) == {"before", *(f"{who} {n}" for who in ("parent", "child") for n in range(20))}


def test_nothing_that_the_child_wrote_is_lost_when_its_parent_closes_first(tmp_path):
    # With a connection inherited, SQLite in the child took no lock: the parent, closing, removed the log that
    # the child was writing to.
    path = tmp_path / "ledger.db"
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
        f"sqlite:///{path}",
    )
    assert names(path) == {"before", "child 1", "parent", "child 2"}


def test_a_fork_waits_for_the_transaction_of_another_thread(tmp_path):
    path = tmp_path / "ledger.db"
    run(
        """
        begun = threading.Event()
        def work():
            with ledger._transaction() as rows:
                rows.insert(task("thread"))
                begun.set()
                time.sleep(0.2)
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        assert code(fork(lambda: insert(ledger, "child"))) == 0
        thread.join()
        """,
        f"sqlite:///{path}",
    )
    assert names(path) == {"thread", "child"}


def test_a_child_that_was_forked_inside_a_transaction_is_told_so(tmp_path):
    path = tmp_path / "ledger.db"
    said = run(
        """
        with ledger._transaction() as rows:
            rows.insert(task("parent"))
            assert code(fork(lambda: insert(ledger, "child"))) == 1
        insert(ledger, "after")
        """,
        f"sqlite:///{path}",
    )
    assert said.startswith("LedgerUnavailable")
    assert "forked in the middle of a transaction" in said
    assert names(path) == {"parent", "after"}


def test_forks_and_threads_that_write_do_not_wait_for_each_other_for_ever(tmp_path):
    path = tmp_path / "ledger.db"
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
        f"sqlite:///{path}",
    )
    assert len(names(path)) == 85


def test_a_ledger_that_nobody_holds_any_more_is_not_kept_for_the_fork(tmp_path):
    import gc
    import weakref

    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.close()
    engines = weakref.ref(ledger._engines)
    del ledger
    gc.collect()
    assert engines() is None
