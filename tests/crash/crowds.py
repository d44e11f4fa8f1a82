"""What processes do that are many; see :class:`support.nursery.Nursery`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg2
from psycopg2 import errors
from support.nursery import Talk

from crash.children import play_cases
from crash.story import KEYS
from louver.ledger import open_ledger
from louver.ledger.names import RunKey
from louver.ledger.requests import RunFilter

__all__ = ["get_in_the_way", "read_along", "write"]


def write(talk: Talk, *, story: str, url: str, shop: str, who: str, runs: int) -> list[str]:
    """Wait for the others, then open the ledger and play whole runs; which cases there were."""
    talk.say("ready")
    talk.hear()

    def cases() -> Iterator[str]:
        talk.say("open")
        yield from (f"{who}-{number}" for number in range(runs))

    return play_cases(story, url, shop, cases())


def read_along(talk: Talk, *, url: str, dag_id: str) -> int:
    """Read all there is, again and again, until told; how often."""
    with open_ledger(url, KEYS) as ledger:
        talk.say("ready")
        for times in itertools.count():
            if talk.is_told():
                return times
            for run in ledger.list_runs(RunFilter(dag_id=dag_id, limit=20)):
                key = RunKey(run.dag_id, run.run_id)
                tasks = ledger.list_tasks(key)
                rows = ledger.list_transitions(key)
                # What is read is one moment: no transition without its task's record, or the other way round.
                if sum(task.version for task in tasks) > len(rows):
                    raise AssertionError(f"{key}: {len(rows)} transitions of {tasks}")
    return 0


def get_in_the_way(talk: Talk, *, url: str) -> int:
    """
    Lock rows in an order of one's own, until told; how often the server gave this process up for it.

    The ledger takes a task first and its run last. Here it is the other way round.
    """
    given_up = 0
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            talk.say("ready")
            while not talk.is_told():
                try:
                    cursor.execute(
                        "SELECT r.dag_id, r.run_id FROM louver_run r WHERE r.state = 'running' "
                        "ORDER BY random() LIMIT 8 FOR UPDATE"
                    )
                    for run in cursor.fetchall():
                        cursor.execute(
                            "SELECT 1 FROM louver_task WHERE dag_id = %s AND run_id = %s FOR UPDATE", run
                        )
                    connection.rollback()
                except errors.DeadlockDetected:
                    given_up += 1
                    connection.rollback()
    finally:
        connection.close()
    return given_up
