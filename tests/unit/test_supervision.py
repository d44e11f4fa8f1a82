"""A running step, paused, resumed, stopped and timed out, by command alone and in milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from support.supervised import KEY, NOW, RUN, SECOND, Nobody, Stage, wait

from louver.clock import FixedClock
from louver.closing import compensate_call
from louver.context import TaskContext
from louver.errors import CommandRefused, TaskCancelled, TimeoutReached
from louver.ledger import open_ledger
from louver.ledger.names import CommandState, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.lifecycle import Lifecycle
from louver.parked import ParkAnswer
from louver.policies import RetryPolicy
from louver.ports import Parked
from louver.sessions import Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import run_start
from louver.supervision import Supervision
from louver.timeouts import Timeouts


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_ledger("memory://") as ledger:
        yield Stage(ledger)


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


# What is not to be stopped half way


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.STOP])
def test_what_undoes_a_run_takes_no_commands_however_closely_it_is_watched(stage: Stage, verb: Verb) -> None:
    """Semantics section 4."""
    stage.retry = RetryPolicy()

    def fail(ctx: TaskContext) -> None:
        raise ValueError("broken")

    assert stage.live(fail).state is TaskState.FAILED
    key = TaskKey("work", "run-1", "compensate")
    request = CommandRequest(
        command_id="c1", task=key, verb=verb, actor="ann", reason=None, source=Source.CLI
    )
    stage.ledger.send_command(request, now=stage.clock.now())

    @contextmanager
    def watch(supervision: Supervision) -> Iterator[None]:
        supervision.poll()
        yield
        supervision.poll()
        supervision.checkpoint()

    life = Lifecycle(ledger=stage.ledger, clock=stage.clock, liveness=Nobody(), log=stage.log, watch=watch)
    claim = Claim(try_number=1, max_tries=3, process="p", source=Source.WORKER)
    closing = life.live(compensate_call(run_start(stage.definition, RUN), claim))

    assert closing.state is TaskState.SUCCEEDED
    rows = stage.ledger.list_transitions(RUN, task_id="compensate")
    assert [str(row.to_state) for row in rows] == ["queued", "starting", "running", "succeeded"]
    assert [command.state for command in stage.commands()] == [CommandState.PENDING]


# Several threads


class Company(FixedClock):
    """Time in which a paused step is resumed, once all of its threads have come to wait."""

    def __init__(self, stage: Stage, threads: int) -> None:
        super().__init__(NOW)
        self.stage = stage
        self.threads = threads
        self.waiting: set[int] = set()
        self.paused = threading.Event()
        self.one_at_a_time = threading.Lock()

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        if self.stage.path()[-1] != "paused":
            return
        self.paused.set()
        with self.one_at_a_time:
            self.waiting.add(threading.get_ident())
            if len(self.waiting) == self.threads and len(self.stage.commands()) == 1:
                self.stage.ask(Verb.RESUME)


@pytest.mark.parametrize("end", ["returns", "raises", "comes to a checkpoint"])
def test_while_one_thread_is_paused_in_place_the_step_does_not_end(stage: Stage, end: str) -> None:
    stage.retry = RetryPolicy()
    clock = stage.clock = Company(stage, threads=2)

    def work(ctx: TaskContext) -> str:
        stage.ask(Verb.PAUSE)
        stage.clock.sleep(SECOND)
        other = threading.Thread(target=ctx.checkpoint)
        other.start()
        assert clock.paused.wait(30), "it never paused"
        if end == "comes to a checkpoint":
            ctx.checkpoint()
            assert stage.path()[-1] == "running"
        other_threads.append(other)
        if end == "raises":
            raise ValueError("broken")
        return "done"

    other_threads: list[threading.Thread] = []
    closing = stage.live(work)
    other_threads[0].join(30)

    ended = "failed" if end == "raises" else "succeeded"
    assert closing.state == ended
    assert stage.path()[-4:] == ["pausing", "paused", "running", ended]
    assert [state for _, state, _ in stage.outcomes()] == ["done", "done"]


def test_a_stop_ends_all_threads_that_are_paused_in_place(stage: Stage) -> None:
    clock = stage.clock = Company(stage, threads=3)
    met: list[type[BaseException]] = []

    def work(ctx: TaskContext) -> str:
        def other() -> None:
            try:
                ctx.checkpoint()
            except TaskCancelled as error:
                met.append(type(error))

        stage.ask(Verb.PAUSE)
        stage.clock.sleep(SECOND)
        thread = threading.Thread(target=other)
        thread.start()
        assert clock.paused.wait(30), "it never paused"
        stage.ask(Verb.STOP)
        try:
            ctx.checkpoint()
        finally:
            thread.join(30)
        return "nobody stopped it"

    assert stage.live(work).state is TaskState.STOPPED
    assert met == [TaskCancelled]
    assert stage.path()[-4:] == ["pausing", "paused", "stopping", "stopped"]
