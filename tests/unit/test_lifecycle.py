"""One process lives one task: opening, running, parking, going on, closing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.approvals import Answer
from louver.binding import bind
from louver.clock import FixedClock
from louver.definition import ApprovalNode, Definition, Step
from louver.errors import (
    ApprovalExpired,
    AttemptsExhausted,
    ConfigurationError,
    DefinitionChanged,
    LedgerUnavailable,
    Superseded,
    TaskCancelled,
)
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey, TaskKey
from louver.ledger.records import TaskRecord
from louver.lifecycle import Closing, Ended, Lifecycle, TaskCall
from louver.policies import RetryPolicy
from louver.ports import Parked, StepRuntime
from louver.sessions import Change, Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import ParkAnswer, StepCalls, run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
KEY = TaskKey("work", "run-1", "one")
DEFINITION = Definition(name="work", version="1", nodes=[Step(name="one", task="business:one")])


class Actions:
    """A log that remembers the actions told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, action: str, message: str, *args: object) -> None:
        self.told.append(action)


class Nobody:
    def proves_dead(self, process: str) -> bool:
        return False


class Stage:
    """A ledger, a clock, and processes that come one after the other."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)
        self.log = Actions()

    @property
    def life(self) -> Lifecycle:
        return Lifecycle(ledger=self.ledger, clock=self.clock, liveness=Nobody(), log=self.log)

    def call(self, body: Any, *, tries: int = 1, **changes: Any) -> TaskCall:
        call = TaskCall(
            key=KEY,
            start=run_start(DEFINITION, RUN),
            claim=Claim(try_number=tries, max_tries=3, process=f"p{tries}", source=Source.WORKER),
            retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=7)),
            body=body,
        )
        return replace(call, **changes)

    def live(self, body: Any, **changes: Any) -> Closing:
        return self.life.live(self.call(body, **changes))

    def task(self, key: TaskKey = KEY) -> TaskRecord:
        found = self.ledger.get_task(key)
        if found is None:
            pytest.fail(f"no task {key}")
        return found

    def path(self, key: TaskKey = KEY) -> list[str]:
        rows = self.ledger.list_transitions(key.run, task_id=key.task_id)
        return [str(row.to_state) for row in rows]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_ledger("memory://") as ledger:
        yield Stage(ledger)


def give(value: Any) -> Any:
    return lambda runtime: value


def throw(error: BaseException) -> Any:
    def body(runtime: StepRuntime) -> None:
        raise error

    return body


def never(runtime: StepRuntime) -> None:
    raise AssertionError("user code must not run")


def test_a_step_that_works(stage: Stage) -> None:
    closing = stage.live(give({"total": 1}))
    assert (closing.state, closing.value, closing.error) == (TaskState.SUCCEEDED, {"total": 1}, None)
    assert stage.path() == ["queued", "starting", "running", "succeeded"]
    assert stage.log.told == ["state", "state", "session.opened", "state", "state"]
    assert "total" not in repr(closing)


def test_a_step_that_fails_says_when_to_try_again(stage: Stage) -> None:
    error = OSError("card 4111")
    first = stage.live(throw(error))
    assert (first.state, first.error, first.delay) == (TaskState.RETRY_WAIT, error, timedelta(seconds=7))
    second = stage.live(throw(error), tries=2)
    assert (second.state, second.error, second.delay) == (TaskState.FAILED, error, timedelta(0))
    rows = stage.ledger.list_transitions(RUN)
    assert rows[-1].reason == "exception: OSError; attempt 2 of 2 was the last"
    assert (stage.task().failures, stage.task().failure_kind) == (2, FailureKind.EXCEPTION)


def test_a_report_that_was_lost_is_given_again(stage: Stage) -> None:
    """Case F01: the second process runs nothing."""
    stage.live(give([1, None]))
    closing = stage.live(never, tries=2)
    assert (closing.state, closing.value) == (TaskState.SUCCEEDED, [1, None])
    assert stage.path().count("running") == 1


def test_a_step_that_is_over_stays_over(stage: Stage) -> None:
    stage.live(throw(ConfigurationError("no url")))
    closing = stage.live(never, tries=2)
    assert closing.state is TaskState.FAILED
    assert isinstance(closing.error, AttemptsExhausted)
    assert "clear it to run it again" in str(closing.error)


def test_a_cleared_step_runs_again(stage: Stage) -> None:
    stage.live(give(1))
    claim = Claim(try_number=2, max_tries=4, process="p2", source=Source.WORKER)
    assert stage.live(give(2), claim=claim).value == 2
    assert stage.task().generation == 2
    assert stage.ledger.load_result(KEY) == 2


def test_checks_come_before_running(stage: Stage) -> None:
    closing = stage.live(never, prepare=throw(ConfigurationError("no url")))
    assert isinstance(closing.error, ConfigurationError)
    assert stage.path() == ["queued", "starting", "failed"]


def test_a_definition_that_changed_under_the_run(stage: Stage) -> None:
    stage.live(throw(OSError()))
    changed = run_start(replace(DEFINITION, version="2"), RUN)
    assert stage.live(give(1), tries=2, start=changed, any_definition=True).value == 1

    other = replace(KEY, task_id="other")
    closing = stage.live(never, key=other, start=changed)
    assert isinstance(closing.error, DefinitionChanged)
    assert stage.task(other).failure_kind is FailureKind.DEFINITION_CHANGED
    assert stage.path(other) == ["queued", "starting", "failed"]


def test_a_body_may_end_its_task_in_its_own_way(stage: Stage) -> None:
    error = TaskCancelled("stopped by ann")
    stop = Change(to=TaskState.SKIPPED, trigger="task:skip", actor="ann")
    closing = stage.live(throw(Ended(stop, error)))
    assert (closing.state, closing.error) == (TaskState.SKIPPED, error)
    assert stage.path()[-1] == "skipped"


@pytest.mark.parametrize("error", [LedgerUnavailable("no route"), KeyboardInterrupt(), SystemExit(1)])
def test_where_nothing_can_be_known_nothing_is_decided(stage: Stage, error: BaseException) -> None:
    """Row T13: the next process finds the task running."""
    with pytest.raises(type(error)) as caught:
        stage.live(throw(error))
    assert caught.value is error
    assert stage.task().state is TaskState.RUNNING
    assert stage.live(give("done"), tries=2).value == "done"
    assert (stage.task().losses, stage.task().failures) == (1, 0)


def test_a_process_that_was_replaced_writes_nothing_more(stage: Stage) -> None:
    successors: list[Closing] = []

    def be_replaced(runtime: StepRuntime) -> str:
        successors.append(stage.live(give("theirs"), tries=2))
        return "mine"

    with pytest.raises(Superseded):
        stage.live(be_replaced)
    assert successors[0].value == "theirs"
    assert stage.ledger.load_result(KEY) == "theirs"


def test_a_process_that_was_replaced_and_fails_writes_nothing_either(stage: Stage) -> None:
    def be_replaced(runtime: StepRuntime) -> str:
        stage.live(give("theirs"), tries=2)
        raise OSError

    with pytest.raises(Superseded):
        stage.live(be_replaced)
    assert stage.task().state is TaskState.SUCCEEDED


def test_an_older_try_comes_too_late(stage: Stage) -> None:
    stage.live(give("done"), tries=2)
    with pytest.raises(Superseded):
        stage.live(never, tries=1)


# Parks and answers


def amount() -> dict[str, int]:
    return {"amount": 100}


def pay() -> str:
    return "paid"


ASKING = Definition(
    name="work",
    version="1",
    nodes=[
        ApprovalNode(name="approve", of="pay", payload=f"{__name__}:amount", expires_after=3600),
        Step(name="pay", task=f"{__name__}:pay", after=["approve"], approval="approve"),
    ],
)
ASKED = TaskKey("work", "run-1", "approve")


class Approval:
    """The approval task, as Airflow lives it: parked by one process and resumed by the next."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.parked = self.park()

    def live(self, *, nonce: str | None, answer: ParkAnswer | None = None) -> Closing:
        calls = StepCalls(workflow=bind(ASKING), start=run_start(ASKING, RUN), params=lambda _: {})
        claim = Claim(try_number=1, max_tries=0, process="p", source=Source.WORKER, nonce=nonce)
        return self.stage.life.live(calls.node("approve", key=ASKED, claim=claim, answer=answer))

    def park(self, *, nonce: str | None = None, answer: ParkAnswer | None = None) -> Parked:
        with pytest.raises(Parked) as caught:
            self.live(nonce=nonce, answer=answer)
        return caught.value

    def resume(self, answer: ParkAnswer) -> Closing:
        return self.live(nonce=self.parked.nonce, answer=answer)

    def say(self, decision: Decision = Decision.APPROVED, *, by: str | None = "bob") -> ParkAnswer:
        return ParkAnswer(request_id=self.parked.request.request_id, answer=Answer(decision=decision, by=by))


