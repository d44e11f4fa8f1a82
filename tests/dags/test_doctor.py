"""``airflow louver doctor`` on Airflow's real tables: what it finds, and that each finding can be mended."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import time_machine
from airflow import settings as airflow_settings
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.models.pool import Pool
from airflow.policies import hookimpl
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.net import get_hostname
from airflow.utils.session import create_session
from sqlalchemy import delete, select, update
from support.airflow_rows import AirflowRows
from support.bucketed import bucketed

from louver.definition import Definition
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver_provider import cluster_policies
from louver_provider.buckets.pools import describe_pool
from louver_provider.buckets.routes import DEFAULT_POOL
from louver_provider.buckets.settings import require_bucket_settings
from louver_provider.buckets.start import report_start, scheduler_starts
from louver_provider.dag_builder import build_dag
from louver_provider.dags import compensation_dag
from louver_provider.decorators.task_step import step_task
from louver_provider.doctor import buckets as checks
from louver_provider.doctor.components import LiveScheduler, check_clocks, newest
from louver_provider.doctor.findings import Finding, Level
from louver_provider.doctor.probe import probe_policy
from louver_provider.doctor.queues import in_one_place, queues_in, served_queues
from louver_provider.doctor.reports import Report, fingerprints, own_report, read_reports
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.reconciler.rescue import RESCUE_DAG

Louver = Callable[..., tuple[int, str, str]]

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def deployed() -> Iterator[AirflowRows]:
    with time_machine.travel(NOW, tick=False):
        found = AirflowRows()
        with create_session(scoped=False) as session:
            # Of other tests: their files are gone.
            session.execute(update(DagModel).values(is_stale=True))
        with DAG("work", schedule=None) as dag:
            EmptyOperator(task_id="one")
            EmptyOperator(task_id="two", pool="eft", queue="gpu")
            EmptyOperator(task_id="three")
        found.deploy(dag)
        yield found
        found.clear()


@pytest.fixture
def airflow(deployed: AirflowRows, ledger: Ledger) -> Iterator[AirflowRows]:
    with create_session(scoped=False) as session:
        session.add(Pool(pool="eft", slots=2, description="", include_deferred=False))
    yield deployed
    deployed.clear()
    with create_session(scoped=False) as session:
        session.execute(delete(Pool).where(Pool.pool != DEFAULT_POOL))
        session.execute(delete(Job))


@pytest.fixture
def scheduler(airflow: AirflowRows) -> None:
    """A scheduler that is alive, and an API server; both say what they are."""
    with create_session(scoped=False) as session:
        session.add(Job(job_type="SchedulerJob", state="running", start_date=NOW, latest_heartbeat=NOW))


def found_by(louver: Louver, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, err = louver("doctor", *arguments, "--output", "json")
    assert err == ""
    rows: list[dict[str, Any]] = json.loads(out)
    for row in rows:
        assert row["mend"] or row["level"] == "ok", row
    return code, rows


def of(rows: list[dict[str, Any]], check: str) -> list[tuple[str, str]]:
    return [(row["level"], row["what"]) for row in rows if row["check"] == check]


def test_a_sound_installation_has_nothing_to_mend(scheduler: None, louver: Louver) -> None:
    with bucketed(bucket_slots=4):
        scheduler_starts()
        report_start("api-server")
        assert found_by(louver) == (0, [])
        code, rows = found_by(louver, "--all")
    assert code == 0
    assert {row["check"] for row in rows} == {
        *("options", "ledger", "policy", "settings", "pools", "resources", "compensation"),
    }
    assert len(of(rows, "policy")) == 3


def test_without_buckets_nothing_is_asked_of_them(scheduler: None, louver: Louver) -> None:
    code, rows = found_by(louver, "--all")
    assert code == 0
    assert ("ok", "there are no buckets; [louver] buckets is empty") in of(rows, "options")
    assert of(rows, "policy") == of(rows, "pools") == of(rows, "owners") == []


def test_a_bad_option_is_named_and_the_other_checks_go_on(
    scheduler: None, louver: Louver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "many")
    monkeypatch.setenv("AIRFLOW__LOUVER__RESUME_GUARD", "soon")
    code, rows = found_by(louver, "--all")
    assert code == 3
    assert [text.partition(":")[0] for level, text in of(rows, "options") if level == "error"] == [
        "[louver] buckets",
        "could not be looked at",
    ]
    assert "resume_guard" in of(rows, "options")[1][1]


# The ledger


def away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is to be there."""
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", url)
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:////nowhere/at/all/louver.db", "the directory /nowhere/at/all does not exist; make it"),
        ("memory://", "Airflow cannot use MemoryLedger"),
        ("louver", "the ledger URL has no scheme; give "),
        ("mysql://ann:zq7marker@db/louver", "'mysql' is no kind of ledger; give "),
        ("postgresql://ann:zq7marker@localhost:1/louver", "check that the server runs"),
        ("postgresql://ann:zq7marker@localhost:port/louver", "the ledger URL cannot be read"),
    ],
)
def test_a_ledger_that_cannot_be_opened_is_found_and_the_other_checks_go_on(
    scheduler: None, louver: Louver, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    """Case K02: a wrong option; whatever it is, a scheduler starts with it."""
    away(url, monkeypatch)
    scheduler_starts()
    code, rows = found_by(louver, "--all")
    assert code == 3
    ((level, what),) = of(rows, "ledger")
    assert (level, words in what) == ("error", True)
    assert "zq7marker" not in json.dumps(rows)
    assert of(rows, "compensation")
    # Whoever started with the same has the same trouble, and no other settings.
    assert not [text for _, text in of(rows, "settings") if "other settings" in text]
    assert len(read_reports(now=NOW)) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE louver_run", "run `airflow louver db upgrade`"),
        ("UPDATE louver_alembic_version SET version_num = '0001'", "its schema has revision 0001"),
        ("DELETE FROM louver_alembic_version", "it has tables but no revision"),
    ],
)
def test_a_ledger_without_its_tables_is_found_with_the_way_out(
    airflow: AirflowRows,
    louver: Louver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    words: str,
) -> None:
    file = tmp_path / "changed.db"
    url = f"sqlite:///{file}"
    open_ledger(url, "k1:0123456789abcdef").close()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(change)
    away(url, monkeypatch)
    code, rows = found_by(louver)
    assert code == 3
    ((level, what),) = of(rows, "ledger")
    assert (level, words in what) == ("error", True)
    assert "airflow louver db upgrade" in what


