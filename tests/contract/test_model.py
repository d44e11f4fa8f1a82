"""
Memory, SQLite and Postgres are one model: whatever is done, in whatever order, they answer the same.

Random histories (see :mod:`support.histories`) are played on all of them at once, and their answers compared,
to the last field and the last word of an error.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from support.histories import Histories
from support.histories.values import LARGEST
from support.side_by_side import SideBySide

from louver.audit import mac_of
from louver.ledger import open_ledger
from louver.ledger.requests import RunFilter
from louver.maintenance import verify_ledger
from louver.signing import SigningKeys

KEYS = SigningKeys(secrets={"k1": b"0123456789abcdef", "k0": b"fedcba9876543210"})


@pytest.fixture
def opened(request, tmp_path):
    """Return the stores side by side, and why Postgres is not among them, if it is not."""
    urls = {"memory": "memory://", "SQLite": f"sqlite:///{tmp_path / 'ledger.db'}"}
    left_out = None
    try:
        urls["Postgres"] = request.getfixturevalue("postgres").fresh_schema()
    except pytest.skip.Exception as skipped:
        left_out = str(skipped)
    with ExitStack() as handles:
        ledgers = {
            name: handles.enter_context(open_ledger(url, KEYS, max_value_bytes=LARGEST))
            for name, url in urls.items()
        }
        yield SideBySide(ledgers), left_out


def test_all_stores_answer_the_same_whatever_is_done(opened):
    stores, left_out = opened

    run_state_machine_as_test(
        lambda: Histories(stores),
        settings=settings(
            max_examples=40, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
        ),
    )

    assert_unbroken(stores.model)
    for ledger in stores.stores.values():
        assert verify_ledger(ledger, limit=9).findings == ()
    if left_out is not None:
        pytest.skip(f"memory and SQLite answered the same; without Postgres: {left_out}")


def assert_unbroken(ledger):
    """Each row of each run is chained to the one before it in its chain, which counts from 1."""
    runs = ledger.list_runs(RunFilter(limit=10_000))
    assert len(runs) >= 40
    for run in runs:
        chains = {}
        for row in sorted(ledger.list_transitions(run.key), key=lambda row: row.version):
            chains.setdefault((row.task, row.chain), []).append(row)
        for rows in chains.values():
            assert [row.version for row in rows] == list(range(1, len(rows) + 1))
            before = ["", *(row.mac for row in rows)]
            assert [row.mac for row in rows] == [
                mac_of(row, previous, key_id="k1", keys=KEYS)
                for row, previous in zip(rows, before, strict=False)
            ]
