"""
Every task of a run is in its bucket's pool, whoever starts the run and whatever becomes of the task.

The parts are Airflow's own: both APIs, the command line, the scheduler's loop, the expansion of mapped tasks.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from airflow import settings as airflow_settings
from airflow.models.log import Log
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import delete, select
from support.airflow_by_hand import AirflowByHand
from support.bucketed import bucketed

from louver.buckets.policy import BucketPolicy, pool_name
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver_provider.buckets.declared import tag_of
from louver_provider.buckets.pools import describe_pool
from louver_provider.buckets.routes import DEFAULT_POOL
from louver_provider.own_acts import BUCKET_KEY_REFUSED, BUCKET_NOT_OWNED, POOL_MADE
from louver_provider.reconciler.pools import MakePool, make_pool
from louver_provider.reconciler.service import Reconciler
from louver_provider.settings import load_settings

with warnings.catch_warnings():
    # It wants to draw Dags.
    warnings.simplefilter("ignore")
    import airflow.cli.commands.dag_command

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)

TENANT_A, TENANT_B = "bucket_07", "bucket_28"


def numbers() -> list[int]:
    """What is mapped over."""
    return [1, 2, 3]


def empty() -> list[int]:
    """Nothing to map over."""
    return []


def work(number: int = 0) -> None:
    """What a task does."""


def fail() -> None:
    """What a task does that is tried again."""
    raise RuntimeError("as told")


def dag_of(dag_id: str, *, schedule: timedelta | None = None, tags: Sequence[str] = ()) -> DAG:
    with DAG(dag_id, schedule=schedule, start_date=NOW, catchup=False, tags=list(tags)) as dag:
        first = PythonOperator(task_id="first", python_callable=work)
        own = PythonOperator(task_id="own", python_callable=work, pool="eft", queue="gpu")
        half = PythonOperator(task_id="half", python_callable=work, pool="eft")
        listed = PythonOperator(task_id="listed", python_callable=numbers)
        nothing = PythonOperator(task_id="nothing", python_callable=empty)
        PythonOperator.partial(task_id="parse_time", python_callable=work).expand(op_args=[[1], [2], [3]])
        pairs = listed.output.map(lambda number: [number])
        PythonOperator.partial(task_id="mapped", python_callable=work).expand(op_args=pairs)
        PythonOperator.partial(task_id="none", python_callable=work).expand(op_args=nothing.output)
        retried = PythonOperator(
            task_id="retried", python_callable=fail, retries=2, retry_delay=timedelta(seconds=1)
        )
        first >> [own, half, listed, nothing, retried] >> EmptyOperator(task_id="last")
    return dag


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with (
        time_machine.travel(NOW, tick=False) as traveller,
        AirflowByHand.up(pass_time=traveller.shift) as by_hand,
    ):
        by_hand.deploy(dag_of("bucketed"))
        by_hand.deploy(dag_of("nightly", schedule=timedelta(days=1)))
        by_hand.deploy(dag_of("plain"))
        by_hand.deploy(dag_of("declaring", tags=["other", tag_of("customer.id")]))
        with DAG("noisy", schedule=None, max_active_tasks=1000) as noisy:
            PythonOperator.partial(task_id="many", python_callable=work).expand(op_args=[[1]] * 500)
        by_hand.deploy(noisy)
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()
    with create_session(scoped=False) as session:
        session.execute(delete(Pool).where(Pool.pool.like("bucket%")))


def trigger(airflow: AirflowByHand, run_id: str, conf: Any, *, dag_id: str = "bucketed") -> RunKey:
    """A run through the public API, as the web UI starts it."""
    body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
    made = airflow.ask("ann", "POST", f"/dags/{dag_id}/dagRuns", body)
    assert made.status_code == 200, made.text
    return RunKey(dag_id, run_id)


def places(run: RunKey) -> dict[str, tuple[str, str]]:
    """Pool and queue of each task instance."""
    with create_session(scoped=False) as session:
        query = select(
            TaskInstance.task_id, TaskInstance.map_index, TaskInstance.pool, TaskInstance.queue
        ).filter_by(dag_id=run.dag_id, run_id=run.run_id)
        return {f"{task}[{index}]": (pool, queue) for task, index, pool, queue in session.execute(query)}


def pools(run: RunKey) -> set[str]:
    """The pools of all task instances that name none of their own."""
    return {pool for name, (pool, _) in places(run).items() if name not in ("own[-1]", "half[-1]")}


def audited() -> list[tuple[str, str | None, dict[str, Any]]]:
    """What Airflow's audit log tells of buckets."""
    with create_session(scoped=False) as session:
        query = select(Log.event, Log.run_id, Log.extra).where(Log.owner == "louver").order_by(Log.id)
        return [(event, run_id, json.loads(extra)) for event, run_id, extra in session.execute(query)]