def test_a_driver_that_is_not_installed_is_found_by_its_name(
    airflow: AirflowRows, louver: Louver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case K02: the import of an optional package fails."""
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    away("postgresql://ann:zq7marker@localhost:1/louver", monkeypatch)
    scheduler_starts()
    code, rows = found_by(louver)
    assert code == 3
    assert of(rows, "ledger") == [
        (
            "error",
            "what the ledger's database needs is missing: psycopg2 cannot be imported",
        )
    ]
    (mend,) = [row["mend"] for row in rows if row["check"] == "ledger"]
    assert "pip install psycopg2-binary" in mend


# Compensation from outside


def have_steps(airflow: AirflowRows, *, plain: bool) -> None:
    """A Dag with a step of Louver's."""
    if plain:
        with DAG("stepped", schedule=None) as dag:
            step_task(work)()
    else:
        story = Definition(name="stepped", version="1", nodes=[Step(name="one", task="tests:work")])
        dag = build_dag(story, tasks={"tests:work": work})
    airflow.deploy(dag)


def work() -> None:
    """What a step does."""


@pytest.fixture
def forgotten(airflow: AirflowRows) -> Iterator[None]:
    """What is deployed in a test is not there in the next."""
    yield
    with create_session(scoped=False) as session:
        for dag_id in ("stepped", RESCUE_DAG):
            session.execute(delete(DagModel).where(DagModel.dag_id == dag_id))


@pytest.mark.parametrize("plain", [False, True], ids=["a workflow", "a plain Dag"])
@pytest.mark.usefixtures("forgotten")
def test_where_nothing_compensates_runs_that_are_ended_from_outside_that_is_found(
    airflow: AirflowRows, louver: Louver, plain: bool
) -> None:
    (nobody,) = of(found_by(louver, "--all")[1], "compensation")
    assert nobody == ("ok", "no Dag has steps of Louver's, so none needs louver_compensate")

    have_steps(airflow, plain=plain)
    code, rows = found_by(louver)
    assert code == 3
    ((level, what),) = of(rows, "compensation")
    assert (level, what.startswith("there is no Dag louver_compensate, and stepped may need it: ")) == (
        "error",
        True,
    )
    (mend,) = [row["mend"] for row in rows if row["check"] == "compensation"]
    assert "dags/louver_system.py" in mend

    airflow.deploy(compensation_dag())
    assert of(found_by(louver)[1], "compensation") == []


@pytest.mark.parametrize(
    ("column", "words"), [("is_paused", "is paused"), ("has_import_errors", "has import errors")]
)
@pytest.mark.usefixtures("forgotten")
def test_a_dag_that_compensates_and_does_not_run_is_found(
    airflow: AirflowRows, louver: Louver, column: str, words: str
) -> None:
    have_steps(airflow, plain=False)
    airflow.deploy(compensation_dag())
    with create_session(scoped=False) as session:
        session.execute(update(DagModel).where(DagModel.dag_id == RESCUE_DAG).values({column: True}))
    code, rows = found_by(louver)
    assert code == 3
    ((level, what),) = of(rows, "compensation")
    assert (level, what.startswith(f"louver_compensate {words}: ")) == ("error", True)


# The policy


def test_the_probe_is_routed_where_the_policy_is_live() -> None:
    for options in ({}, {"bucket_key": "a.b"}, {"bucket_key": "", "bucket_key_by_dag": '{"x": {"key": 1}}'}):
        with bucketed(**options):
            assert probe_policy(now=NOW) is None


def test_a_policy_that_airflow_does_not_call_is_found(louver: Louver, scheduler: None) -> None:
    """Case A13: registered, and not live."""
    hook: Any = airflow_settings.task_instance_mutation_hook
    with bucketed():
        hook.is_noop = True
        assert probe_policy(now=NOW) == "Airflow does not call the policy when it creates task instances"
        airflow_settings.get_policy_plugin_manager().unregister(name=cluster_policies.PLUGIN)
        assert probe_policy(now=NOW) == "the policy is not registered"
        code, rows = found_by(louver)
    assert code == 3
    assert any("this command" in text and "not registered" in text for _, text in of(rows, "policy"))


class _Meddler:
    """Another policy, as people have them in airflow_local_settings: it wins over what buckets decide."""

    @hookimpl(trylast=True)
    def task_instance_mutation_hook(self, task_instance: Any, dag_run: Any) -> None:
        task_instance.pool = "eft"


class _Assigner:
    """Another policy, which gives every task a pool before buckets are asked."""

    @hookimpl
    def task_instance_mutation_hook(self, task_instance: Any, dag_run: Any) -> None:
        task_instance.pool = "eft"


@pytest.mark.parametrize("other", [_Meddler(), _Assigner()])
def test_a_policy_that_another_one_overrules_is_found(other: Any) -> None:
    manager = airflow_settings.get_policy_plugin_manager()
    with bucketed():
        manager.register(other)
        try:
            assert "another policy" in (probe_policy(now=NOW) or "")
        finally:
            manager.unregister(other)


def test_a_scheduler_that_said_nothing_is_found(scheduler: None, louver: Louver) -> None:
    with bucketed():
        code, rows = found_by(louver)
    assert code == 3
    host = get_hostname()
    assert ("error", f"a scheduler on {host} has not said that it knows Louver") in of(rows, "policy")
    assert ("warning", "no API server has said that it knows Louver") in of(rows, "policy")


def test_a_component_without_the_policy_is_found(scheduler: None, louver: Louver) -> None:
    with bucketed():
        airflow_settings.get_policy_plugin_manager().unregister(name=cluster_policies.PLUGIN)
        scheduler_starts()
    with bucketed():
        code, rows = found_by(louver)
    assert code == 3
    (broken,) = [text for level, text in of(rows, "policy") if level == "error"]
    assert broken.startswith(f"scheduler on {get_hostname()}")
    assert broken.endswith("runs are not routed into buckets: the policy is not registered")


def test_a_scheduler_that_is_gone_is_not_asked_for(airflow: AirflowRows, louver: Louver) -> None:
    with create_session(scoped=False) as session:
        session.add(
            Job(job_type="SchedulerJob", state="running", start_date=NOW, latest_heartbeat=NOW - 5 * MINUTE)
        )
        session.flush()
        session.scalars(select(Job)).one().latest_heartbeat = NOW - 5 * MINUTE
    with bucketed():
        report_start("api-server")
        _, rows = found_by(louver)
    assert of(rows, "policy") == [("warning", "no scheduler is alive")]


# Settings and clocks


def test_other_settings_in_a_component_are_named_and_not_shown(scheduler: None, louver: Louver) -> None:
    with bucketed(bucket_key_by_dag='{"nightly": {"key": "secret-tenant"}}', bucket_owners="node-a:0-63"):
        scheduler_starts()
        report_start("api-server")
    with bucketed():
        code, rows = found_by(louver)
    assert code == 3
    told = of(rows, "settings")
    assert len(told) == 2
    for level, text in told:
        assert level == "error"
        assert "other settings than this command: [louver] bucket_key_by_dag, [louver] bucket_owners" in text
    with create_session(scoped=False) as session:
        assert "secret-tenant" not in json.dumps(list(session.scalars(select(Log.extra))))


def test_secrets_are_in_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "k1:0123456789abcdef")
    url = "postgresql://ann:{}@db.example.com/louver"
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", url.format("one"))
    one = fingerprints()
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", url.format("two"))
    assert fingerprints() == one
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "k1:0123456789abcdeF")
    changed = fingerprints()
    assert [name for name in one if one[name] != changed[name]] == ["[louver] signing_keys"]


