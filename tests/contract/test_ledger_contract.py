"""All stores keep the contract, and the suite that says so can tell when one does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from louver.audit import mac_of
from louver.errors import LedgerClosed
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.requests import Capability, RunFilter
from louver.signing import SigningKeys
from louver.testing import CHECKS

STORES = ["memory", "sqlite", "postgresql"]
KEYS = {"k1": b"0123456789abcdef"}


def name_of(check):
    return check.__name__


@pytest.fixture(scope="module", params=STORES)
def opened(request, tmp_path_factory):
    """Return how to open the store, and the handles on it that are open; all checks share them."""
    if request.param == "memory":
        url = "memory://"
    elif request.param == "postgresql":
        url = request.getfixturevalue("postgres").fresh_schema()
    else:
        url = f"sqlite:///{tmp_path_factory.mktemp('contract') / 'ledger.db'}"
    handles = []

    def open_one():
        # What is in memory is in one object.
        if url == "memory://" and handles:
            return handles[0]
        return open_ledger(url, KEYS)

    yield open_one, handles
    for handle in handles:
        handle.close()


@pytest.fixture
def open_store(opened):
    open_one, handles = opened
    given = []

    def next_handle():
        if len(given) == len(handles):
            handles.append(open_one())
        given.append(handles[len(given)])
        return given[-1]

    yield next_handle
    handles[:] = filter(is_open, handles)


def is_open(ledger):
    try:
        ledger.get_run(RunKey("contract-none", "none"))
    except LedgerClosed:
        return False
    return True


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_the_store_keeps_the_contract(check, open_store):
    check(open_store)


def test_every_operation_has_a_check():
    operations = {name for name in Ledger.__abstractmethods__ if not name.startswith("_")}
    covered = {
        operation
        for operation in operations
        if any(name_of(check).startswith(f"check_{operation}_") for check in CHECKS)
    }

    assert sorted(operations - covered) == []


def test_no_check_is_listed_twice():
    names = [name_of(check) for check in CHECKS]

    assert len(names) == len(set(names))


LIVES = ("check_get_task_knows_the_end_of_each_chain", "check_advance_versions_have_no_gaps")


def test_the_chains_that_the_checks_leave_are_unbroken(open_store):
    """The suite does not know the keys; here they are known, and each row must go on from the one before."""
    for check in CHECKS:
        if name_of(check) in LIVES:
            check(open_store)
    ledger, keys = open_store(), SigningKeys(secrets=KEYS)
    runs = [
        run.key for run in ledger.list_runs(RunFilter(limit=10_000)) if run.dag_id.startswith("contract-")
    ]

    longest = 0
    for run in runs:
        last = {}
        rows = ledger.list_transitions(run)
        for row in sorted(rows, key=lambda row: row.version):
            version, before = last.get((row.task, row.chain), (0, ""))
            assert row.version == version + 1
            assert row.mac == mac_of(row, before, key_id=row.key_id, keys=keys)
            last[row.task, row.chain] = row.version, row.mac
            longest = max(longest, row.version)
        for task in ledger.list_tasks(run):
            assert last.get((task.key, "main"), (0, "")) == (task.version, task.head)
            assert last.get((task.key, "side"), (0, "")) == (task.side_version, task.side_head)
    assert len(runs) >= len(LIVES)
    assert longest > 10


CHILD = """
import sys
from datetime import datetime, timezone
from louver.ledger import open_ledger
from louver.ledger.names import RunKey
from louver.ledger.requests import RunStart

url, run_id, marker = sys.stdin.read().split()
start = RunStart(
    key=RunKey("contract-shared", run_id),
    definition_name="contract",
    definition_version="1",
    definition_fingerprint="f" * 64,
    definition={},
    marker=marker,
)
with open_ledger(url, {"k1": b"0123456789abcdef"}) as ledger:
    made = ledger.open_run(start, now=datetime(2026, 1, 2, tzinfo=timezone.utc))
    print(made.incarnation)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def test_what_is_declared_shared_and_durable_is_so_between_processes(shared_url):
    def child(marker):
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            input=f"{shared_url} run-1 {marker}",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with open_ledger(shared_url, KEYS) as ledger:
        assert {Capability.SHARED, Capability.DURABLE} <= ledger.CAPABILITIES
        assert child("one") == "1"
        run = ledger.get_run(RunKey("contract-shared", "run-1"))
        assert (run.marker, run.incarnation) == ("one", 1)
        assert child("two") == "2"
        assert ledger.get_run(run.key).incarnation == 2
