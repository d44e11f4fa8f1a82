"""Pause, resume and stop from Python: what is recorded, for whom, and what is said of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest
from support.airflow_rows import AirflowRows

from louver.clock import FixedClock
from louver.closing import close_run
from louver.definition import Definition
from louver.errors import LedgerError
from louver.intentions import judge_intentions
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, RunKey, TaskKey, Token, Verb
from louver.nodes import Step
from louver.sessions import Change, Claim
from louver.states import Source, TaskState
from louver.steps import run_start
from louver_provider.dag_builder import build_dag
from louver_provider.pause_form import PAUSE_OPTIONS
from louver_provider.task_control import Became, TaskControl

SECOND = timedelta(seconds=1)
RUN = RunKey("asked", "r1")
ONE, TWO = (TaskKey("asked", "r1", name) for name in ("one", "two"))
DEFINITION = Definition(
    name="asked",
    version="1",
    nodes=[Step(name="one", task="tests:work"), Step(name="two", task="tests:work", deps=["one"])],
)

LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
PAUSING = Change(to=TaskState.PAUSING, trigger="user:pause")
PAUSED = Change(to=TaskState.PAUSED, trigger="runtime:pause_reached")
RESUMED = Change(to=TaskState.QUEUED, trigger="user:resume")


def work() -> None:
    """What a step does."""


@pytest.fixture(scope="module")
def tables() -> AirflowRows:
    rows = AirflowRows()
    rows.deploy(build_dag(DEFINITION, tasks={"tests:work": work}))
    return rows


@pytest.fixture
def rows(tables: AirflowRows) -> Iterator[AirflowRows]:
    tables.run(RUN)
    yield tables
    tables.clear()


class Meanwhile(FixedClock):
    """A clock at whose sleeping the world goes on."""

    def __init__(self) -> None:
        super().__init__(datetime.now(timezone.utc))
        self.happens: list[Callable[[], None]] = []

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        if self.happens:
            self.happens.pop(0)()


class Between:
    """A ledger in which something happens once a command was read as open, or its task before it."""

    def __init__(self, ledger: Ledger, happens: Callable[[], None]) -> None:
        self._ledger = ledger
        self._happens: list[Callable[[], None]] = [happens]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if name not in ("list_tasks", "list_commands"):
            return found

        def read(run: RunKey, **given: Any) -> Any:
            rows = found(run, **given)
            if self._happens and not given and self._ledger.list_commands(run):
                self._happens.pop()()
            return rows

        return read


class Stage:
    """A run, the processes of its tasks, and somebody who wants something."""

    def __init__(self, rows: AirflowRows, ledger: Ledger) -> None:
        self.rows = rows
        self.ledger = ledger
        self.clock = Meanwhile()
        self.client = TaskControl(actor="ann", source=Source.CLI, ledger=ledger, clock=self.clock)
        self.ledger.open_run(run_start(DEFINITION, RUN), now=self.now)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def open(self, key: TaskKey = ONE, *, nonce: str | None = None) -> Token:
        claim = Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER, nonce=nonce)
        return self.ledger.open_task(key, claim, now=self.now).token

    def running(self, key: TaskKey = ONE) -> Token:
        token = self.open(key)
        self.ledger.advance(token, LAUNCHED, now=self.now)
        self.rows.show(key, "running")
        return token

    def obeys(self, token: Token, *changes: Change, outcome: str, nonce: str | None = None) -> None:
        """The process takes up its one command and carries it out."""
        (command,) = self.ledger.claim_commands(token, lease_until=self.now + SECOND, now=self.now)
        self.ledger.obey(token, command, *changes, outcome=outcome, nonce=nonce, now=self.now)

    def parked(self) -> Token:
        """A step that ann has paused, five minutes ago."""
        token = self.running()
        self.client.pause(RUN, "one", timeout=timedelta(0))
        self.obeys(token, PAUSING, PAUSED, outcome="paused, slot given back", nonce="pause-1")
        self.rows.ask(ONE, options=list(PAUSE_OPTIONS), now=self.now)
        self.rows.show(ONE, "awaiting_input", updated_at=self.now - timedelta(minutes=5))
        return token

    def ask(self, verb: Verb, task_id: str | None = "one", *, seconds: float = 60, **given: Any) -> Any:
        replies = self.client.ask(verb, RUN, task_id, timeout=timedelta(seconds=seconds), **given)
        if task_id is None:
            return [(reply.task.task_id, reply.became) for reply in replies]
        (reply,) = replies
        return reply

    def states(self) -> list[CommandState]:
        return [command.state for command in self.ledger.list_commands(RUN)]


@pytest.fixture
def stage(rows: AirflowRows, ledger: Ledger) -> Stage:
    return Stage(rows, ledger)


def test_what_does_not_run_is_recorded_at_once_and_taken_back_by_a_resume(stage: Stage) -> None:
    before = stage.now

    assert stage.ask(Verb.PAUSE, reason="month end").became is Became.RECORDED
    assert stage.now == before
    (command,) = stage.ledger.list_commands(RUN)
    assert (command.actor, command.reason, command.source) == ("ann", "month end", Source.CLI)

    assert stage.ask(Verb.RESUME).became is Became.TAKEN_BACK
    assert stage.states() == [CommandState.REFUSED]
    assert stage.ask(Verb.RESUME).became is Became.REFUSED


def test_a_run_means_all_its_unfinished_steps_also_those_that_have_not_begun(stage: Stage) -> None:
    stage.running()
    pause = stage.ask(Verb.PAUSE, None, seconds=0)
    assert pause == [("one", Became.UNCONFIRMED), ("two", Became.RECORDED)]
    stage.ledger.advance(
        stage.running(ONE), Change(to=TaskState.FAILED, trigger="runtime:error"), now=stage.now
    )
    # Its upstream has failed, so it will never run.
    assert stage.ask(Verb.STOP, None) == []
    assert stage.ask(Verb.STOP, "two").state is TaskState.SKIPPED


def test_until_the_owner_has_acted_it_is_unconfirmed(stage: Stage) -> None:
    token = stage.running()
    first = stage.ask(Verb.PAUSE, seconds=3)
    assert (first.became, first.state) == (Became.UNCONFIRMED, TaskState.RUNNING)
    assert stage.states() == [CommandState.PENDING]

    stage.clock.happens = [lambda: stage.obeys(token, PAUSING, PAUSED, outcome="paused in place")]
    stage.ledger.refuse_command(stage.ledger.list_commands(RUN)[0], outcome="", now=stage.now)
    second = stage.ask(Verb.PAUSE)
    assert (second.became, second.detail, second.state) == (Became.DONE, "paused in place", TaskState.PAUSED)


def test_a_pause_that_was_rolled_back_is_not_accepted(stage: Stage) -> None:
    token = stage.running()
    back = Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back")
    stage.clock.happens = [
        lambda: stage.obeys(token, PAUSING, back, outcome="rolled back: no checkpoint within 30 s")
    ]
    reply = stage.ask(Verb.PAUSE)
    assert (reply.became, reply.became.accepted) == (Became.ROLLED_BACK, False)


def test_a_stop_without_waiting_says_that_its_process_will_see_it(stage: Stage) -> None:
    stage.running()
    before = stage.now
    assert stage.ask(Verb.STOP, wait=False).became is Became.UNCONFIRMED
    assert stage.now == before
    assert stage.ask(Verb.STOP).became is Became.REFUSED


def test_what_its_process_does_between_two_reads_is_done(stage: Stage) -> None:
    """On a real Airflow: told as recorded, for a step that had just been stopped by it."""
    token = stage.running()
    stopping = Change(to=TaskState.STOPPING, trigger="user:stop")
    stopped = Change(to=TaskState.STOPPED, trigger="runtime:stop_confirmed")

    def obey() -> None:
        stage.obeys(token, stopping, stopped, outcome="stopped")

    stage.client = replace(stage.client, ledger=cast("Ledger", Between(stage.ledger, obey)))

    reply = stage.ask(Verb.STOP)

    assert (reply.became, reply.state, reply.detail) == (Became.DONE, TaskState.STOPPED, "stopped")


def test_a_step_that_ended_by_itself_is_not_said_to_begin(stage: Stage) -> None:
    token = stage.running()
    succeeded = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")

    def end() -> None:
        stage.ledger.advance(token, succeeded, now=stage.now)

    stage.client = replace(stage.client, ledger=cast("Ledger", Between(stage.ledger, end)))

    assert stage.ask(Verb.STOP, seconds=1).became is Became.UNCONFIRMED


def test_a_parked_step_is_woken_and_what_it_does_is_waited_for(stage: Stage) -> None:
    stage.parked()
    resumed = lambda: stage.obeys(stage.open(nonce="pause-1"), RESUMED, outcome="resumed")  # noqa: E731
    stage.clock.happens = [resumed]

    reply = stage.ask(Verb.RESUME)

    assert (reply.became, reply.detail, reply.state) == (Became.DONE, "resumed", TaskState.QUEUED)
    assert stage.rows.row(ONE).state == "scheduled"


def test_a_parked_step_that_was_woken_and_says_nothing_is_delivered(stage: Stage) -> None:
    stage.parked()
    assert stage.ask(Verb.RESUME, seconds=5).became is Became.DELIVERED
    assert stage.ask(Verb.RESUME).became is Became.REFUSED
    assert stage.ask(Verb.STOP, wait=False, seconds=5).became is Became.UNCONFIRMED


def test_the_resume_guard_is_waited_for(stage: Stage) -> None:
    stage.parked()
    stage.rows.show(ONE, "awaiting_input", updated_at=stage.now - SECOND)
    began = stage.now

    assert stage.ask(Verb.STOP, wait=False).became is Became.DELIVERED

    # After half a minute it matters no more that no scheduler has looked at the run.
    assert timedelta(seconds=28) <= stage.now - began <= timedelta(seconds=32)


def test_what_could_not_be_delivered_stays_pending_and_is_said_so(stage: Stage) -> None:
    stage.parked()
    stage.rows.show(ONE, "running")

    reply = stage.ask(Verb.RESUME, seconds=5)

    assert (reply.became, reply.became.accepted) == (Became.UNCONFIRMED, True)
    assert "about to wait" in (reply.detail or "")
    assert sorted(stage.states()) == [CommandState.DONE, CommandState.PENDING]


def test_what_airflow_has_given_up_is_not_waited_for(stage: Stage) -> None:
    stage.parked()
    stage.rows.show(ONE, "failed")
    began = stage.now

    reply = stage.ask(Verb.RESUME)

    assert (reply.became, "failed" in (reply.detail or "")) == (Became.UNCONFIRMED, True)
    assert stage.now == began


def test_a_stop_that_the_reconciler_delivered_first_is_waited_for(stage: Stage) -> None:
    stage.parked()
    stage.rows.show(ONE, "failed")
    began = stage.now

    reply = stage.ask(Verb.STOP)

    assert (reply.became, "failed" in (reply.detail or "")) == (Became.UNCONFIRMED, True)
    assert timedelta(seconds=15) <= stage.now - began < timedelta(seconds=20)


def test_a_run_that_airflow_has_not_started_is_opened_as_its_first_step_would(
    rows: AirflowRows, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = build_dag(DEFINITION, tasks={"tests:work": work})
    monkeypatch.setattr("louver_provider.adoption.get_dag_by_file_location", lambda dag_id: dag)
    client = TaskControl(actor="ann", ledger=ledger)

    replies = client.pause(RUN)

    assert [reply.became for reply in replies] == [Became.RECORDED, Became.RECORDED]
    run = ledger.get_run(RUN)
    assert run is not None
    assert (run.requester, run.definition_fingerprint) == ("ann", DEFINITION.fingerprint)
    again = run_start(DEFINITION, RUN, marker=rows.runs("asked")[0].run_after.isoformat(), requester="ann")
    assert ledger.open_run(again, now=run.created_at) == run


@pytest.mark.parametrize(
    ("run", "state", "words"),
    [
        (RunKey("asked", "none"), None, "neither the ledger nor Airflow knows"),
        (RUN, "success", "is over: Airflow holds it for success"),
    ],
)
def test_a_run_that_cannot_be_opened_says_why(
    rows: AirflowRows, ledger: Ledger, run: RunKey, state: str | None, words: str
) -> None:
    if state is not None:
        rows.show_run(run, state)
    with pytest.raises(LedgerError, match=words):
        TaskControl(ledger=ledger).pause(run)


def test_a_step_that_the_run_does_not_have_is_an_error(stage: Stage) -> None:
    with pytest.raises(LedgerError, match="it has one, two"):
        stage.client.pause(RUN, "compensate")


MANY = RunKey("many", "r1")
MAPPED = Definition(
    name="many",
    version="1",
    nodes=[
        Step(name="rows", task="tests:work"),
        Step(name="load", task="tests:load", over={"row": "rows"}),
    ],
)
LOADS = [TaskKey("many", "r1", "load", index) for index in range(4)]


class Mapped(Stage):
    """A run with a step that is mapped over four rows, once ``rows`` has ended."""

    def __init__(self, rows: AirflowRows, ledger: Ledger) -> None:
        super().__init__(rows, ledger)
        self.ledger.open_run(run_start(MAPPED, MANY), now=self.now)

    def ends(self, *, known: bool) -> None:
        """The step before it ends: what came of it is known to the ledger, or by Airflow's rows alone."""
        token = self.open(TaskKey("many", "r1", "rows"))
        self.ledger.advance(token, LAUNCHED, now=self.now)
        if known:
            done = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
            self.ledger.complete(token, done, [1, 2, 3, 4], now=self.now)
        else:
            self.rows.map_over(TaskKey("many", "r1", "load"), 4)

    def told(self, verb: Verb, map_index: int | None = None) -> list[tuple[int, Became]]:
        replies = self.client.ask(verb, MANY, "load", map_index=map_index, timeout=timedelta(0))
        return [(reply.task.map_index, reply.became) for reply in replies]

    def meets(self, index: int) -> list[Verb]:
        token = self.open(LOADS[index])
        found = self.ledger.claim_commands(token, lease_until=self.now + SECOND, now=self.now)
        return [command.verb for command in found]