def all_pools() -> dict[str, tuple[int, bool]]:
    with create_session(scoped=False) as session:
        query = select(Pool.pool, Pool.slots, Pool.include_deferred)
        return {name: (slots, deferred) for name, slots, deferred in session.execute(query)}


def work_all(airflow: AirflowByHand, run: RunKey, rounds: int = 12) -> None:
    """Let the run go on until it is over."""
    for _ in range(rounds):
        airflow.schedule()
        for key in airflow.waiting():
            airflow.work(key)
        airflow.pass_time(MINUTE)


def test_a_run_of_the_api_is_in_its_bucket_and_a_task_with_a_pool_of_its_own_is_not(
    airflow: AirflowByHand,
) -> None:
    with bucketed():
        run = trigger(airflow, "r", {"tenant": "tenant-A"})
    assert pools(run) == {TENANT_A}
    assert places(run)["own[-1]"] == ("eft", "gpu")


def test_tasks_with_pools_of_their_own_are_routed_where_that_is_asked_for(airflow: AirflowByHand) -> None:
    with bucketed(bucket_override_pools=True):
        run = trigger(airflow, "r", {"tenant": "tenant-A"})
    assert {pool for pool, _ in places(run).values()} == {TENANT_A}


def test_a_run_of_the_command_line_is_in_its_bucket(airflow: AirflowByHand) -> None:
    with bucketed():
        airflow.cli("dags", "trigger", "bucketed", "--run-id", "r", "--conf", '{"tenant": "tenant-B"}')
        run = RunKey("bucketed", "r")
        assert pools(run) == {TENANT_B}
        airflow.cli("tasks", "clear", "bucketed", "--yes")
    assert pools(run) == {TENANT_B}


def test_a_scheduled_run_is_in_the_bucket_of_its_dags_fixed_key(airflow: AirflowByHand) -> None:
    with bucketed(bucket_key_by_dag='{"nightly": {"key": "tenant-B"}, "plain": null}'):
        airflow.pass_time(timedelta(days=1))
        airflow.schedule()
        (made,) = airflow.rows.runs("nightly")
        assert (made.run_type, made.conf) == ("scheduled", {})
        nightly = RunKey("nightly", made.run_id)
        plain = trigger(airflow, "r", {"tenant": "tenant-A"}, dag_id="plain")
        usual = trigger(airflow, "r", {"tenant": "tenant-A"})
    assert (pools(nightly), pools(plain), pools(usual)) == ({TENANT_B}, {DEFAULT_POOL}, {TENANT_A})


def test_a_path_leads_to_the_key(airflow: AirflowByHand) -> None:
    with bucketed(bucket_key="customer.id"):
        assert pools(trigger(airflow, "r", {"customer": {"id": "tenant-A"}})) == {TENANT_A}


