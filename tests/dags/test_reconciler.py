"""The reconciler over Airflow's real tables and a real ledger; no scheduler is at work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support.airflow_rows import AirflowRows

from louver.clock import FixedClock
from louver.closing import COMPENSATE, close_run
from louver.control import send
from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import (
    CommandState,
    Decision,
    EffectKind,
    EffectState,
    OnUnknown,
    RunKey,
    TaskKey,
    Token,
    Verb,
)
from louver.ledger.requests import ApprovalRequest, CommandRequest, EffectRequest
from louver.liveness import LocalProcesses
from louver.nodes import Step
from louver.policies import RetryPolicy
from louver.repairs import CloseCommand, CloseRun, Compensate, EndOnPlatform, Mark, SetRunState
from louver.sessions import Change, Claim
from louver.states import Precision, RunState, Source, TaskState
from louver.steps import run_start
from louver.supervision import ControlSettings
from louver.timeouts import Timeouts
from louver_provider.dag_builder import build_dag
from louver_provider.dags import compensation_dag
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_prefix, rescue_target
from louver_provider.reconciler.rounds import Outcome
from louver_provider.reconciler.service import Reconciler
from louver_provider.reconciler.sights import read_live
from louver_provider.settings import load_settings

SECOND = timedelta(seconds=1)
LONG = timedelta(minutes=10)

LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
DONE = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
FAILED = Change(to=TaskState.FAILED, trigger="runtime:error")


def tell(context: Any) -> None:
    """A failure callback; that a task has one is what counts here."""


def work() -> None:
    """What a step does."""


LINE = Definition(
    name="line",
    version="1",
    nodes=[
        Step(
            name="one",
            task="shop.orders:one",
            timeouts=Timeouts(start=timedelta(seconds=30), attempt=timedelta(seconds=60)),
            retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=7)),
        ),
        Step(name="two", task="shop.orders:two", deps=["one"]),
        Step(name="three", task="shop.orders:three", deps=["two"]),
    ],
)


FAST = Definition(
    name="fast",
    version="1",
    aggregation="fail_fast",
    nodes=[
        Step(name="bad", task="shop.orders:bad"),
        Step(name="busy", task="shop.orders:busy"),
        Step(name="later", task="shop.orders:busy", after=["busy"]),
        Step(name="beside", task="shop.orders:busy"),
    ],
)


@pytest.fixture(scope="module")
def tables() -> AirflowRows:
    rows = AirflowRows()
    functions = {f"shop.orders:{name}": work for name in LINE.names}
    line = build_dag(LINE, tasks=functions, default_args={"on_failure_callback": tell})
    # As an argument it is refused, for what it does; a Dag may still have it.
    line.dagrun_timeout = timedelta(seconds=20)
    rows.deploy(line)
    rows.deploy(build_dag(FAST, tasks=dict.fromkeys(("shop.orders:bad", "shop.orders:busy"), work)))
    rows.deploy(compensation_dag())
    return rows


@pytest.fixture
def rows(tables: AirflowRows) -> Iterator[AirflowRows]:
    yield tables
    tables.clear()


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened


def a_dead_process() -> str:
    """The name of a process that has ended."""
    code = "from louver.liveness import LocalProcesses; print(LocalProcesses().name())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


class Stage:
    """A run of :data:`LINE`, or of another definition, on both sides."""

    def __init__(self, rows: AirflowRows, ledger: Ledger, definition: Definition = LINE) -> None:
        self.rows = rows
        self.ledger = ledger
        self.definition = definition
        self.clock = FixedClock(datetime.now(timezone.utc))
        self.run = RunKey(definition.name, "r1")
        self.marker = rows.run(self.run)
        self.started = False

    def key(self, name: str = "one", map_index: int = -1) -> TaskKey:
        return TaskKey(self.run.dag_id, "r1", name, map_index)

    def ago(self, time: timedelta) -> datetime:
        return self.clock.now() - time

    def show(self, name: str, state: str | None, *, since: timedelta = LONG, **columns: Any) -> None:
        """Airflow's row, unchanged since then."""
        given = {"updated_at": self.ago(since), "try_number": 1, **columns}
        self.rows.show(self.key(name), state, **given)

    def open(self, name: str = "one", *, process: str | None = None, since: timedelta = LONG) -> Token:
        """A process has opened the task and begun it, that long ago."""
        at = self.ago(since)
        start = run_start(self.definition, self.run, marker=self.marker, requester="ann")
        self.ledger.open_run(start, now=at)
        claim = Claim(
            try_number=1,
            max_tries=self.rows.row(self.key(name)).max_tries,
            process=process or LocalProcesses().name(),
            source=Source.WORKER,
        )
        token = self.ledger.open_task(self.key(name), claim, now=at).token
        self.ledger.advance(token, LAUNCHED, now=at)
        return token

    def succeed(self, name: str = "one", *, effect: bool = False) -> None:
        """The task has succeeded, on both sides."""
        token = self.open(name)
        if effect:
            self.act(token)
        self.ledger.complete(token, DONE, None, now=self.ago(LONG))
        self.show(name, "success")

    def act(self, token: Token) -> None:
        """The task has committed an effect."""
        now = self.ago(LONG)
        request = EffectRequest(
            scope="dag:line",
            key=f"pay-{token.key.task_id}",
            name="pay",
            intent={"amount": 1},
            intent_hash="h" * 64,
            undo=f"{__name__}:undo",
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=True,
            lease_until=now + SECOND,
            quiesce_seconds=0,
        )
        begun = self.ledger.begin_effect(token, request, now=now)
        self.ledger.commit_effect(token, begun.record, None, now=now)

    def send(self, verb: Verb, name: str = "one", *, since: timedelta = LONG) -> Any:
        request = CommandRequest(
            command_id=f"c-{verb}-{name}",
            task=self.key(name),
            verb=verb,
            actor="ann",
            reason="enough",
            source=Source.CLI,
        )
        return send(self.ledger, request, now=self.ago(since)).command

    def reconcile(self, **changes: Any) -> list[Outcome]:
        """One round; what only keeps the run's state up to date is left out."""
        outcomes = Reconciler(self.ledger, load_settings(), clock=self.clock, **changes).round()
        return [outcome for outcome in outcomes if not isinstance(outcome.repair, SetRunState)]

    def state(self, name: str = "one") -> TaskState:
        record = self.ledger.get_task(self.key(name))
        return TaskState.PENDING if record is None else record.state

    def trail(self, name: str = "one") -> list[tuple[str, str]]:
        """What the reconciler wrote about the task."""
        return [
            (str(row.to_state), row.trigger)
            for row in self.ledger.list_transitions(self.run, task_id=name)
            if row.source is Source.RECONCILER
        ]

    def run_state(self) -> RunState:
        record = self.ledger.get_run(self.run)
        assert record is not None
        return record.state


