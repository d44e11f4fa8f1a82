"""An Airflow whose table of pools was emptied: what has a bucket runs once its pools are made (case A02)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from sqlalchemy import delete, select
from support.airflow_by_hand import AirflowByHand
from support.bucketed import bucketed
from support.story import Story, stage

from louver.ledger.contract import Ledger
from louver_provider.buckets.routes import DEFAULT_POOL

Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with stage() as by_hand:
        yield by_hand


@pytest.fixture
def no_pools(airflow: AirflowByHand) -> Iterator[None]:
    """There is none; afterwards there is Airflow's own again."""
    with create_session(scoped=False) as session:
        session.execute(delete(Pool))
    yield
    airflow.empty()
    with create_session(scoped=False) as session:
        session.execute(delete(Pool))
        session.add(Pool(pool=DEFAULT_POOL, slots=128, description="Default pool", include_deferred=False))


def pools() -> set[str]:
    with create_session(scoped=False) as session:
        return set(session.scalars(select(Pool.pool)))


def test_a_run_of_a_bucket_runs_to_its_end_without_any_pool_of_airflows(
    airflow: AirflowByHand, ledger: Ledger, rows_of: Rows, no_pools: None
) -> None:
    with bucketed(buckets=2):
        rows_of("buckets", "apply")
        story = Story(airflow, ledger, conf={"tenant": "acme"})
        story.finish()

        run = airflow.run(story.run)
        assert run is not None
        assert run.state == "success"
        used = {airflow.task(story.key(name)).pool for name in ("one", "two", "three", "outcome")}  # type: ignore[union-attr]
    assert len(used) == 1
    assert used < pools() == {"bucket_00", "bucket_01"}