def test_a_dag_may_say_itself_where_its_key_is(airflow: AirflowByHand) -> None:
    conf = {"customer": {"id": "tenant-A"}, "tenant": "tenant-B"}
    with bucketed():
        run = trigger(airflow, "r", conf, dag_id="declaring")
        work_all(airflow, run)
        assert {"mapped[2]", "parse_time[0]"} <= set(places(run))
        assert pools(run) == {TENANT_A}
        assert all_pools()[TENANT_A]
        assert pools(trigger(airflow, "r", conf)) == {TENANT_B}
        bad = {"dag_run_id": "bad", "logical_date": None, "conf": {"customer": {"id": ["secret"]}}}
        refused = airflow.ask("ann", "POST", "/dags/declaring/dagRuns", bad)
        assert (refused.status_code, "conf.customer.id" in refused.text) == (422, True)
        assert "secret" not in refused.text
    with bucketed(bucket_key_by_dag='{"declaring": "tenant"}'):
        assert pools(trigger(airflow, "settings", conf, dag_id="declaring")) == {TENANT_B}


def test_retries_clears_and_mapped_tasks_stay_in_the_bucket(airflow: AirflowByHand) -> None:
    """Cases A09 and A11: every row that there is, and every row that there was."""
    with bucketed():
        run = trigger(airflow, "r", {"tenant": "tenant-A"})
        work_all(airflow, run)
        names = set(places(run))
        assert {"mapped[0]", "mapped[1]", "mapped[2]", "parse_time[0]", "none[-1]"} <= names
        assert pools(run) == {TENANT_A}
        one = {"dry_run": False, "dag_run_id": "r", "only_failed": False, "task_ids": [["mapped", 0]]}
        assert airflow.ask("bob", "POST", "/dags/bucketed/clearTaskInstances", one).status_code == 200
        assert pools(run) == {TENANT_A}
        cleared = airflow.ask("bob", "POST", "/dags/bucketed/dagRuns/r/clear", {"dry_run": False})
        assert cleared.status_code == 200
        work_all(airflow, run)
    assert pools(run) == {TENANT_A}
    with create_session(scoped=False) as session:
        query = select(TaskInstanceHistory.task_id, TaskInstanceHistory.pool).filter_by(run_id="r")
        history = {(task, pool) for task, pool in session.execute(query)}
    assert {task for task, _ in history} >= {"retried", "mapped", "first"}
    assert {pool for task, pool in history if task not in ("own", "half")} == {TENANT_A}


def test_more_buckets_move_no_run_that_is_there(airflow: AirflowByHand) -> None:
    """Case A10, and the epochs of the policy: the creation time counts, not the time of the clear."""
    old = "2026-01-01:16"
    with bucketed(buckets=old):
        run = trigger(airflow, "r", {"tenant": "tenant-B"})
        assert pools(run) == {pool_name(28 % 16)}
    airflow.pass_time(timedelta(days=100))
    with bucketed(buckets=f"{old}, 2026-04-01:64"):
        assert airflow.ask("bob", "POST", "/dags/bucketed/dagRuns/r/clear", {"dry_run": False}).is_success
        work_all(airflow, run)
        assert pools(run) == {pool_name(28 % 16)}
        assert pools(trigger(airflow, "later", {"tenant": "tenant-B"})) == {TENANT_B}


@pytest.mark.parametrize("conf", [{}, {"other": 1}])
def test_a_run_without_a_key_keeps_its_pools_and_nobody_is_told(airflow: AirflowByHand, conf: Any) -> None:
    with bucketed():
        run = trigger(airflow, "r", conf)
        airflow.schedule()
    assert pools(run) == {DEFAULT_POOL}
    assert audited() == []


@pytest.mark.parametrize(
    "key",
    ["", None, True, 1.5, ["tenant-A"], {"id": "tenant-A"}, "x" * 2**20, "a\0b"],
    ids=["empty", "null", "bool", "float", "list", "object", "1 MB", "NUL"],
)
def test_a_bad_key_that_nobody_could_refuse_is_audited_once_and_the_run_goes_on(
    airflow: AirflowByHand, key: Any
) -> None:
    with bucketed():
        airflow.rows.run(RunKey("bucketed", "r"), conf={"tenant": key})
        airflow.rows.show_run(RunKey("bucketed", "r"), "queued")
        run = RunKey("bucketed", "r")
        airflow.schedule()
        airflow.schedule()
        assert airflow.work(TaskKey("bucketed", "r", "first")) == "success"
    assert pools(run) == {DEFAULT_POOL}
    ((event, run_id, extra),) = audited()
    assert (event, run_id) == (BUCKET_KEY_REFUSED, "r")
    assert extra["reason"].startswith("conf.tenant: the bucket key ")
    assert "tenant-A" not in json.dumps(extra)