@pytest.fixture
def stage(rows: AirflowRows, ledger: Ledger) -> Stage:
    return Stage(rows, ledger)


def undo(given: Any) -> None:
    """Undoes nothing."""


def kinds(outcomes: list[Outcome]) -> list[tuple[type, bool | None]]:
    return [(type(outcome.repair), outcome.done) for outcome in outcomes]


# Mapped steps


def load(row: int) -> None:
    """What each row needs."""


MANY = Definition(
    name="many",
    version="1",
    nodes=[
        Step(name="one", task="shop.orders:one"),
        Step(name="load", task="shop.orders:load", over={"row": "one"}),
    ],
)


def test_what_a_step_was_told_before_it_had_indexes_is_closed_once_all_of_them_are_over(
    tables: AirflowRows, rows: AirflowRows, ledger: Ledger
) -> None:
    tables.deploy(build_dag(MANY, tasks={"shop.orders:one": work, "shop.orders:load": load}))
    stage = Stage(rows, ledger, MANY)
    token = stage.open()
    stage.send(Verb.STOP, "load")
    stage.ledger.complete(token, DONE, [1, 2], now=stage.ago(LONG))
    stage.show("one", "success")
    rows.map_over(stage.key("load"), 3)
    # Of a list that was longer before a clear.
    rows.show(stage.key("load", 2), "removed")

    def end(index: int) -> None:
        claim = Claim(try_number=1, max_tries=0, process="p", source=Source.WORKER)
        token = ledger.open_task(stage.key("load", index), claim, now=stage.ago(LONG)).token
        (met,) = ledger.claim_commands(token, lease_until=stage.clock.now(), now=stage.ago(LONG))
        stopped = Change(to=TaskState.STOPPED, trigger="user:stop", actor=met.actor)
        ledger.obey(token, met, stopped, outcome="stopped before it started", now=stage.ago(LONG))
        rows.show(stage.key("load", index), "failed", updated_at=stage.ago(LONG), try_number=1)

    def whole() -> CommandState:
        (command,) = [one for one in ledger.list_commands(stage.run) if one.task == stage.key("load")]
        return command.state

    end(0)
    assert (kinds(stage.reconcile()), whole()) == ([], CommandState.PENDING)
    end(1)
    assert kinds(stage.reconcile())[0] == (CloseCommand, True)
    assert whole() is CommandState.REFUSED


