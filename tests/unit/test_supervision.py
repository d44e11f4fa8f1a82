"""A running step, paused, resumed, stopped and timed out, by command alone and in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest

from louver.binding import bind
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.control import Sent, send
from louver.definition import Definition, Step
from louver.errors import CommandRefused, TaskCancelled, TimeoutReached
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, RunKey, TaskKey, Verb
from louver.ledger.records import CommandRecord
from louver.ledger.requests import CommandRequest
from louver.lifecycle import Closing, Lifecycle
from louver.parked import ParkAnswer
from louver.policies import RetryPolicy
from louver.ports import Parked
from louver.sessions import Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import StepCalls, run_start
from louver.supervision import ControlSettings
from louver.timeouts import Timeouts

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
KEY = TaskKey("work", "run-1", "one")
SECOND = timedelta(seconds=1)


class Told:
    def __init__(self) -> None:
        self.actions: list[str] = []

    def tell(self, action: str, message: str, *args: object) -> None:
        self.actions.append(action)


class Nobody:
    def proves_dead(self, process: str) -> bool:
        return False


class Stage:
    """One step, and people who want something of it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)
        self.log = Told()
        self.tries = 0
        self.nonce: str | None = None
        self.timeouts = Timeouts()
        self.retry = RetryPolicy(max_attempts=2, delay=7 * SECOND)

    @property
    def definition(self) -> Definition:
        step = Step(name="one", task="business:one", timeouts=self.timeouts, retry=self.retry)
        return Definition(name="work", version="1", nodes=[step])

    def live(self, body: Callable[[TaskContext], Any], *, answer: ParkAnswer | None = None) -> Closing:
        """One process lives the task; a parked one presents what the park handed out."""
        if self.nonce is None:
            self.tries += 1

        def one(ctx: TaskContext) -> Any:
            return body(ctx)

        workflow = bind(self.definition, {"one": one})
        calls = StepCalls(workflow=workflow, start=run_start(self.definition, RUN), params=lambda _: {})
        claim = Claim(
            try_number=self.tries,
            max_tries=5,
            process=f"p{self.tries}",
            source=Source.WORKER,
            nonce=self.nonce,
        )
        self.nonce = None
        life = Lifecycle(
            ledger=self.ledger,
            clock=self.clock,
            liveness=Nobody(),
            log=self.log,
            control=ControlSettings(pause_window=30 * SECOND, stop_grace=10 * SECOND),
        )
        try:
            return life.live(calls.node("one", key=KEY, claim=claim, answer=answer))
        except Parked as parked:
            self.nonce = parked.nonce
            raise

    def ask(self, verb: Verb, *, actor: str = "ann", reason: str | None = "month end") -> Sent:
        self.ledger.open_run(run_start(self.definition, RUN), now=self.clock.now())
        request = CommandRequest(
            command_id=uuid4().hex, task=KEY, verb=verb, actor=actor, reason=reason, source=Source.CLI
        )
        return send(self.ledger, request, now=self.clock.now())

    def ask_unseen(self, verb: Verb, actor: str) -> None:
        """Ask for something at the very moment when somebody else does, too."""
        request = CommandRequest(
            command_id=uuid4().hex, task=KEY, verb=verb, actor=actor, reason=None, source=Source.CLI
        )
        self.ledger.open_run(run_start(self.definition, RUN), now=self.clock.now())
        self.ledger.send_command(request, now=self.clock.now())

    def path(self) -> list[str]:
        return [str(row.to_state) for row in self.ledger.list_transitions(RUN)]

    def rows(self) -> list[Any]:
        return self.ledger.list_transitions(RUN)

    def commands(self) -> list[CommandRecord]:
        return self.ledger.list_commands(RUN)

    def outcomes(self) -> list[tuple[str, str, str | None]]:
        return [(str(command.verb), str(command.state), command.outcome) for command in self.commands()]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_ledger("memory://") as ledger:
        yield Stage(ledger)


def wait(stage: Stage, ctx: TaskContext, seconds: float = 1, state: Any = ...) -> None:
    stage.clock.sleep(timedelta(seconds=seconds))
    ctx.checkpoint(state)


# Pause