@pytest.fixture
def approval(stage: Stage) -> Approval:
    return Approval(stage)


def test_an_answer_resumes_a_parked_task(stage: Stage, approval: Approval) -> None:
    request = approval.parked.request
    closing = approval.resume(approval.say())
    assert closing.value == {"request_id": request.request_id, "decision": "approved"}
    assert stage.path(ASKED) == [
        *["queued", "starting", "running", "paused"],
        *["queued", "starting", "running", "succeeded"],
    ]
    decided = stage.ledger.get_approval(request.request_id)
    assert decided is not None
    assert (decided.decision, decided.decided_by) == (Decision.APPROVED, "bob")
    assert stage.task(ASKED).attempt == 1


def test_a_resume_is_used_once(approval: Approval) -> None:
    approval.resume(approval.say())
    with pytest.raises(Superseded):
        approval.resume(approval.say())


def test_a_process_without_the_nonce_does_not_resume(stage: Stage, approval: Approval) -> None:
    for nonce in (None, "guessed"):
        with pytest.raises(Superseded):
            approval.live(nonce=nonce, answer=approval.say())
    assert stage.task(ASKED).state is TaskState.PAUSED


@pytest.mark.parametrize(
    ("decision", "state", "trigger"),
    [
        (Decision.REJECTED, TaskState.FAILED, "approval:rejected"),
        (Decision.STOPPED, TaskState.STOPPED, "user:stop"),
    ],
)
def test_an_answer_that_ends_the_task(
    stage: Stage, approval: Approval, decision: Decision, state: TaskState, trigger: str
) -> None:
    assert approval.resume(approval.say(decision)).state is state
    row = stage.ledger.list_transitions(RUN, task_id="approve")[-1]
    assert (row.trigger, row.actor) == (trigger, "bob")


