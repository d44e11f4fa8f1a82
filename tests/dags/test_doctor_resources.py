"""The doctor's look at who wakes steps that wait for a resource."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from airflow.jobs.job import Job
from airflow.utils.session import create_session
from sqlalchemy import delete
from support.airflow_rows import AirflowRows

from louver.ledger.contract import Ledger
from louver_provider.doctor.findings import Level
from louver_provider.doctor.resources import check_resources

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def airflow() -> AirflowRows:
    return AirflowRows()


@pytest.fixture(autouse=True)
def no_jobs(airflow: AirflowRows) -> Iterator[None]:
    yield
    with create_session(scoped=False) as session:
        session.execute(delete(Job).where(Job.job_type == "TriggererJob"))


def beat(at: datetime) -> None:
    with create_session(scoped=False) as session:
        job = Job(job_type="TriggererJob", state="running")
        job.latest_heartbeat = at
        session.add(job)


def found() -> tuple[Level, str]:
    (finding,) = check_resources(now=NOW)
    return finding.level, finding.what


def test_without_limits_nobody_has_to_be_woken(ledger: Ledger) -> None:
    assert found() == (Level.OK, "no resource has a limit")


@pytest.mark.parametrize(
    ("reconciler", "level", "words"),
    [
        ("embedded", Level.WARNING, "so the reconciler wakes them, seconds later"),
        ("off", Level.ERROR, "nobody wakes them"),
    ],
)
def test_without_a_triggerer_it_depends_on_the_reconciler(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, reconciler: str, level: Level, words: str
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"api": 1}')
    monkeypatch.setenv("AIRFLOW__LOUVER__RECONCILER", reconciler)
    beat(NOW - timedelta(minutes=5))

    assert found()[0] is level
    assert words in found()[1]


def test_a_triggerer_that_is_alive_wakes_them(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"api": 1}')
    beat(NOW - timedelta(seconds=5))

    assert found() == (Level.OK, "limits of api; 0 steps wait, and a triggerer wakes them")