def test_with_a_state_the_slot_is_given_back_and_the_step_goes_on_from_there(stage: Stage) -> None:
    done: list[int] = []

    def work(ctx: TaskContext) -> int:
        for number in range(ctx.restore(0), 100):
            done.append(number)
            if number == 39:
                stage.ask(Verb.PAUSE)
            wait(stage, ctx, state=number + 1)
        return len(done)

    with pytest.raises(Parked) as parked:
        stage.live(work)
    assert parked.value.request is None
    assert (parked.value.pause and parked.value.pause.actor) == "ann"
    assert stage.path()[-2:] == ["pausing", "paused"]
    assert stage.rows()[-1].reason == "month end"

    stage.ask(Verb.RESUME, actor="bob")
    closing = stage.live(work)

    assert (closing.state, closing.value) == (TaskState.SUCCEEDED, 100)
    assert done == list(range(100))
    assert stage.path()[-5:] == ["paused", "queued", "starting", "running", "succeeded"]
    resumed = stage.rows()[-4]
    assert (resumed.trigger, resumed.actor) == ("user:resume", "bob")
    assert stage.outcomes() == [("pause", "done", "paused, slot given back"), ("resume", "done", "resumed")]


def test_a_pause_is_consumed_once(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        if stage.tries == 1 and not stage.commands():
            stage.ask(Verb.PAUSE)
        wait(stage, ctx, state="c2")

    with pytest.raises(Parked):
        stage.live(work)
    stage.ask(Verb.RESUME)

    assert stage.live(work).state is TaskState.SUCCEEDED


def test_without_a_state_it_waits_in_place(stage: Stage) -> None:
    class Waiting(FixedClock):
        def sleep(self, duration: timedelta) -> None:
            super().sleep(duration)
            if stage.path()[-1] == "paused" and self.now() - NOW == 60 * SECOND:
                stage.ask(Verb.RESUME)

    stage.clock = Waiting(NOW)

    def work(ctx: TaskContext) -> str:
        stage.ask(Verb.PAUSE)
        wait(stage, ctx)
        return "went on"

    assert stage.live(work).value == "went on"
    assert stage.path()[-4:] == ["pausing", "paused", "running", "succeeded"]
    assert stage.outcomes() == [("pause", "done", "paused in place"), ("resume", "done", "resumed")]


def test_a_pause_that_is_not_reached_rolls_back_for_all_to_see(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.PAUSE)
        supervision: Any = ctx._runtime.supervision
        stage.clock.sleep(SECOND)
        supervision.poll()
        assert ctx.is_pause_requested
        stage.clock.sleep(31 * SECOND)
        supervision.poll()
        assert not ctx.is_pause_requested
        ctx.checkpoint("later")

    assert stage.live(work).state is TaskState.SUCCEEDED
    assert stage.path()[-3:] == ["pausing", "running", "succeeded"]
    assert stage.rows()[-2].reason == "no checkpoint within 30 s"
    assert stage.outcomes() == [("pause", "done", "rolled back: no checkpoint within 30 s")]


def test_a_resume_before_the_pause_is_reached_takes_it_back(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.PAUSE)
        stage.clock.sleep(SECOND)
        supervision: Any = ctx._runtime.supervision
        supervision.poll()
        stage.ask(Verb.RESUME)
        wait(stage, ctx, state=1)

    assert stage.live(work).state is TaskState.SUCCEEDED
    assert stage.path()[-3:] == ["pausing", "running", "succeeded"]
    assert [state for _, state, _ in stage.outcomes()] == ["refused", "done"]


def test_an_intention_parks_before_user_code_and_can_be_taken_back(stage: Stage) -> None:
    def work(ctx: TaskContext) -> str:
        return "done"

    stage.ask(Verb.PAUSE)
    taken_back = stage.ask(Verb.RESUME)
    assert taken_back.cancelled is not None
    stage.ask(Verb.PAUSE)

    with pytest.raises(Parked):
        stage.live(work)
    assert stage.path()[-1] == "paused"
    with pytest.raises(CommandRefused):
        stage.ask(Verb.PAUSE)

    assert stage.live(work, answer=ParkAnswer(verb=Verb.RESUME, by="eve")).value == "done"
    assert [row.actor for row in stage.rows() if row.trigger == "user:resume"] == ["eve"]


class Killed(BaseException):
    """The process is gone, without a word to anybody."""


def kill_while(stage: Stage, monkeypatch: pytest.MonkeyPatch, doing: str) -> None:
    """The next process dies when it comes to that point of its resume."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"louver.parked.{doing}", die)
        with pytest.raises(Killed):
            stage.live(lambda ctx: pytest.fail("user code ran"), answer=ParkAnswer(verb=Verb.RESUME))


# As it takes the resume up, and as it has claimed it and is about to record it.
@pytest.mark.parametrize("doing", ["_go_on_after_pause", "_carry_out"])
def test_a_resume_whose_process_dies_on_the_way_is_done_by_the_next_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.clock.sleep(SECOND)
    stage.ask(Verb.RESUME, actor="bob")
    kill_while(stage, monkeypatch, doing)
    assert stage.commands()[-1].closed_at is None

    assert stage.live(lambda ctx: "done").value == "done"

    assert stage.path()[-6:] == ["paused", "retry_wait", "queued", "starting", "running", "succeeded"]
    assert stage.outcomes()[-1] == ("resume", "done", "resumed, by a new process")


@pytest.mark.parametrize(
    ("by", "state"),
    [("louver", TaskState.CANCELLED), (None, TaskState.CANCELLED), ("ann", TaskState.STOPPED)],
)
def test_a_cancel_that_wakes_a_paused_task_is_no_stop_of_a_persons(
    stage: Stage, by: str | None, state: TaskState
) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.ask_unseen(Verb.CANCEL, "louver")

    answer = ParkAnswer(verb=Verb.STOP, by=by)
    closing = stage.live(lambda ctx: pytest.fail("user code ran"), answer=answer)

    assert (closing.state, stage.path()[-1]) == (state, str(state))
    assert stage.rows()[-1].actor == (by or "louver")
    assert all(command.closed_at is not None for command in stage.commands())


def test_a_pause_after_such_a_resume_is_carried_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.ask(Verb.RESUME)
    kill_while(stage, monkeypatch, "_go_on_after_pause")
    stage.clock.sleep(SECOND)
    stage.ask_unseen(Verb.PAUSE, "eve")

    with pytest.raises(Parked):
        stage.live(lambda ctx: pytest.fail("user code ran"))

    assert [state for _, state, _ in stage.outcomes()] == ["done", "done", "done"]
    assert stage.rows()[-1].actor == "eve"


def test_a_resume_takes_a_pause_back_that_died_with_its_process(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.PAUSE)
        supervision: Any = ctx._runtime.supervision
        supervision.poll()
        stage.clock.sleep(SECOND)
        stage.ask(Verb.RESUME)
        raise Killed

    with pytest.raises(Killed):
        stage.live(work)
    assert stage.path()[-1] == "pausing"

    assert stage.live(lambda ctx: "done").value == "done"
    assert stage.outcomes() == [("pause", "refused", "taken back"), ("resume", "done", "taken back")]


def test_a_resume_that_has_nothing_to_resume_is_refused_at_the_start(stage: Stage) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.clock.sleep(SECOND)
    stage.ask(Verb.RESUME)

    def work(ctx: TaskContext) -> None:
        stage.clock.sleep(SECOND)
        stage.ask_unseen(Verb.RESUME, "late")
        raise Killed

    with pytest.raises(Killed):
        stage.live(work, answer=ParkAnswer(verb=Verb.RESUME))
    assert stage.live(lambda ctx: "done").value == "done"
    assert stage.outcomes()[-1] == ("resume", "refused", "it was not paused")


# Stop


def test_a_stop_is_seen_at_the_next_checkpoint_and_nothing_is_tried_again(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.STOP)
        wait(stage, ctx)
        raise AssertionError("it went on")

    closing = stage.live(work)

    assert closing.state is TaskState.STOPPED
    assert isinstance(closing.error, TaskCancelled)
    assert stage.path()[-2:] == ["stopping", "stopped"]
    assert [row.actor for row in stage.rows()[-2:]] == ["ann", "ann"]
    assert stage.outcomes() == [("stop", "done", "stopped")]


def test_code_that_swallows_the_stop_meets_it_again(stage: Stage) -> None:
    met = 0

    def work(ctx: TaskContext) -> None:
        nonlocal met
        stage.ask(Verb.STOP)
        for _ in range(3):
            try:
                wait(stage, ctx)
            except Exception:
                met += 1
        wait(stage, ctx)

    assert stage.live(work).state is TaskState.STOPPED
    assert met == 3


def test_an_error_that_comes_of_the_stop_is_a_stop(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.STOP)
        try:
            wait(stage, ctx)
        except TaskCancelled as error:
            raise RuntimeError("tidied up") from error

    assert stage.live(work).state is TaskState.STOPPED


def test_what_finished_before_the_stop_arrived_has_succeeded(stage: Stage) -> None:
    def work(ctx: TaskContext) -> int:
        stage.ask(Verb.STOP)
        supervision: Any = ctx._runtime.supervision
        supervision.poll()
        return 1

    assert stage.live(work).state is TaskState.SUCCEEDED
    assert stage.path()[-2:] == ["stopping", "succeeded"]
    assert stage.outcomes() == [("stop", "refused", "it finished first")]


def test_what_failed_while_it_was_stopping_is_not_tried_again(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.STOP)
        supervision: Any = ctx._runtime.supervision
        supervision.poll()
        raise ValueError("broken")

    assert stage.live(work).state is TaskState.FAILED


def test_a_stop_outranks_a_pause(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.PAUSE)
        stage.ask(Verb.STOP)
        wait(stage, ctx, state=1)

    assert stage.live(work).state is TaskState.STOPPED
    assert "paused" not in stage.path()
    # Both were sent at the same moment.
    assert {verb: state for verb, state, _ in stage.outcomes()} == {"pause": "refused", "stop": "done"}


def test_a_stop_of_what_does_not_run_is_honoured_at_its_start(stage: Stage) -> None:
    stage.ask(Verb.STOP)

    closing = stage.live(lambda ctx: pytest.fail("user code ran"))

    assert closing.state is TaskState.STOPPED
    assert stage.path()[-2:] == ["starting", "stopped"]


def test_a_paused_task_can_be_stopped(stage: Stage) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.ask(Verb.STOP, actor="bob")

    closing = stage.live(lambda ctx: pytest.fail("user code ran"))

    assert closing.state is TaskState.STOPPED
    assert (stage.rows()[-1].trigger, stage.rows()[-1].actor) == ("user:stop", "bob")


def test_a_stop_survives_the_process_that_took_it_up(stage: Stage) -> None:
    class Killed(BaseException):
        pass

    def work(ctx: TaskContext) -> None:
        stage.ask(Verb.STOP)
        supervision: Any = ctx._runtime.supervision
        supervision.poll()
        raise Killed

    with pytest.raises(Killed):
        stage.live(work)
    assert stage.commands()[0].state is CommandState.CLAIMED

    assert stage.live(lambda ctx: pytest.fail("user code ran")).state is TaskState.STOPPED
    assert stage.path()[-5:] == ["stopping", "retry_wait", "queued", "starting", "stopped"]


# Several people at once


def test_what_several_want_at_once_is_done_once(stage: Stage) -> None:
    def work(ctx: TaskContext) -> str:
        if not stage.commands():
            # Each was asked for before the other was there to be seen.
            stage.ask_unseen(Verb.PAUSE, "ann")
            stage.ask_unseen(Verb.PAUSE, "bob")
        wait(stage, ctx, state=1)
        return "done"

    with pytest.raises(Parked):
        stage.live(work)
    assert sorted(outcome or "" for _, _, outcome in stage.outcomes()) == [
        "a pause was asked for already",
        "paused, slot given back",
    ]
    stage.ask_unseen(Verb.RESUME, "ann")
    stage.ask_unseen(Verb.RESUME, "bob")
    stage.ask_unseen(Verb.PAUSE, "eve")

    assert stage.live(work).value == "done"

    # Nothing is left to be carried out later, out of the blue.
    assert {command.state for command in stage.commands()} == {CommandState.DONE, CommandState.REFUSED}
    assert stage.path().count("paused") == 1


def test_two_stops_at_once_are_one_and_the_other_is_refused(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        stage.ask_unseen(Verb.STOP, "ann")
        stage.ask_unseen(Verb.STOP, "bob")
        stage.ask_unseen(Verb.PAUSE, "eve")
        wait(stage, ctx)

    assert stage.live(work).state is TaskState.STOPPED
    assert sorted(state for _, state, _ in stage.outcomes()) == ["done", "refused", "refused"]


def test_a_pause_that_comes_while_one_is_being_reached_is_refused(stage: Stage) -> None:
    def work(ctx: TaskContext) -> str:
        supervision: Any = ctx._runtime.supervision
        if not stage.commands():
            stage.ask(Verb.PAUSE)
            stage.clock.sleep(SECOND)
            supervision.poll()
            stage.ask_unseen(Verb.PAUSE, "bob")
            stage.clock.sleep(SECOND)
            supervision.poll()
        ctx.checkpoint(1)
        return "done"

    with pytest.raises(Parked) as parked:
        stage.live(work)
    assert (parked.value.pause and parked.value.pause.actor) == "ann"
    assert sorted(state for _, state, _ in stage.outcomes()) == ["done", "refused"]


def test_an_intention_of_two_people_is_honoured_once(stage: Stage) -> None:
    stage.ask_unseen(Verb.PAUSE, "ann")
    stage.ask_unseen(Verb.PAUSE, "bob")
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)

    assert stage.live(lambda ctx: "done", answer=ParkAnswer(verb=Verb.RESUME, by="eve")).value == "done"
    assert stage.path().count("paused") == 1


@pytest.mark.parametrize("answered", [Verb.RESUME, None])
def test_a_stop_goes_before_what_was_answered_in_the_ui(stage: Stage, answered: Verb | None) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.ask(Verb.STOP, actor="bob")

    closing = stage.live(lambda ctx: pytest.fail("user code ran"), answer=ParkAnswer(verb=answered, by="eve"))

    assert closing.state is TaskState.STOPPED
    assert stage.rows()[-1].actor == "bob"


def test_a_stop_in_the_ui_goes_before_a_resume_that_was_sent(stage: Stage) -> None:
    stage.ask(Verb.PAUSE)
    with pytest.raises(Parked):
        stage.live(lambda ctx: None)
    stage.ask(Verb.RESUME, actor="bob")

    answer = ParkAnswer(verb=Verb.STOP, by="eve")
    closing = stage.live(lambda ctx: pytest.fail("user code ran"), answer=answer)

    assert closing.state is TaskState.STOPPED
    assert stage.rows()[-1].actor == "eve"
    assert ("resume", "refused", "it was stopped already") in stage.outcomes()


# Limits


def test_an_attempt_that_takes_too_long_fails_with_its_figures(stage: Stage) -> None:
    stage.timeouts = Timeouts(attempt=60 * SECOND)
    stage.retry = RetryPolicy()

    def work(ctx: TaskContext) -> None:
        for _ in range(100):
            wait(stage, ctx, seconds=10)

    closing = stage.live(work)

    assert isinstance(closing.error, TimeoutReached)
    row = stage.rows()[-1]
    assert (row.to_state, row.trigger) == (TaskState.FAILED, "timeout:attempt")
    assert "for 60.0 s; the limit is 60.0 s" in row.reason
    assert stage.ledger.get_task(KEY).failure_kind is FailureKind.TIMEOUT_ATTEMPT  # type: ignore[union-attr]


def test_the_limit_goes_on_over_parks_which_do_not_count(stage: Stage) -> None:
    stage.timeouts = Timeouts(attempt=60 * SECOND)
    stage.retry = RetryPolicy()
    ran = timedelta(0)

    def work(ctx: TaskContext) -> None:
        nonlocal ran
        for number in range(ctx.restore(0), 100):
            if number in (2, 4):
                stage.ask(Verb.PAUSE)
            ran += 10 * SECOND
            wait(stage, ctx, seconds=10, state=number + 1)

    for _ in range(2):
        with pytest.raises(Parked):
            stage.live(work)
        stage.clock.sleep(timedelta(minutes=5))
        stage.ask(Verb.RESUME)

    assert stage.live(work).state is TaskState.FAILED
    assert ran == 60 * SECOND


def test_progress_is_no_checkpoint(stage: Stage) -> None:
    stage.timeouts = Timeouts(idle=30 * SECOND)
    stage.retry = RetryPolicy()

    def work(ctx: TaskContext) -> None:
        for number in range(10):
            stage.clock.sleep(5 * SECOND)
            ctx.progress(number, 10, unit="rows")
        ctx.checkpoint()

    assert isinstance(stage.live(work).error, TimeoutReached)
    assert stage.rows()[-1].trigger == "timeout:idle"
    (touch,) = stage.ledger.list_touches(RUN)
    assert (touch.done, touch.total, touch.unit) == (9, 10, "rows")


def test_the_last_word_about_progress_is_told(stage: Stage) -> None:
    def work(ctx: TaskContext) -> None:
        for number in range(1, 11):
            ctx.progress(number, 10)

    stage.live(work)
    (touch,) = stage.ledger.list_touches(RUN)
    assert touch.done == 10


def test_a_result_that_comes_too_late_is_none(stage: Stage) -> None:
    stage.timeouts = Timeouts(attempt=10 * SECOND)
    stage.retry = RetryPolicy()

    def work(ctx: TaskContext) -> int:
        stage.clock.sleep(11 * SECOND)
        with suppress(Exception):
            ctx.checkpoint()
        return 5

    assert stage.live(work).state is TaskState.FAILED


def test_a_timeout_is_tried_again_as_any_failure(stage: Stage) -> None:
    stage.timeouts = Timeouts(attempt=10 * SECOND)

    def work(ctx: TaskContext) -> int:
        if stage.tries == 1:
            wait(stage, ctx, seconds=11)
        return 5

    first = stage.live(work)
    assert (first.state, first.delay) == (TaskState.RETRY_WAIT, 7 * SECOND)
    assert stage.live(work).value == 5