# Failing fast


@pytest.fixture
def fast(rows: AirflowRows, ledger: Ledger) -> Stage:
    """``bad`` has failed and its process died before it told anybody; ``beside`` waits for a slot."""
    stage = Stage(rows, ledger, FAST)
    stage.ledger.advance(stage.open("bad"), FAILED, now=stage.ago(LONG))
    stage.show("bad", "failed")
    stage.open("busy", since=SECOND)
    stage.show("busy", "running", since=SECOND)
    ready = {"scheduled_dttm": stage.ago(LONG), "queued_dttm": stage.ago(LONG)}
    stage.show("beside", "queued", since=SECOND, **ready)
    return stage


def test_what_the_failed_step_could_not_cancel_any_more_is_cancelled_once(fast: Stage) -> None:
    done = [(outcome.repair.task.task_id, outcome.done) for outcome in fast.reconcile()]
    assert done == [("busy", True), ("later", True), ("beside", True)]
    assert (fast.state("later"), fast.state("beside")) == (TaskState.CANCELLED, TaskState.CANCELLED)
    (command,) = fast.ledger.list_commands(fast.run)
    assert (command.task_id, command.verb) == ("busy", Verb.CANCEL)

    assert kinds(fast.reconcile()) == [(EndOnPlatform, True)]
    assert fast.rows.row(fast.key("beside")).state == "skipped"
    assert fast.reconcile() == []


def test_one_that_became_ready_after_it_was_cancelled_is_left_to_its_own_process(fast: Stage) -> None:
    fast.reconcile()
    fast.clock.sleep(LONG)
    fast.show("beside", "queued", scheduled_dttm=fast.ago(SECOND), queued_dttm=fast.ago(SECOND))
    assert [one for one in fast.reconcile() if one.repair.task.task_id == "beside"] == []
    assert fast.rows.row(fast.key("beside")).state == "queued"


def test_what_airflow_skipped_behind_the_failure_is_cancelled_too(rows: AirflowRows, ledger: Ledger) -> None:
    stage = Stage(rows, ledger, FAST)
    stage.ledger.advance(stage.open("busy"), FAILED, now=stage.ago(LONG))
    stage.show("busy", "failed")
    stage.show("later", "upstream_failed")
    stage.reconcile()
    assert stage.trail("later") == [("cancelled", "orchestrator:cascade")]


def test_who_was_cancelled_in_the_queue_is_neither_cleared_nor_late(fast: Stage) -> None:
    fast.reconcile()
    fast.clock.sleep(LONG)
    trails = [row for row in fast.trail("beside") if row[1] != "orchestrator:cascade"]
    fast.reconcile()
    assert (trails, fast.state("beside")) == ([], TaskState.CANCELLED)