def load(row: int) -> None:
    """What a mapped step does."""


@pytest.fixture(scope="module")
def mapped_tables(tables: AirflowRows) -> AirflowRows:
    tables.deploy(build_dag(MAPPED, tasks={"tests:work": work, "tests:load": load}))
    return tables


@pytest.fixture
def mapped(mapped_tables: AirflowRows, rows: AirflowRows, ledger: Ledger) -> Mapped:
    rows.run(MANY)
    return Mapped(rows, ledger)


@pytest.mark.parametrize("known", [True, False])
def test_a_stop_means_every_index_also_those_that_no_process_has_opened(mapped: Mapped, known: bool) -> None:
    mapped.ends(known=known)
    mapped.open(LOADS[1])

    told = mapped.told(Verb.STOP)

    assert [index for index, _ in told] == [0, 1, 2, 3]
    assert {became for index, became in told if index != 1} == {Became.RECORDED}
    assert mapped.meets(2) == [Verb.STOP]


def test_what_a_step_is_told_before_it_is_expanded_each_of_its_indexes_meets(mapped: Mapped) -> None:
    assert mapped.told(Verb.PAUSE) == [(-1, Became.RECORDED)]

    mapped.ends(known=True)

    assert mapped.meets(0) == [Verb.PAUSE]
    assert mapped.told(Verb.RESUME, 3) == [(3, Became.UNCONFIRMED)]
    assert mapped.meets(3) == [Verb.PAUSE, Verb.RESUME]
    assert mapped.meets(1) == [Verb.PAUSE]


