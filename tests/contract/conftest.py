"""What the tests of several stores share."""

from __future__ import annotations

import pytest
from support.pasts import KEYS
from support.stores import STORES, store_of

from louver.ledger import open_ledger


@pytest.fixture
def opening():
    """Open a ledger; closed at the end."""
    opened = []

    def open_one(url):
        opened.append(open_ledger(url))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    """A new store of each kind, whose rows may be written past the ledger."""
    made = store_of(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def ledger(store):
    """A ledger on it, with keys."""
    return store.open(KEYS)