def test_a_clear_that_nobody_recorded_takes_back_what_is_skipped_now(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.succeed(name)
    again = stage.rows.row(stage.key("one")).max_tries + 1
    # Cleared with the command line; this time the first step failed.
    stage.ledger.mark(
        stage.key("one"),
        Change(to=TaskState.FAILED, trigger="user:marked"),
        session=1,
        source=Source.API,
        now=stage.clock.now(),
    )
    stage.show("one", "failed")
    stage.show("two", "upstream_failed", max_tries=again)

    stage.reconcile()

    assert stage.trail("two") == [("pending", "user:cleared"), ("skipped", "orchestrator:upstream")]


# What has to be left alone


def test_nothing_is_done_about_a_run_that_goes_on(stage: Stage) -> None:
    stage.succeed("one")
    stage.open("two", since=SECOND)
    stage.show("two", "running")

    assert stage.reconcile() == []


def test_a_run_that_the_ledger_does_not_know_and_that_is_not_late_is_left_alone(stage: Stage) -> None:
    stage.show("one", "queued", scheduled_dttm=stage.ago(SECOND))

    assert stage.reconcile() == []
    assert stage.ledger.get_run(stage.run) is None


def test_an_embedded_run_is_not_airflows_to_end(stage: Stage) -> None:
    start = run_start(LINE, RunKey("line", "inline-1"))
    stage.ledger.open_run(start, now=stage.clock.now())

    assert stage.reconcile() == []


def test_a_run_that_was_made_again_is_left_to_its_first_task(stage: Stage) -> None:
    stage.succeed("one", effect=True)
    stage.open("two", process=a_dead_process())
    stage.rows.remove_run(stage.run)
    stage.rows.run(stage.run)

    assert stage.reconcile() == []


# Lost tasks


def test_a_process_proven_dead_is_recorded_once(stage: Stage) -> None:
    stage.open(process=a_dead_process())
    stage.show("one", "running")

    assert kinds(stage.reconcile()) == [(Mark, True)]
    assert stage.trail() == [("retry_wait", "runtime:attempt_lost")]
    (row,) = [row for row in stage.ledger.list_transitions(stage.run) if row.source is Source.RECONCILER]
    assert (row.chain, row.precision) == ("side", Precision.BOUNDED)
    record = stage.ledger.get_task(stage.key())
    assert record is not None
    assert record.losses == 1
    assert stage.reconcile() == []


def test_a_dry_run_shows_it_and_writes_nothing(stage: Stage) -> None:
    stage.open(process=a_dead_process())
    stage.show("one", "running")

    assert kinds(stage.reconcile(dry_run=True)) == [(Mark, None)]
    assert stage.trail() == []
    assert stage.ledger.get_lease("reconciler") is None


def test_a_live_process_is_not_lost_for_its_silence(stage: Stage) -> None:
    stage.open("one", since=timedelta(seconds=50))
    stage.show("one", "running")

    assert stage.reconcile() == []


def test_what_comes_back_and_writes_first_wins(stage: Stage) -> None:
    """The reconciler has decided by what it saw; the process writes before it does."""
    token = stage.open(process=a_dead_process())
    stage.show("one", "running")
    reconciler = Reconciler(stage.ledger, load_settings(), clock=stage.clock)
    carry_out = reconciler._round._carry_out
    assert carry_out is not None

    def later(repair: Any, start: Any) -> str | None:
        stage.ledger.complete(token, DONE, "after all", now=stage.clock.now())
        return carry_out(repair, start)

    reconciler._round._carry_out = later
    (outcome,) = reconciler.round()

    assert (outcome.done, outcome.why_not) == (False, "it has moved on meanwhile")
    assert (stage.state(), stage.trail()) == (TaskState.SUCCEEDED, [])


def test_a_stop_is_confirmed_once_the_process_is_proven_dead(stage: Stage) -> None:
    token = stage.open(process=a_dead_process())
    command = stage.send(Verb.STOP)
    stage.ledger.claim_commands(token, lease_until=stage.clock.now(), now=stage.ago(LONG))
    stop = Change(to=TaskState.STOPPING, trigger="user:stop", actor="ann")
    stage.ledger.advance(token, stop, now=stage.ago(LONG))
    stage.show("one", "up_for_retry")

    stage.reconcile()

    assert stage.trail() == [("stopped", "runtime:stop_confirmed")]
    (closed,) = stage.ledger.list_commands(stage.run)
    assert (closed.command_id, closed.state, closed.outcome) == (
        command.command_id,
        CommandState.DONE,
        "it is stopped",
    )
    # And it is not tried again: the ledger holds it for over.
    stage.reconcile()
    assert stage.rows.states(stage.run)["one"] == "failed"
    assert stage.reconcile() == []


# Start timeouts


def late(stage: Stage, *, state: str = "scheduled", max_tries: int = 3) -> None:
    stage.show("one", state, scheduled_dttm=stage.ago(timedelta(seconds=31)), max_tries=max_tries)


@pytest.mark.parametrize("state", ["scheduled", "queued"])
def test_a_first_step_that_waits_too_long_for_a_slot_fails_and_no_late_worker_runs_it(
    stage: Stage, state: str
) -> None:
    late(stage, state=state)

    outcomes = stage.reconcile()

    assert kinds(outcomes) == [(Mark, True), (EndOnPlatform, True)]
    row = stage.rows.row(stage.key())
    # Case D02: nothing was tried.
    assert (row.state, row.try_number) == ("failed", 1)
    assert stage.trail() == [
        ("queued", "orchestrator:dependencies_resolved"),
        ("failed", "timeout:start"),
    ]
    queued = stage.ledger.list_transitions(stage.run)[0]
    assert queued.at == stage.ago(timedelta(seconds=31))
    opened = stage.ledger.open_task(
        stage.key(),
        Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER),
        now=stage.clock.now(),
    )
    assert (opened.entry.value, opened.record.state) == ("over", TaskState.FAILED)
    assert [event for event, _ in stage.rows.events(stage.key())] == ["louver_reconciler"]