def test_half_a_surrogate_pair_disturbs_no_scheduler(airflow: AirflowByHand) -> None:
    """Airflow takes it and cannot hand it to a worker; that is no affair of the policy."""
    with bucketed():
        airflow.rows.run(RunKey("bucketed", "r"), conf={"tenant": "\ud800"})
        airflow.rows.show_run(RunKey("bucketed", "r"), "queued")
        airflow.schedule()
    assert pools(RunKey("bucketed", "r")) == {DEFAULT_POOL}
    assert [event for event, _, _ in audited()] == [BUCKET_KEY_REFUSED]
    assert TaskKey("bucketed", "r", "first") in airflow.waiting()


@pytest.mark.parametrize("key", ["caf\u00e9", "cafe\u0301", "\U0001f60e", '"; DROP TABLE slot_pool', 42])
def test_an_odd_key_has_a_bucket_and_its_text_is_nowhere(airflow: AirflowByHand, key: Any) -> None:
    """Case A16."""
    with bucketed():
        run = trigger(airflow, "r", {"tenant": key})
        airflow.schedule()
    bucket = BucketPolicy.of(64).bucket(key)
    assert bucket is not None
    assert pools(run) == {pool_name(bucket)}
    assert pool_name(bucket) in all_pools()


def test_the_pool_is_there_before_the_first_task_is_scheduled(airflow: AirflowByHand) -> None:
    """Case A01: nothing waits for ever in a pool that nobody made."""
    with bucketed(buckets=8, bucket_slots="5, 7:2"):
        run = trigger(airflow, "r", {"tenant": "tenant-A"})
        trigger(airflow, "s", {"tenant": "tenant-B"})
        assert set(all_pools()) == {DEFAULT_POOL}
        airflow.schedule()
    made = {pool_name(bucket): (2 if bucket == 7 else 5, False) for bucket in range(8)}
    assert all_pools() == {DEFAULT_POOL: (128, False)} | made
    assert pools(run) == {TENANT_A}
    assert TaskKey(run.dag_id, run.run_id, "first") in airflow.waiting()


def test_a_pool_that_is_there_is_left_as_it_is(airflow: AirflowByHand) -> None:
    with create_session(scoped=False) as session:
        session.add(Pool(pool=TENANT_A, slots=0, description="drained by hand", include_deferred=True))
    with bucketed():
        trigger(airflow, "r", {"tenant": "tenant-A"})
        airflow.schedule()
    assert all_pools()[TENANT_A] == (0, True)
    assert airflow.waiting() == []


def test_a_run_whose_row_has_to_be_read_again_is_routed_all_the_same(airflow: AirflowByHand) -> None:
    with bucketed(), create_session(scoped=False) as session:
        trigger(airflow, "r", {"tenant": "tenant-A"})
        ti = session.scalars(select(TaskInstance).filter_by(run_id="r", task_id="first")).one()
        run = ti.dag_run
        ti.pool = DEFAULT_POOL
        session.expire(run)
        airflow_settings.task_instance_mutation_hook(ti, dag_run=run)
        assert ti.pool == TENANT_A


def test_without_provision_no_pool_is_made(airflow: AirflowByHand) -> None:
    with bucketed(bucket_provision=False):
        trigger(airflow, "r", {"tenant": "tenant-A"})
        airflow.schedule()
    assert set(all_pools()) == {DEFAULT_POOL}


def test_the_owners_queue_is_the_tasks_queue(airflow: AirflowByHand) -> None:
    with bucketed(bucket_owners="node-a:0-20, node-b:21-63"):
        one, other = (
            trigger(airflow, "a", {"tenant": "tenant-A"}),
            trigger(airflow, "b", {"tenant": "tenant-B"}),
        )
        none = trigger(airflow, "c", {})
    assert places(one)["first[-1]"] == (TENANT_A, "node-a")
    assert places(other)["first[-1]"] == (TENANT_B, "node-b")
    assert places(none)["first[-1]"] == (DEFAULT_POOL, "default")
    assert places(one)["own[-1]"] == ("eft", "gpu")
    assert places(one)["half[-1]"] == ("eft", "node-a")