@pytest.mark.parametrize("late", [False, True], ids=["nobody answered", "answered too late"])
def test_a_task_whose_time_is_over_expires(stage: Stage, approval: Approval, late: bool) -> None:
    stage.clock.advance(timedelta(hours=1))
    closing = approval.resume(approval.say() if late else ParkAnswer(timed_out=True))
    assert closing.state is TaskState.FAILED
    assert isinstance(closing.error, ApprovalExpired)
    assert stage.task(ASKED).failure_kind is FailureKind.APPROVAL_EXPIRED


def test_an_answer_that_decides_nothing_leaves_the_same_request_open(
    stage: Stage, approval: Approval
) -> None:
    """The task runs again, finds no approval, and parks with the request it has; its expiry stays too."""
    asked = approval.parked.request
    answers = [
        ParkAnswer(),
        approval.say(by=None),
        replace(approval.say(), request_id="another request"),
    ]
    for answer in answers:
        approval.parked = approval.park(nonce=approval.parked.nonce, answer=answer)
        assert approval.parked.request == asked
        stage.clock.advance(timedelta(minutes=1))
    assert stage.ledger.list_approvals(RUN) == [asked]
    assert approval.resume(approval.say()).state is TaskState.SUCCEEDED


def test_what_the_ledger_holds_goes_before_what_the_answer_says(stage: Stage, approval: Approval) -> None:
    """It was decided on the ledger first; a second decision by the resume changes nothing."""
    request_id = approval.parked.request.request_id
    rejected = Answer(decision=Decision.REJECTED, by="carol")
    stage.ledger.decide_approval(request_id, rejected, now=stage.clock.now())
    assert approval.resume(approval.say()).state is TaskState.FAILED
    decided = stage.ledger.get_approval(request_id)
    assert decided is not None
    assert decided.decided_by == "carol"


def test_user_code_cannot_swallow_a_park() -> None:
    assert not issubclass(Parked, Exception)