def test_the_failure_callback_of_a_late_start_is_asked_for_once(stage: Stage) -> None:
    late(stage)

    stage.reconcile()
    stage.reconcile()

    (callback,) = stage.rows.callbacks()
    assert (callback.ti.task_id, callback.ti.run_id, callback.is_failure_callback) == ("one", "r1", True)
    assert "it waited to start for 31.0 s" in callback.msg


def test_what_was_only_recorded_of_a_late_start_is_finished(stage: Stage) -> None:
    """The reconciler died between the ledger and Airflow."""
    late(stage)
    (chain,) = [stage.reconcile(dry_run=True)]
    mark = chain[0].repair
    assert isinstance(mark, Mark)
    stage.ledger.open_run(run_start(LINE, stage.run, marker=stage.marker), now=stage.clock.now())
    for session, change in enumerate(mark.changes):
        stage.ledger.mark(
            stage.key(),
            change,
            session=session,
            source=Source.RECONCILER,
            max_tries=mark.max_tries,
            now=stage.clock.now(),
        )

    assert kinds(stage.reconcile()) == [(EndOnPlatform, True)]
    assert stage.rows.states(stage.run)["one"] == "failed"
    assert len(stage.rows.callbacks()) == 1


def test_a_slot_that_came_just_in_time_is_not_taken_away(stage: Stage) -> None:
    """Airflow has started it between the two readings; the ledger knows first."""
    stage.open(since=SECOND)
    late(stage)

    assert stage.reconcile() == []


def test_a_task_that_is_cleared_and_waits_too_long_fails_in_its_next_generation(stage: Stage) -> None:
    stage.succeed("one")
    late(stage, max_tries=4)

    stage.reconcile()

    record = stage.ledger.get_task(stage.key())
    assert record is not None
    assert (record.state, record.generation) == (TaskState.FAILED, 2)


def test_the_definition_of_a_run_that_has_not_begun_comes_with_its_dag(stage: Stage) -> None:
    late(stage)
    assert read_live() == [stage.run]

    stage.reconcile()

    run = stage.ledger.get_run(stage.run)
    assert run is not None
    assert (run.definition_fingerprint, run.marker, run.requester) == (LINE.fingerprint, stage.marker, "ann")


def test_a_run_that_goes_on_after_a_clear_is_looked_at_again(stage: Stage) -> None:
    for name in LINE.names:
        stage.succeed(name)
    close_run(stage.run, stage.ledger, now=stage.clock.now())
    claim = Claim(try_number=2, max_tries=4, process=a_dead_process(), source=Source.WORKER)
    stage.ledger.open_task(stage.key("two"), claim, now=stage.ago(LONG))
    stage.show("two", "running", try_number=2, max_tries=4)

    stage.reconcile()

    assert stage.trail("two") == [("retry_wait", "runtime:attempt_lost")]
    assert stage.run_state() is RunState.RUNNING


# Processes that do not react


def test_a_stop_that_is_not_seen_is_carried_out_by_airflow(stage: Stage) -> None:
    token = stage.open()
    stage.show("one", "running")
    stage.send(Verb.STOP, since=timedelta(seconds=11))

    assert kinds(stage.reconcile()) == [(Mark, True), (EndOnPlatform, True)]
    assert stage.rows.states(stage.run)["one"] == "failed"
    assert stage.state() is TaskState.STOPPING
    # Fenced: should it come to itself, it writes nothing more.
    record = stage.ledger.get_task(stage.key())
    assert record is not None
    assert record.session > token.session
    # It lives, so nobody says that it stopped; nor can anybody say so for ever.
    assert stage.reconcile() == []
    stage.clock.advance(timedelta(minutes=1))
    stage.reconcile()
    assert stage.trail()[-1] == ("lost", "runtime:grace_used_up")


