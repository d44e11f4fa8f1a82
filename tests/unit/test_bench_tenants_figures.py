"""What the benchmark of tenants says about what Airflow recorded; nothing is timed here."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from math import isnan

import pytest
from benchmarks.tenants.load import BUCKETS, FULL, NOISY, QUIET, planned
from benchmarks.tenants.report import as_json, as_table
from benchmarks.tenants.results import Phase, Results, TaskTimes, aims_of

from louver.buckets.policy import BucketPolicy

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


def task(tenant: str, *, ready: float, wait: float, work: float = 0.5) -> TaskTimes:
    """A task that waits half of its time for a slot."""
    parts = (0, wait / 4, wait * 3 / 4, wait, wait + work)
    moments = [NOON + timedelta(seconds=ready + part) for part in parts]
    names = ("ready", "scheduled", "queued", "started", "ended")
    return TaskTimes(tenant=tenant, pool="some", **dict(zip(names, moments, strict=True)))


def phase(name: str, wait: float, *, noisy: tuple[TaskTimes, ...] = ()) -> Phase:
    """Three tasks of each quiet tenant, the last of which had bad luck."""
    quiet = [
        task(tenant, ready=ready, wait=seconds)
        for tenant in QUIET
        for ready, seconds in ((1, wait), (2, wait), (30, wait * 10))
    ]
    return Phase(name=name, tasks=(*noisy, *quiet))


def measured(*, beside: float = 0.3, overlapping: bool = False) -> Results:
    one_by_one = tuple(task(NOISY, ready=0, wait=second, work=1.0) for second in range(40))
    at_once = tuple(task(NOISY, ready=0, wait=1.0, work=1.5) for _ in range(8))
    return Results(
        machine={"machine": "two cores"},
        alone=phase("alone", 0.2),
        bucketed=phase("buckets", beside, noisy=at_once if overlapping else one_by_one),
        one_pool=phase("one pool", 4.0, noisy=at_once),
    )


def test_every_tenant_has_a_bucket_of_its_own() -> None:
    policy = BucketPolicy.of(BUCKETS)
    assert {policy.bucket(tenant) for tenant in (NOISY, *QUIET)} == set(range(BUCKETS))


def test_the_quiet_tenants_load_is_the_same_with_and_without_the_noisy_one() -> None:
    alone, beside = list(planned(FULL, noisy=False)), list(planned(FULL, noisy=True))
    assert beside[1:] == alone
    assert (beside[0].tenant, beside[0].tasks) == (NOISY, 300)
    assert Counter(run.tenant for run in alone) == dict.fromkeys(QUIET, FULL.runs)
    # No two at the same moment.
    assert len({run.after for run in beside}) == len(beside)


def test_a_wait_is_told_apart_into_its_parts() -> None:
    found = phase("alone", 0.4)
    assert found.median() == pytest.approx(0.4)
    assert found.median("to be scheduled") == pytest.approx(0.1)
    assert found.median("for a slot") == pytest.approx(0.2)
    assert found.median("for its process") == pytest.approx(0.1)


def test_tasks_count_while_the_noisy_tenant_has_some_left() -> None:
    found = measured()
    assert len(found.alone.counted) == len(found.bucketed.counted) == 3 * len(QUIET)
    # Its eight tasks were over after two seconds and a half.
    assert len(found.one_pool.counted) == 2 * len(QUIET)


def test_a_phase_that_says_nothing_is_refused() -> None:
    early = Phase(name="early", tasks=(task(NOISY, ready=0, wait=0), task(QUIET[0], ready=9, wait=1)))
    with pytest.raises(ValueError, match="early: the noisy tenant was done before"):
        early.median()
    assert isnan(phase("alone", 0.4).median(tenant=NOISY))


def test_every_aim_is_kept_up_to_its_limit() -> None:
    assert [aim.verdict for aim in aims_of(measured(beside=0.3))] == ["ok"] * 3


def test_what_is_over_a_limit_is_missed() -> None:
    found = aims_of(measured(beside=0.301, overlapping=True))
    assert [aim.verdict for aim in found] == ["MISSED"] * 3
    assert found[-1].value == 8


def test_the_table_and_the_json_have_every_phase_and_verdict() -> None:
    found = measured()
    aims = aims_of(found)
    text = as_table(found, aims)
    assert "8 tasks, 8 at once, 2 s" in text
    assert f"{QUIET[0]}" in text
    assert "3 aims kept, 0 missed" in text
    document = json.loads(json.dumps(as_json(found, aims)))
    assert document["phases"]["buckets"]["times"] == pytest.approx(1.5)
    assert document["phases"]["one pool"]["noisy_at_once"] == 8
    assert [aim["verdict"] for aim in document["aims"]] == ["ok"] * 3
