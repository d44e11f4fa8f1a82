"""Real processes that ask one retry budget at the same time are never given more than it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

from louver.ledger import open_ledger
from louver.retry_budgets import Rate

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
PROCESSES = 3

CHILD = """
import json
import sys
from datetime import datetime, timedelta, timezone

from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import RunStart
from louver.retry_budgets import parse_retry_budgets
from louver.sessions import Claim
from louver.states import Source

wanted = json.loads(sys.stdin.readline())
now = datetime(2026, 1, 2, tzinfo=timezone.utc)
run = RunKey(f"dag-{wanted['number']}", "run-1")
start = RunStart(
    key=run,
    definition_name="d",
    definition_version="1",
    definition_fingerprint="f" * 64,
    definition={},
    marker=None,
)
claim = Claim(try_number=1, max_tries=1, process="p", source=Source.WORKER)
budgets = parse_retry_budgets(wanted["budgets"]).values()
given = []
with open_ledger(wanted["url"]) as ledger:
    ledger.open_run(start, now=now)
    token = ledger.open_task(TaskKey(run.dag_id, run.run_id, "act"), claim, now=now).token
    print("ready", flush=True)
    sys.stdin.readline()
    for second in wanted["seconds"]:
        drawn = ledger.draw_retry(
            token, budgets, longest_wait=timedelta(hours=1), now=now + timedelta(seconds=second)
        )
        if drawn.granted:
            given.append((second, drawn.wait.total_seconds()))
print(json.dumps(given))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def given_to_all(url, budgets, seconds):
    """
    What processes are given that ask at the same time, each in a Dag of its own.

    :param seconds: when each of them asks, by the clock that it is given.
    :returns: for each retry, when it was asked for and how long it waits.
    """
    open_ledger(url).close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = []
    try:
        for number in range(PROCESSES):
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            children.append(child)
            wanted = {"url": url, "number": number, "budgets": budgets, "seconds": seconds}
            child.stdin.write(f"{json.dumps(wanted)}\n")
            child.stdin.flush()
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        told = [child.communicate(timeout=120)[0] for child in children]
        assert [child.returncode for child in children] == [0] * PROCESSES
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()
    return sorted((second, wait) for text in told for second, wait in json.loads(text))


def test_who_asks_while_time_goes_on_gets_what_is_there_and_no_more(url):
    seconds = [number / 2 for number in range(50) for _ in range(2)]
    rate = Rate.parse("10/min")

    given = given_to_all(url, '{"api": {"rate": "10/min", "when_empty": "fail"}}', seconds)

    assert {wait for _, wait in given} == {0.0}
    times = [timedelta(seconds=second) for second, _ in given]
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= rate.count + (times[last] - begin) // rate.interval
    assert rate.count <= len(times) <= rate.count + timedelta(seconds=seconds[-1]) // rate.interval
    with open_ledger(url) as ledger:
        (stands,) = ledger.list_retry_budgets()
    assert (stands.drawn, stands.drawn + stands.refused) == (len(times), PROCESSES * len(seconds))


def test_who_waits_has_a_turn_of_its_own(url):
    given = given_to_all(url, '{"api": "10/min", "other": "1000/s"}', [0.0] * 20)

    waits = [wait for _, wait in given]
    assert waits == [0.0] * 10 + [6.0 * turn for turn in range(1, PROCESSES * 20 - 9)]