def test_who_resumes_all_indexes_takes_back_what_the_step_was_told_as_a_whole(mapped: Mapped) -> None:
    mapped.told(Verb.PAUSE)
    mapped.ends(known=True)
    assert mapped.meets(0) == [Verb.PAUSE]

    told = mapped.told(Verb.RESUME)

    assert told[1:] == [(index, Became.TAKEN_BACK) for index in (1, 2, 3)]
    assert mapped.meets(1) == []
    assert dict(mapped.told(Verb.PAUSE))[2] is Became.RECORDED
    assert mapped.meets(2) == [Verb.PAUSE]


def test_one_index_that_was_resumed_may_be_paused_again(mapped: Mapped) -> None:
    mapped.told(Verb.PAUSE)
    mapped.ends(known=True)
    mapped.told(Verb.RESUME, 3)
    mapped.clock.sleep(SECOND)

    assert mapped.told(Verb.PAUSE, 2) == [(2, Became.REFUSED)]
    assert mapped.told(Verb.PAUSE, 3) == [(3, Became.RECORDED)]

    token = mapped.open(LOADS[3])
    found = mapped.ledger.claim_commands(token, lease_until=mapped.now + SECOND, now=mapped.now)
    judged = judge_intentions(found, lambda: mapped.ledger.list_commands(MANY))
    assert judged.pause is not None


