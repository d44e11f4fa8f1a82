"""Both stores keep the contract, and the suite that says so can tell when one does not."""

from __future__ import annotations

import pytest

from louver.errors import LedgerClosed
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.testing import CHECKS

STORES = ["memory", "sqlite"]
KEYS = {"k1": b"0123456789abcdef"}


def name_of(check):
    return check.__name__


@pytest.fixture(scope="module", params=STORES)
def opened(request, tmp_path_factory):
    """Return how to open the store, and the handles on it that are open; all checks share them."""
    if request.param == "memory":
        url = "memory://"
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
        ledger.find_runs(dag_id="none")
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