def test_a_run_in_a_bucket_that_nobody_owns_is_audited(airflow: AirflowByHand) -> None:
    with bucketed(bucket_owners="node-a:0-20"):
        run = RunKey("bucketed", "r")
        airflow.rows.run(run, conf={"tenant": "tenant-B"})
        airflow.rows.show_run(run, "queued")
        airflow.schedule()
    assert places(run)["first[-1]"] == (TENANT_B, "default")
    assert audited() == [(BUCKET_NOT_OWNED, "r", {"bucket": 28})]


def test_a_tenant_with_hundreds_of_tasks_keeps_no_other_waiting(airflow: AirflowByHand) -> None:
    """Case A04: 500 mapped tasks in a bucket with one slot, and one task in another, within two rounds."""
    with bucketed(bucket_slots="8, 7:1"):
        noisy = trigger(airflow, "noisy", {"tenant": "tenant-A"}, dag_id="noisy")
        for _ in range(3):
            airflow.schedule()
        quiet = trigger(airflow, "quiet", {"tenant": "tenant-B"})
        for _ in range(2):
            airflow.schedule()
    waiting = airflow.waiting()
    assert len(places(noisy)) == 500
    assert len([key for key in waiting if key.run == noisy]) == 1
    assert TaskKey(quiet.dag_id, quiet.run_id, "first") in waiting


# A pool that is gone again


def lose(pool: str) -> None:
    """Somebody deletes the pool."""
    with create_session(scoped=False) as session:
        session.execute(delete(Pool).where(Pool.pool == pool))


def reconciled(ledger: Ledger, *, dry_run: bool = False) -> list[tuple[str, bool | None]]:
    """One round of the reconciler; which pools it was about, and whether that was done."""
    reconciler = Reconciler(ledger, load_settings(), dry_run=dry_run)
    outcomes = list(reconciler.round())
    assert {type(outcome.repair) for outcome in outcomes} <= {MakePool}
    return [
        (outcome.repair.pool, outcome.done) for outcome in outcomes if isinstance(outcome.repair, MakePool)
    ]