def test_limits_of_resources_are_among_what_components_must_agree_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fingerprints()
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"api": 1}')
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCE_TAGS", "pays=api")
    changed = fingerprints()
    assert [name for name in one if one[name] != changed[name]] == [
        "[louver] resources",
        "[louver] resource_tags",
    ]


def report(component: str = "scheduler", **other: Any) -> Report:
    known: dict[str, Any] = {
        "component": component,
        "host": "one",
        "pid": 1,
        "at": NOW,
        "version": "1",
        "trouble": None,
        "settings": {},
        "skew": None,
    }
    return Report(**(known | other))


def test_of_each_process_the_newest_report_counts() -> None:
    old = report(at=NOW - 60 * MINUTE, pid=1)
    new = report(at=NOW, pid=2)
    first = report("api-server", at=NOW - 60 * MINUTE, pid=3)
    again = [report("api-server", at=NOW - MINUTE, pid=4), report("api-server", at=NOW, pid=5)]
    reports = [again[1], new, again[0], old, first]
    schedulers = [LiveScheduler(host="one", since=NOW - MINUTE), LiveScheduler(host="two", since=NOW)]
    assert newest(reports, schedulers) == [new, again[1], again[0]]


def test_of_the_api_servers_on_this_host_those_that_are_alive_count() -> None:
    reports = [report("api-server", at=NOW - number * 60 * MINUTE, pid=number) for number in range(3)]
    assert newest(reports, [], here="one", alive={0, 2}.__contains__) == [reports[0], reports[2]]
    assert newest(reports, [], here="two", alive={0, 2}.__contains__) == [reports[0]]


