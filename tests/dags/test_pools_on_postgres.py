"""Pools are made on Postgres as on SQLite: within another's transaction, by several at once, harmlessly."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from airflow.models.pool import Pool
from airflow.models.team import Team
from sqlalchemy import Engine, create_engine, make_url, select
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from louver_provider.buckets.pools import describe_pool, make_pools


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    """A database with Airflow's table of pools."""
    url = make_url(postgres_url).set(drivername="postgresql+psycopg2")
    made = create_engine(url, poolclass=NullPool)
    Pool.metadata.create_all(made, tables=[Team.__table__, Pool.__table__])
    yield made
    made.dispose()


def rows(engine: Engine) -> list[tuple[str, int, str, bool]]:
    with Session(engine) as session:
        query = select(Pool.pool, Pool.slots, Pool.description, Pool.include_deferred).order_by(Pool.pool)
        return [tuple(row) for row in session.execute(query)]


def test_a_pool_is_made_once_and_never_changed(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        assert make_pools(session, {7: 4}) == 1
        assert make_pools(session, {7: 9}) == 0
    with Session(engine) as session, session.begin():
        make_pools(session, {8: 1, 7: 9})
    assert rows(engine) == [
        ("bucket_07", 4, describe_pool(7), False),
        ("bucket_08", 1, describe_pool(8), False),
    ]


def test_what_the_scheduler_rolls_back_is_not_there(engine: Engine) -> None:
    with Session(engine) as session:
        make_pools(session, {7: 4})
        session.rollback()
    assert rows(engine) == []


def test_two_schedulers_that_make_the_same_pool_both_go_on(engine: Engine) -> None:
    first, made = threading.Event(), threading.Event()

    def other() -> None:
        with Session(engine) as session, session.begin():
            first.wait(10)
            # It waits for the first one's transaction to end, and finds the pool there.
            make_pools(session, {7: 4})
            made.set()

    thread = threading.Thread(target=other)
    thread.start()
    with Session(engine) as session, session.begin():
        make_pools(session, {7: 4})
        first.set()
    thread.join(20)
    assert made.is_set()
    assert [row[0] for row in rows(engine)] == ["bucket_07"]