def test_a_pool_that_is_deleted_while_the_scheduler_lives_is_back_within_one_round(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    """Case A01: the tasks wait until then, and the Dags beside them do not."""
    with bucketed(bucket_slots=50):
        early = {trigger(airflow, name, {"tenant": "tenant-A"}) for name in ("makes", "sees")}
        airflow.schedule()
        assert TENANT_A in all_pools()
        lose(TENANT_A)
        crowd = {trigger(airflow, f"r{number}", {"tenant": "tenant-A"}) for number in range(8)}
        plain = trigger(airflow, "plain", {}, dag_id="plain")
        airflow.schedule()
        airflow.schedule()
        ready = {key.run for key in airflow.waiting()}
        assert {*early, plain} <= ready
        assert not ready & crowd
        assert TENANT_A not in all_pools()

        assert reconciled(ledger) == [(TENANT_A, True)]
        airflow.schedule()

    assert all_pools()[TENANT_A] == (50, False)
    assert crowd <= {key.run for key in airflow.waiting()}
    ((event, run_id, extra),) = audited()
    assert (event, run_id, extra["pool"], extra["slots"]) == (POOL_MADE, None, TENANT_A, 50)
    assert extra["reason"].endswith(" unfinished tasks are in it")


def test_a_pool_that_is_deleted_is_back_when_a_later_run_needs_it(airflow: AirflowByHand) -> None:
    """Whether or not a reconciler is at work; what was seen is believed for half a minute."""
    with bucketed():
        trigger(airflow, "before", {"tenant": "tenant-A"})
        airflow.schedule()
        trigger(airflow, "seen", {"tenant": "tenant-A"})
        airflow.schedule()
        lose(TENANT_A)
        airflow.pass_time(timedelta(seconds=31))
        trigger(airflow, "later", {"tenant": "tenant-A"})
        airflow.schedule()
    assert TENANT_A in all_pools()


def test_a_pool_that_has_come_back_meanwhile_stays_as_it_is(
    airflow: AirflowByHand,
) -> None:
    repair = MakePool(bucket=0, slots=7, why="it was missing")
    with bucketed(buckets=1):
        assert [make_pool(repair), make_pool(replace(repair, slots=9))] == [True, False]
        assert all_pools()["bucket_00"] == (7, False)
    assert len(audited()) == 1


def test_what_is_to_be_made_is_shown_and_nothing_is_written(airflow: AirflowByHand, ledger: Ledger) -> None:
    with bucketed(buckets=3):
        before = all_pools()
        assert reconciled(ledger, dry_run=True) == [(pool_name(bucket), None) for bucket in range(3)]
    assert (all_pools(), audited()) == (before, [])


def test_the_command_names_the_pool(
    airflow: AirflowByHand, ledger: Ledger, rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    with bucketed(buckets=1):
        (row,) = rows_of("reconcile")
        assert rows_of("reconcile") == []
    assert (row["repair"], row["to"], row["done"]) == ("make_pool", "bucket_00", "yes")
    assert row["why"] == "it was missing; 0 unfinished tasks are in it"


def test_pools_of_the_epoch_in_force_are_made_and_of_others_those_in_which_tasks_wait(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    early = "2026-01-01:64"
    with bucketed(buckets=early):
        trigger(airflow, "old", {"tenant": "tenant-B"})
    airflow.pass_time(timedelta(days=100))
    with bucketed(buckets=f"{early}, 2026-04-01:2, 2027-01-01:4"):
        assert reconciled(ledger) == [("bucket_00", True), ("bucket_01", True), (TENANT_B, True)]
        assert reconciled(ledger) == []
    assert set(all_pools()) == {DEFAULT_POOL, "bucket_00", "bucket_01", TENANT_B}


def test_no_pool_is_made_where_that_is_off_or_there_are_no_buckets(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    assert reconciled(ledger) == []
    with bucketed(bucket_provision=False):
        trigger(airflow, "r", {"tenant": "tenant-A"})
        assert reconciled(ledger) == []
    assert set(all_pools()) == {DEFAULT_POOL}


def test_slots_that_a_person_has_changed_are_left_and_told_of_once(
    airflow: AirflowByHand, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    with create_session(scoped=False) as session:
        for bucket, slots in enumerate((0, 3, 8)):
            text = describe_pool(bucket)
            session.add(
                Pool(pool=pool_name(bucket), slots=slots, description=text, include_deferred=bucket == 2)
            )
        session.add(Pool(pool="bucket_03", slots=1, description="mine", include_deferred=False))
    before = all_pools()
    with bucketed(buckets=4):
        reconciler = Reconciler(ledger, load_settings())
        assert list(reconciler.round()) == list(reconciler.round()) == []
    assert (all_pools(), audited()) == (before, [])
    (said,) = [record.getMessage() for record in caplog.records if "bucket_0" in record.getMessage()]
    assert "bucket_01 has 3 slots, where [louver] bucket_slots says 8" in said


def test_options_that_cannot_be_used_keep_nothing_else_from_being_repaired(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "many")
    reconciler = Reconciler(ledger, load_settings())
    assert list(reconciler.round()) == list(reconciler.round()) == []
    (said,) = [record.getMessage() for record in caplog.records if "many" in record.getMessage()]
    assert "pools of buckets cannot be looked at: [louver] buckets: " in said


def test_without_buckets_nothing_of_it_is_there(airflow: AirflowByHand) -> None:
    run = trigger(airflow, "r", {"tenant": "tenant-A"})
    airflow.schedule()
    assert pools(run) == {DEFAULT_POOL}
    assert set(all_pools()) == {DEFAULT_POOL}
    assert audited() == []