def test_two_schedulers_of_one_host_have_a_report_each() -> None:
    both = [report(pid=1), report(pid=2)]
    schedulers = [LiveScheduler(host="one", since=NOW)] * 2
    assert newest(both, schedulers) == both


def test_a_report_that_cannot_be_read_is_none(airflow: AirflowRows) -> None:
    with create_session(scoped=False) as session:
        for extra in (None, "", "[]", "{}", '{"component": "scheduler"}'):
            session.add(Log(event="louver_started", owner="louver", extra=extra))
    report_start("scheduler")
    (found,) = read_reports(now=NOW)
    assert replace(found, component="x") == replace(own_report("x"), at=found.at)


@pytest.mark.parametrize(("skew", "said"), [(3.5, "3.5 s ahead of"), (-3.5, "3.5 s behind")])
def test_a_clock_that_is_off_is_found(skew: float, said: str) -> None:
    (wrong,) = check_clocks(report(skew=0.1), [report("api-server", skew=skew)])
    assert (wrong.level, said in wrong.what) == (Level.ERROR, True)
    (fine,) = check_clocks(report(skew=0.1), [report(skew=-1.9)])
    assert fine.level is Level.OK
    assert list(check_clocks(report(), [])) == []


# Pools, owners, queues


def make_pools(**slots: int) -> None:
    with create_session(scoped=False) as session:
        for name, count in slots.items():
            number = int(name.rpartition("_")[2])
            session.add(
                Pool(pool=name, slots=count, description=describe_pool(number), include_deferred=False)
            )


