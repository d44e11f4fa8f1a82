"""What the tests of several stores share."""

from __future__ import annotations

import pytest

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