def test_an_attempt_that_does_not_react_is_ended_and_tried_again_by_its_own_policy(stage: Stage) -> None:
    stage.open(since=timedelta(seconds=71))
    stage.show("one", "running", max_tries=3, start_date=stage.ago(timedelta(seconds=71)))
    before = stage.rows.row(stage.key())

    assert kinds(stage.reconcile()) == [(EndOnPlatform, True), (Mark, True)]

    after = stage.rows.row(stage.key())
    assert (after.state, after.try_number, after.retry_delay_override) == ("up_for_retry", 1, 7.0)
    # Its supervisor asks for a task instance that is no more, and kills its process.
    assert after.id != before.id
    record = stage.ledger.get_task(stage.key())
    assert record is not None
    assert (record.state, record.failures, record.losses) == (TaskState.RETRY_WAIT, 1, 0)
    assert stage.trail() == [("retry_wait", "timeout:attempt")]
    assert stage.reconcile() == []


def test_parks_are_no_running_time(stage: Stage) -> None:
    token = stage.open(since=timedelta(minutes=9))
    stage.ledger.park(
        token,
        Change(to=TaskState.PAUSED, trigger="approval:requested"),
        nonce="n",
        request=approval_request(stage),
        now=stage.ago(timedelta(minutes=9) - 5 * SECOND),
    )
    claim = Claim(try_number=1, max_tries=3, process=LocalProcesses().name(), source=Source.WORKER, nonce="n")
    resumed = stage.ledger.open_task(stage.key(), claim, now=stage.ago(timedelta(seconds=40))).token
    for to, trigger in (("queued", "approval:granted"), ("starting", "scheduler:dispatch")):
        stage.ledger.advance(
            resumed, Change(to=TaskState(to), trigger=trigger), now=stage.ago(timedelta(seconds=40))
        )
    stage.ledger.advance(resumed, LAUNCHED, now=stage.ago(timedelta(seconds=40)))
    stage.show("one", "running", max_tries=3)

    assert stage.reconcile() == []
    # 5 s before the park and 65 s after it are 70 s of the 60 that it has, and the grace of 10.
    stage.clock.advance(timedelta(seconds=25))
    assert kinds(stage.reconcile()) == [(EndOnPlatform, True), (Mark, True)]


def approval_request(stage: Stage, *, expires_at: datetime | None = None) -> ApprovalRequest:
    return ApprovalRequest(
        request_id="request-1",
        of="one",
        payload={"amount": 1},
        payload_fingerprint="p",
        ancestors=(),
        approvers=(),
        four_eyes=False,
        expires_at=expires_at,
    )


# Parked tasks


def park(stage: Stage, *, expires_at: datetime | None = None, nonce: str = "n") -> None:
    token = stage.open(process=a_dead_process())
    stage.ledger.park(
        token,
        Change(to=TaskState.PAUSED, trigger="approval:requested"),
        nonce=nonce,
        request=approval_request(stage, expires_at=expires_at),
        now=stage.ago(LONG),
    )
    stage.show("one", "awaiting_input", next_method="louver_resume", next_kwargs={})


def test_an_answer_that_airflow_recorded_and_forgot_is_passed_on(stage: Stage) -> None:
    park(stage)
    stage.rows.ask(stage.key(), options=["Approve", "Reject"], answer="Approve", now=stage.ago(SECOND))
    # A new row of the questions touches no task.
    stage.show("one", "awaiting_input")

    assert [outcome.done for outcome in stage.reconcile()] == [True]
    row = stage.rows.row(stage.key())
    assert row.state == "scheduled"
    assert "Approve" in str(row.next_kwargs)
    # It is for the woken task to say what it means.
    assert stage.state() is TaskState.PAUSED


def test_the_resume_guard_holds_here_too(stage: Stage) -> None:
    park(stage)
    stage.rows.ask(stage.key(), options=["Approve", "Reject"], answer="Approve", now=stage.ago(SECOND))
    stage.show("one", "awaiting_input", since=SECOND)

    (outcome,) = stage.reconcile()

    assert (outcome.done, "only just parked" in str(outcome.why_not)) == (False, True)
    assert stage.rows.states(stage.run)["one"] == "awaiting_input"


def test_an_approval_that_expired_without_a_word_is_recorded_and_its_task_woken(stage: Stage) -> None:
    park(stage, expires_at=stage.ago(timedelta(seconds=31)))
    stage.rows.ask(stage.key(), options=["Approve", "Reject"], now=stage.ago(LONG))
    stage.show("one", "awaiting_input")

    assert [outcome.done for outcome in stage.reconcile()] == [True, True]
    asked = stage.ledger.get_approval("request-1")
    assert asked is not None
    assert asked.decision is Decision.EXPIRED
    row = stage.rows.row(stage.key())
    assert (row.state, "timeout" in str(row.next_kwargs)) == ("scheduled", True)