def test_pools_that_are_missing_drained_or_of_others_are_found(airflow: AirflowRows, louver: Louver) -> None:
    make_pools(bucket_00=8, bucket_01=0, bucket_02=5)
    with create_session(scoped=False) as session:
        session.add(Pool(pool="bucket_03", slots=1, description="mine", include_deferred=False))
    with bucketed(buckets=6):
        code, rows = found_by(louver, "--all")
        told = of(rows, "pools")
    assert code == 3
    assert ("ok", "buckets 0 have their pools") in told
    assert ("warning", "buckets 1 are drained: nothing new begins in them") in told
    assert ("warning", "buckets 2 have other slots than [louver] bucket_slots") in told
    assert ("error", "the pools of buckets 3 were not made by Louver, which does not touch them") in told
    assert ("warning", "buckets 4-5 have no pool; the scheduler makes one when a run needs it") in told
    with bucketed(buckets=6, bucket_provision=False):
        _, rows = found_by(louver)
    assert ("error", "buckets 4-5 have no pool, and [louver] bucket_provision is off") in of(rows, "pools")


def test_an_empty_pool_table_is_found(airflow: AirflowRows, louver: Louver) -> None:
    """Case A02."""
    with create_session(scoped=False) as session:
        session.execute(delete(Pool))
    try:
        code, rows = found_by(louver)
    finally:
        with create_session(scoped=False) as session:
            session.add(Pool(pool=DEFAULT_POOL, slots=128, description="", include_deferred=False))
    assert code == 3
    assert ("error", "default_pool is missing: no task without a pool of its own is started") in of(
        rows, "pools"
    )


def test_tasks_in_a_pool_that_does_not_exist_are_found(airflow: AirflowRows, louver: Louver) -> None:
    """Case A01."""
    airflow.run(RunKey("work", "r"))
    airflow.show(TaskKey("work", "r", "one"), "scheduled", pool="eft_b05")
    code, rows = found_by(louver)
    assert code == 3
    assert of(rows, "pools") == [
        ("error", "1 tasks wait in pool 'eft_b05', which does not exist, as work r one")
    ]


def test_tasks_that_are_larger_than_their_pool_are_found(airflow: AirflowRows, louver: Louver) -> None:
    """Case A18, with the numbers."""
    make_pools(bucket_07=2)
    airflow.run(RunKey("work", "r"))
    airflow.show(TaskKey("work", "r", "one"), "scheduled", pool="bucket_07", pool_slots=4)
    airflow.show(TaskKey("work", "r", "three"), "success", pool="bucket_07", pool_slots=4)
    with bucketed(bucket_slots=2):
        code, rows = found_by(louver)
    assert code == 3
    assert of(rows, "sizes") == [
        ("error", "1 tasks take 4 slots each of pool bucket_07, which has 2, as work r one")
    ]


def test_a_dag_whose_tasks_would_not_fit_is_found_before_it_runs(
    airflow: AirflowRows, louver: Louver
) -> None:
    with DAG("large", schedule=None) as dag:
        EmptyOperator(task_id="one", pool_slots=5)
        EmptyOperator(task_id="own", pool="eft", pool_slots=6)
    airflow.deploy(dag)
    with bucketed(bucket_slots="8, 3:0, 4:3"):
        code, rows = found_by(louver)
        ((level, what),) = of(rows, "sizes")
    assert (code, level) == (0, "warning")
    assert "the smallest bucket has, which is 3, and" in what
    assert what.endswith(": large one (5)")
    with bucketed(bucket_slots=3, bucket_override_pools=True):
        ((_, what),) = of(found_by(louver)[1], "sizes")
    assert what.endswith(": large one (5), large own (6)")
    with bucketed(bucket_slots=3, bucket_key_by_dag='{"large": null}'):
        assert of(found_by(louver)[1], "sizes") == []
    with create_session(scoped=False) as session:
        session.execute(update(DagModel).where(DagModel.dag_id == "large").values(is_stale=True))
    with bucketed(bucket_slots=3):
        assert of(found_by(louver)[1], "sizes") == []