def test_what_a_whole_step_was_told_is_closed_with_its_run(mapped: Mapped) -> None:
    mapped.told(Verb.STOP)
    rows = mapped.open(TaskKey("many", "r1", "rows"))
    mapped.ledger.advance(rows, LAUNCHED, now=mapped.now)
    failed = Change(to=TaskState.FAILED, trigger="runtime:error")
    mapped.ledger.advance(rows, failed, now=mapped.now)

    close_run(MANY, mapped.ledger, now=mapped.now)

    (command,) = mapped.ledger.list_commands(MANY)
    assert (command.state, command.outcome) == (CommandState.REFUSED, "the run is over")


def test_a_task_of_a_run_made_again_takes_commands_before_it_is_opened(stage: Stage) -> None:
    stage.ledger.open_run(run_start(DEFINITION, RUN, marker="first"), now=stage.now)
    stage.ledger.advance(stage.running(), Change(to=TaskState.FAILED, trigger="runtime:error"), now=stage.now)
    stage.ledger.open_run(run_start(DEFINITION, RUN, marker="second"), now=stage.now)

    assert stage.ask(Verb.STOP).became is Became.RECORDED

    token = stage.open()
    (met,) = stage.ledger.claim_commands(token, lease_until=stage.now + SECOND, now=stage.now)
    assert met.verb is Verb.STOP


def test_an_index_that_there_is_not_is_an_error_that_says_which_there_are(mapped: Mapped) -> None:
    with pytest.raises(LedgerError, match="'rows' of run r1 is not mapped and has no index 3"):
        mapped.client.stop(MANY, "rows", map_index=3)
    with pytest.raises(LedgerError, match="has no index 7: it is not expanded yet; leave the index out"):
        mapped.told(Verb.STOP, 7)
    mapped.ends(known=True)
    with pytest.raises(LedgerError, match="has no index 7: it has the indexes 0 to 3"):
        mapped.told(Verb.STOP, 7)
    assert mapped.ledger.list_commands(MANY) == []