def test_a_command_that_its_sender_could_not_deliver_wakes_the_task(stage: Stage) -> None:
    park(stage)
    stage.rows.ask(stage.key(), options=["Approve", "Reject", "Stop"], now=stage.ago(LONG))
    stage.show("one", "awaiting_input")
    stage.send(Verb.STOP)

    assert [outcome.done for outcome in stage.reconcile()] == [True]
    assert stage.rows.states(stage.run)["one"] == "scheduled"
    (command,) = stage.ledger.list_commands(stage.run)
    # Whoever opens the task carries it out.
    assert command.state is CommandState.PENDING


def test_a_command_to_a_task_that_is_over_is_refused_with_the_reason(stage: Stage) -> None:
    token = stage.open()
    stage.send(Verb.PAUSE)
    stage.ledger.advance(token, FAILED, now=stage.ago(LONG))
    stage.show("one", "failed")

    stage.reconcile()

    (command,) = stage.ledger.list_commands(stage.run)
    assert (command.state, command.outcome) == (CommandState.REFUSED, "it is failed already")


# Runs that were ended from outside


def test_a_run_that_timed_out_is_compensated_once(stage: Stage) -> None:
    """Case D08: Airflow skips what runs and what would close the run."""
    stage.succeed("one", effect=True)
    stage.open("two", process=a_dead_process())
    for name in ("two", "three", "compensate", "outcome"):
        stage.show(name, "skipped")
    now = stage.clock.now()
    stage.rows.show_run(stage.run, "failed", start_date=now - timedelta(seconds=20), end_date=now)

    outcomes = stage.reconcile()

    assert [type(outcome.repair) for outcome in outcomes][-1] is Compensate
    assert all(outcome.done for outcome in outcomes)
    assert (stage.state("two"), stage.state("three")) == (TaskState.LOST, TaskState.SKIPPED)
    (row,) = [row for row in stage.ledger.list_transitions(stage.run, task_id="two") if row.chain == "side"]
    assert "skipped by dagrun_timeout" in str(row.reason)
    assert stage.run_state() is RunState.COMPENSATING
    (rescue,) = stage.rows.runs(RESCUE_DAG)
    assert rescue.run_id.startswith(rescue_prefix(stage.run))
    assert rescue_target(rescue.conf) == (stage.run, 1)
    # While it is at work, and after it ended in vain, nothing more is started for the same.
    assert stage.reconcile() == []
    stage.rows.show_run(RunKey(RESCUE_DAG, rescue.run_id), "failed")
    assert stage.reconcile() == []


@pytest.mark.parametrize("deleted", ["run", "tasks"])
def test_a_run_whose_rows_are_gone_is_compensated(stage: Stage, deleted: str) -> None:
    stage.succeed("one", effect=True)
    if deleted == "run":
        stage.rows.remove_run(stage.run)
    else:
        for name in ("two", "three", "compensate", "outcome"):
            stage.rows.remove(stage.key(name))
        stage.rows.show_run(stage.run, "success")

    outcomes = stage.reconcile()

    assert all(outcome.done for outcome in outcomes), outcomes
    assert (stage.state("two"), stage.state("three")) == (TaskState.CANCELLED, TaskState.SKIPPED)
    assert len(stage.rows.runs(RESCUE_DAG)) == 1


def test_what_the_rescue_has_undone_closes_the_run(stage: Stage) -> None:
    stage.succeed("one", effect=True)
    stage.rows.remove_run(stage.run)
    stage.reconcile()
    (effect,) = stage.ledger.list_effects(stage.run)

    # As the task of louver_compensate does it.
    claim = Claim(try_number=1, max_tries=4, process="p", source=Source.WORKER)
    token = stage.ledger.open_task(stage.key(COMPENSATE, 1), claim, now=stage.clock.now()).token
    undoing = EffectRequest(
        scope=effect.scope,
        key=f"undo:{effect.reference}",
        name="undo",
        kind=EffectKind.UNDO,
        intent={},
        intent_hash="h" * 64,
        undo=None,
        undoes=effect.reference,
        on_unknown=OnUnknown.MANUAL,
        provider_idempotent=True,
        lease_until=stage.clock.now(),
        quiesce_seconds=0,
    )
    begun = stage.ledger.begin_effect(token, undoing, now=stage.clock.now())
    stage.ledger.commit_effect(token, begun.record, None, now=stage.clock.now())
    # It died before it could close the run, and its process is not that of a task of this Dag.
    assert stage.ledger.list_effects(stage.run)[0].state is EffectState.UNDONE

    assert kinds(stage.reconcile()) == [(CloseRun, True)]
    assert stage.run_state() is RunState.FAILED_COMPENSATED
    assert stage.ledger.get_seal(stage.run) is not None
    assert stage.reconcile() == []