def waiting(pool: str, *, queue: str = "default", count: int = 3) -> checks.Waiting:
    return checks.Waiting(pool=pool, queue=queue, slots=1, count=count, example="work r one")


def whats(findings: Iterator[Finding]) -> list[tuple[Level, str]]:
    return [(found.level, found.what) for found in findings]


def test_buckets_without_or_with_several_owners_are_found_with_what_waits() -> None:
    with bucketed(buckets=8, bucket_owners="a:0-3, b:3-5, c:9"):
        settings = require_bucket_settings()
    groups = [waiting("bucket_03"), waiting("bucket_06"), waiting("bucket_07", count=2), waiting("eft")]
    assert whats(checks.check_owners(settings, groups)) == [
        (Level.ERROR, "nobody owns buckets 6-7; 5 tasks are in there, as work r one"),
        (
            Level.ERROR,
            "bucket 3 is claimed by a, b; its tasks go to a; 3 tasks are in there, as work r one",
        ),
        (Level.WARNING, "buckets 9 have owners, and there are only 8"),
    ]


def test_owners_that_cover_all_buckets_are_in_order() -> None:
    with bucketed(buckets=8, bucket_owners="a:0-3, b:4-7"):
        settings = require_bucket_settings()
    assert whats(checks.check_owners(settings, [])) == [(Level.OK, "each of the 8 buckets has one owner")]


def test_queues_that_nobody_serves_are_found_with_what_waits() -> None:
    with bucketed(buckets=8, bucket_owners="a:0-3, b:4-7"):
        settings = require_bucket_settings()
    groups = [waiting("bucket_03", queue="a"), waiting("eft", queue="gpu"), waiting("bucket_05", queue="b")]
    assert whats(checks.check_queues(settings, groups, {"a", "default"})) == [
        (Level.ERROR, "no worker serves queue 'b'; 3 tasks are in it, as work r one"),
        (Level.ERROR, "no worker serves queue 'gpu'; 3 tasks are in it, as work r one"),
    ]
    assert whats(checks.check_queues(settings, groups, {"a", "b", "gpu"})) == []
    ((level, _),) = whats(checks.check_queues(settings, groups, None))
    assert level is Level.WARNING
    ((level, text),) = whats(checks.check_queues(settings, groups, None, one_place=True))
    assert (level, "owners change nothing" in text) == (Level.WARNING, True)


def test_the_queues_that_workers_serve_are_those_of_all_their_answers() -> None:
    """As Celery gives them: a list of queues for each worker, and an error where it could not say."""
    answers = {
        "celery@one": [{"name": "node-a", "durable": True}, {"name": "default", "durable": True}],
        "celery@two": [{"name": "default", "durable": True}],
        "celery@three": [],
        "celery@four": {"error": "KeyError('queues')"},
    }
    assert queues_in(answers) == {"node-a", "default"}
    assert queues_in({}) == set()


@pytest.mark.parametrize(
    ("executor", "one_place"),
    [("LocalExecutor", True), ("KubernetesExecutor", False), ("LocalExecutor,KubernetesExecutor", False)],
)
def test_an_executor_without_queues_of_workers_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, executor: str, one_place: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    assert (served_queues(), in_one_place()) == (None, one_place)


# What a scheduler does when it starts


def test_a_scheduler_makes_missing_pools_and_changes_none(airflow: AirflowRows) -> None:
    make_pools(bucket_00=0, bucket_01=5)
    with bucketed(buckets=3, bucket_slots=8):
        scheduler_starts()
        scheduler_starts()
    with create_session(scoped=False) as session:
        found = dict(tuple(row) for row in session.execute(select(Pool.pool, Pool.slots)))
    assert found == {DEFAULT_POOL: 128, "eft": 2, "bucket_00": 0, "bucket_01": 5, "bucket_02": 8}


def test_a_scheduler_makes_no_pools_where_that_is_off(airflow: AirflowRows) -> None:
    with bucketed(buckets=3, bucket_provision=False):
        scheduler_starts()
    with create_session(scoped=False) as session:
        assert set(session.scalars(select(Pool.pool))) == {DEFAULT_POOL, "eft"}


def test_a_scheduler_starts_whatever_the_options_are(
    airflow: AirflowRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "many")
    scheduler_starts()
    (found,) = read_reports(now=NOW)
    assert (found.trouble or "").startswith("[louver] buckets: 'many'")
