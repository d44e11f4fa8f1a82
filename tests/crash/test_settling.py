"""Whether a transaction came about is told by its rows, where its number alone may be another's by now."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from louver.ledger import open_ledger
from louver.ledger.records import LeaseRecord
from louver.ledger.sql.postgres.settling import bear_out
from louver.ledger.sql.rows import SqlRows

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
ONE = LeaseRecord(name="one", owner="me", term=1, acquired_at=NOW, lease_until=NOW)
OTHER = replace(ONE, name="other")


class Desk:
    """Writes leases, each time in a transaction whose number it tells."""

    def __init__(self, ledger):
        self.engines = ledger._engines

    @contextmanager
    def writing(self, *, kept=True):
        with self.engines.connect(write=True) as connection, connection.begin() as transaction:
            rows = SqlRows(connection)
            yield rows
            self.number = int(connection.exec_driver_sql("SELECT pg_current_xact_id()::text").scalar())
            if not kept:
                transaction.rollback()

    def borne_out(self, number, written):
        with self.engines.connect(write=False) as connection, connection.begin():
            return bear_out(connection, number, written)


@pytest.fixture
def desk(postgres_url):
    with open_ledger(postgres_url) as ledger:
        yield Desk(ledger)


def test_rows_that_are_as_they_were_left_bear_it_out(desk):
    with desk.writing() as rows:
        rows.insert(ONE)
        rows.update(replace(ONE, term=2))
        rows.put(OTHER)

    assert set(rows.written.values()) == {replace(ONE, term=2), OTHER}
    assert desk.borne_out(desk.number, rows.written) is True


def test_a_row_that_is_not_there_does_not(desk):
    with desk.writing(kept=False) as rows:
        rows.insert(ONE)

    assert desk.borne_out(desk.number, rows.written) is False


def test_a_row_that_is_as_it_was_before_does_not(desk):
    with desk.writing() as rows:
        rows.insert(ONE)
    with desk.writing(kept=False) as rows:
        rows.update(replace(ONE, term=2))

    assert desk.borne_out(desk.number, rows.written) is False


def test_a_row_that_another_of_the_same_number_wrote_does_not(desk):
    with desk.writing() as rows:
        rows.insert(ONE)
    mine = {key: replace(record, owner="another") for key, record in rows.written.items()}

    assert desk.borne_out(desk.number, mine) is False


def test_a_row_that_was_written_since_tells_nothing_and_another_one_does(desk):
    with desk.writing() as rows:
        rows.insert(ONE)
        rows.insert(OTHER)
    number, written = desk.number, rows.written
    with desk.writing() as rows:
        rows.update(replace(ONE, term=2))
    assert desk.borne_out(number, written) is True

    with desk.writing() as rows:
        rows.update(replace(OTHER, term=2))
    assert desk.borne_out(number, written) is None


def test_where_nothing_was_written_it_may_be_done_again(desk):
    with desk.writing() as rows:
        assert rows.get(LeaseRecord, "one") is None

    assert desk.borne_out(desk.number, rows.written) is False


def test_numbers_are_compared_by_the_half_that_a_row_keeps(desk):
    with desk.writing() as rows:
        rows.insert(ONE)

    assert desk.borne_out(desk.number + (1 << 32), rows.written) is True