def test_a_run_with_nothing_to_undo_is_closed_and_sealed(stage: Stage) -> None:
    stage.succeed("one")
    stage.rows.remove_run(stage.run)

    outcomes = stage.reconcile()

    assert kinds(outcomes)[-1] == (CloseRun, True)
    assert stage.run_state() is RunState.CANCELLED
    assert stage.ledger.get_seal(stage.run) is not None
    assert stage.rows.runs(RESCUE_DAG) == []


def test_a_run_whose_closing_tasks_are_still_to_come_is_left_to_them(stage: Stage) -> None:
    stage.succeed("one", effect=True)
    for name in ("two", "three"):
        stage.show(name, "skipped")

    stage.reconcile()

    assert stage.rows.runs(RESCUE_DAG) == []
    assert stage.run_state() is RunState.RUNNING


def test_without_the_dag_that_compensates_the_reason_is_said_once(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("louver_provider.reconciler.acts.RESCUE_DAG", "not_deployed")
    stage.succeed("one", effect=True)
    stage.rows.remove_run(stage.run)
    reconciler = Reconciler(stage.ledger, load_settings(), clock=stage.clock)

    for _ in range(3):
        outcomes = list(reconciler.round())

    assert kinds(outcomes) == [(Compensate, False)]
    assert "compensation_dag()" in str(outcomes[0].why_not)
    said = [record for record in caplog.records if "compensation_dag()" in record.getMessage()]
    assert len(said) == 1


# Runs that are over


def test_a_seal_that_is_gone_is_not_made_anew_for_verify_to_find_it(stage: Stage, tmp_path: Path) -> None:
    import sqlite3

    for name in LINE.names:
        stage.succeed(name)
    close_run(stage.run, stage.ledger, now=stage.clock.now())
    with sqlite3.connect(tmp_path / "louver.db") as connection:
        connection.execute("DELETE FROM louver_seal")
    connection.close()

    assert stage.reconcile() == []
    assert stage.ledger.get_seal(stage.run) is None


def test_a_stale_state_is_recomputed(stage: Stage) -> None:
    park(stage)
    stage.rows.ask(stage.key(), options=["Approve"], now=stage.ago(LONG))
    stage.show("one", "awaiting_input")
    assert stage.run_state() is RunState.RUNNING

    stage.reconcile()

    assert stage.run_state() is RunState.WAITING_APPROVAL


def test_a_run_that_nobody_can_read_does_not_keep_the_others_waiting(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import sqlite3

    stage.open(process=a_dead_process())
    stage.show("one", "running")
    other = RunKey("line", "r2")
    marker = stage.rows.run(other)
    stage.ledger.open_run(run_start(LINE, other, marker=marker), now=stage.clock.now())
    claim = Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER)
    stage.ledger.open_task(TaskKey("line", "r2", "one"), claim, now=stage.clock.now())
    with sqlite3.connect(tmp_path / "louver.db") as connection:
        connection.execute("UPDATE louver_task SET state = 'gone fishing' WHERE run_id = 'r2'")
    connection.close()
    reconciler = Reconciler(stage.ledger, load_settings(), clock=stage.clock)

    outcomes = [outcome for _ in range(2) for outcome in reconciler.round()]

    assert kinds(outcomes) == [(Mark, True)]
    said = [record.getMessage() for record in caplog.records if "r2" in record.getMessage()]
    assert len(said) == 1


def test_one_at_a_time(stage: Stage) -> None:
    first, second = (Reconciler(stage.ledger, load_settings(), clock=stage.clock) for _ in range(2))

    taken = first.take()
    assert taken is not None
    assert (taken.term, second.take()) == (1, None)
    first.give()
    again = second.take()
    assert again is not None
    assert again.term == 2
    assert first.take() is None
    # Whoever dies with it is waited for no longer than it lasts.
    stage.clock.advance(timedelta(seconds=30))
    assert first.take() is not None


def test_control_settings_say_how_patient_it_is() -> None:
    assert load_settings().control == ControlSettings()
