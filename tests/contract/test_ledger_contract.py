"""Both stores keep the contract, and the suite that says so can tell when one does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.testing import CHECKS, run_contract

STORES = ["memory", "sqlite"]
KEYS = {"k1": b"0123456789abcdef"}


def name_of(check):
    return check.__name__


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    # One for all checks: each has ids of its own, and a new file for each would take most of the time.
    return f"sqlite:///{tmp_path_factory.mktemp('contract') / 'ledger.db'}"


@pytest.fixture(params=STORES)
def open_store(request, database):
    opened = []

    def from_memory():
        if not opened:
            opened.append(open_ledger("memory://", KEYS))
        return opened[0]

    def from_database():
        opened.append(open_ledger(database, KEYS))
        return opened[-1]

    yield from_memory if request.param == "memory" else from_database
    for ledger in opened:
        ledger.close()


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
