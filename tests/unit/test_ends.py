"""Every way in which a step can end, from every state that its end can meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from support.supervised import KEY, SECOND, Stage, poll, supervision_of, wait

from louver.context import TaskContext
from louver.errors import LedgerUnavailable, LouverError, TaskCancelled
from louver.ledger import open_ledger
from louver.ledger.names import CommandState, Verb
from louver.ledger.requests import ApprovalRequest
from louver.lifecycle import Ended
from louver.policies import RetryPolicy
from louver.ports import Interrupted, Parked
from louver.sessions import Change
from louver.states import FailureKind, TaskState
from louver.timeouts import Timeouts

LIMIT = 10 * SECOND


class PlatformSkip(Exception):
    """As Airflow's own."""


class PlatformFail(Exception):
    """Likewise."""


class Killed(BaseException):
    """The process is gone, without a word to anybody."""


def request_in(error: Exception) -> Change | None:
    if isinstance(error, PlatformSkip):
        return Change(to=TaskState.SKIPPED, trigger="task:skip")
    if isinstance(error, PlatformFail):
        return Change(to=TaskState.FAILED, trigger="runtime:error", failure_kind=FailureKind.EXCEPTION)
    return None


@pytest.fixture
def stage() -> Iterator[Stage]:
    with open_ledger("memory://") as ledger:
        stage = Stage(ledger)
        stage.watched = True
        stage.request_in = request_in
        stage.timeouts = Timeouts(attempt=LIMIT)
        yield stage


# What the step is in when it ends


def running(stage: Stage, ctx: TaskContext) -> None:
    assert stage.path()[-1] == "running"


def pausing(stage: Stage, ctx: TaskContext) -> None:
    stage.ask(Verb.PAUSE)
    poll(ctx)
    assert stage.path()[-1] == "pausing"


def rolled_back(stage: Stage, ctx: TaskContext) -> None:
    pausing(stage, ctx)
    stage.ask(Verb.RESUME)
    poll(ctx)
    assert stage.path()[-2:] == ["pausing", "running"]


def stopping(stage: Stage, ctx: TaskContext) -> None:
    stage.ask(Verb.STOP)
    poll(ctx)
    assert stage.path()[-1] == "stopping"


def cancelling(stage: Stage, ctx: TaskContext) -> None:
    stage.ask_unseen(Verb.CANCEL, "louver")
    poll(ctx)
    assert stage.path()[-1] == "stopping"


def pausing_and_then_stopping(stage: Stage, ctx: TaskContext) -> None:
    pausing(stage, ctx)
    stage.ask(Verb.STOP)
    poll(ctx)
    assert stage.path()[-2:] == ["pausing", "stopping"]


STATES = {
    running: None,
    pausing: None,
    rolled_back: None,
    stopping: "stopped",
    pausing_and_then_stopping: "stopped",
    cancelling: "cancelled",
}
"""To how a stop that is confirmed ends there; None where none was asked for."""


# How it ends


def returns(stage: Stage, ctx: TaskContext) -> str:
    return "done"


def raises(stage: Stage, ctx: TaskContext) -> NoReturn:
    raise ValueError("broken")


def raises_for_good(stage: Stage, ctx: TaskContext) -> NoReturn:
    # Read by the process that lives it already.
    raise PlatformFail


def skips(stage: Stage, ctx: TaskContext) -> NoReturn:
    ctx.skip("nothing to do")


def skips_as_the_platform_does(stage: Stage, ctx: TaskContext) -> NoReturn:
    raise PlatformSkip


def ends_in_its_own_way(stage: Stage, ctx: TaskContext) -> NoReturn:
    raise Ended(Change(to=TaskState.SKIPPED, trigger="task:skip"), LouverError("nothing to do"))


def late(stage: Stage, ctx: TaskContext) -> None:
    stage.clock.sleep(LIMIT)
    poll(ctx)


def returns_late(stage: Stage, ctx: TaskContext) -> str:
    late(stage, ctx)
    return "done"


def raises_late(stage: Stage, ctx: TaskContext) -> NoReturn:
    late(stage, ctx)
    raise ValueError("broken")


def meets_the_limit(stage: Stage, ctx: TaskContext) -> NoReturn:
    late(stage, ctx)
    ctx.checkpoint()
    raise AssertionError("it went on")


def is_interrupted_late(stage: Stage, ctx: TaskContext) -> NoReturn:
    late(stage, ctx)
    raise Interrupted


def is_interrupted(stage: Stage, ctx: TaskContext) -> NoReturn:
    raise Interrupted


def is_killed_late(stage: Stage, ctx: TaskContext) -> NoReturn:
    late(stage, ctx)
    supervision_of(ctx).give_up("it did not react")
    raise Killed


def asks(stage: Stage, ctx: TaskContext) -> NoReturn:
    request = ApprovalRequest(
        request_id="r1",
        of="one",
        payload={"amount": 5},
        payload_fingerprint="f" * 64,
        ancestors=(),
        approvers=(),
        four_eyes=False,
        expires_at=None,
    )
    change = Change(to=TaskState.PAUSED, trigger="approval:requested")
    record = supervision_of(ctx).ask(change, nonce="n1", request=request)
    raise Parked(record, "n1")


def swallows_that_it_asked(stage: Stage, ctx: TaskContext) -> str:
    try:
        asks(stage, ctx)
    except BaseException:
        return "done"


def cancels_itself(stage: Stage, ctx: TaskContext) -> NoReturn:
    raise TaskCancelled("it had enough")


STOP = "as the stop says"
ENDS: dict[Callable[[Stage, TaskContext], Any], tuple[str, str]] = {
    returns: ("succeeded", "succeeded"),
    raises: ("retry_wait", "failed"),
    raises_for_good: ("failed", "failed"),
    skips: ("skipped", STOP),
    skips_as_the_platform_does: ("skipped", STOP),
    ends_in_its_own_way: ("skipped", STOP),
    returns_late: ("retry_wait", STOP),
    raises_late: ("retry_wait", "failed"),
    meets_the_limit: ("retry_wait", STOP),
    is_interrupted_late: ("retry_wait", STOP),
    is_interrupted: ("as it was", STOP),
    is_killed_late: ("retry_wait", "as it was"),
    asks: ("paused", STOP),
    swallows_that_it_asked: ("paused", "succeeded"),
    cancels_itself: ("failed", STOP),
}
"""To how the task stands then: where no stop was asked for, and where one was."""


@pytest.mark.parametrize("missed", [False, True], ids=["told", "missed"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_step_ends_as_the_table_allows(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    state: Callable[[Stage, TaskContext], None],
    end: Callable[[Stage, TaskContext], Any],
    missed: bool,
) -> None:
    """Where a transition was missed before, too: the ledger was away as the code was launched."""
    seen: list[str] = []
    if missed:
        away_once(stage, monkeypatch)

    def body(ctx: TaskContext) -> Any:
        if missed and state is running:
            assert stage.path()[-1] == "starting"
        else:
            state(stage, ctx)
        seen.append(stage.path()[-1])
        return end(stage, ctx)

    parked = closing = None
    try:
        closing = stage.live(body)
    except Parked as error:
        parked = error
    except (Interrupted, Killed):
        pass

    freely, stopped = ENDS[end]
    wanted = freely if STATES[state] is None else stopped
    wanted = {STOP: STATES[state], "as it was": seen[0]}.get(wanted, wanted)
    assert stage.path()[-1] == stage.task().state == wanted
    assert [row.version for row in stage.rows()] == list(range(1, len(stage.rows()) + 1))
    if closing is not None:
        assert closing.state == wanted
    if parked is not None:
        assert (wanted, stage.task().nonce) == ("paused", parked.nonce)
    if closing is not None or parked is not None:
        # Nobody waits for ever for what was asked.
        assert CommandState.CLAIMED not in [command.state for command in stage.commands()]


def away_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is away when the code of the step is launched, and back at once."""
    advance = stage.ledger.advance

    def miss(*_: object, **__: object) -> NoReturn:
        monkeypatch.setattr(stage.ledger, "advance", advance)
        raise LedgerUnavailable("out of reach")

    monkeypatch.setattr(stage.ledger, "advance", miss)


# What becomes of a pause that was not reached


@pytest.mark.parametrize("end", [skips, returns, raises_for_good, returns_late, raises, asks])
def test_a_pause_that_was_not_reached_is_told_or_kept_for_the_next_process(
    stage: Stage, end: Callable[[Stage, TaskContext], Any]
) -> None:
    def body(ctx: TaskContext) -> Any:
        pausing(stage, ctx)
        return end(stage, ctx)

    try:
        over = stage.live(body).state.terminal
    except Parked:
        over = False

    (pause,) = stage.commands()
    assert pause.state is (CommandState.REFUSED if over else CommandState.PENDING)


def test_a_pause_of_an_attempt_that_failed_holds_the_next_one(stage: Stage) -> None:
    def body(ctx: TaskContext) -> None:
        pausing(stage, ctx)
        raise ValueError("broken")

    assert stage.live(body).state is TaskState.RETRY_WAIT
    with pytest.raises(Parked):
        stage.live(lambda ctx: pytest.fail("user code ran"))
    assert stage.outcomes() == [("pause", "done", "paused before it started")]


def test_a_pause_that_is_given_up_for_another_end_says_so(stage: Stage) -> None:
    def body(ctx: TaskContext) -> None:
        pausing(stage, ctx)
        ctx.skip("nothing to do")

    assert stage.live(body).state is TaskState.SKIPPED
    assert stage.path()[-3:] == ["pausing", "running", "skipped"]
    assert stage.rows()[-2].reason == "it ended first"
    assert stage.outcomes() == [("pause", "refused", "it ended first")]


def test_a_pause_that_a_stop_overtakes_is_refused(stage: Stage) -> None:
    stage.watched = False

    def body(ctx: TaskContext) -> None:
        pausing(stage, ctx)
        stage.clock.sleep(SECOND)
        stage.ask(Verb.STOP)
        wait(stage, ctx)

    assert stage.live(body).state is TaskState.STOPPED
    assert stage.outcomes() == [("pause", "refused", "it is being stopped"), ("stop", "done", "stopped")]


# A park that the code of the step swallows


def test_code_that_swallows_a_pause_is_paused_all_the_same(stage: Stage) -> None:
    stage.watched = False
    met = 0

    def body(ctx: TaskContext) -> str:
        nonlocal met
        stage.ask(Verb.PAUSE)
        for number in range(3):
            try:
                wait(stage, ctx, state=number)
            except BaseException:
                met += 1
        return "done"

    with pytest.raises(Parked):
        stage.live(body)
    assert met == 3
    assert (stage.task().state, stage.task().nonce) == (TaskState.PAUSED, stage.nonce)
    assert stage.path().count("paused") == 1


def test_what_is_asked_of_a_parked_step_is_not_taken_up_by_the_process_that_ends(stage: Stage) -> None:
    """It may go on for a moment, watched: what is asked then is for the process that goes on."""

    def body(ctx: TaskContext) -> None:
        ctx.checkpoint("half")
        pausing(stage, ctx)
        try:
            ctx.checkpoint()
        finally:
            stage.clock.sleep(SECOND)
            stage.ask(Verb.RESUME)
            poll(ctx)

    with pytest.raises(Parked):
        stage.live(body)
    assert stage.commands()[-1].state is CommandState.PENDING
    assert stage.live(lambda ctx: "done").value == "done"
    assert stage.outcomes()[-1] == ("resume", "done", "resumed")


def test_nothing_of_a_step_that_merely_pauses_or_ends_was_interrupted(stage: Stage) -> None:
    """Whoever watches it ends its children only where it was ended from outside."""
    seen: list[bool] = []

    def body(ctx: TaskContext) -> str:
        pausing(stage, ctx)
        seen.append(supervision_of(ctx).interrupted)
        stage.ask(Verb.STOP)
        poll(ctx)
        seen.append(supervision_of(ctx).interrupted)
        return "done"

    assert stage.live(body).value == "done"
    assert seen == [False, True]


def test_a_last_attempt_that_is_late_fails_with_its_figures_though_a_pause_was_asked(stage: Stage) -> None:
    stage.retry = RetryPolicy()

    def body(ctx: TaskContext) -> str:
        pausing(stage, ctx)
        return returns_late(stage, ctx)

    assert stage.live(body).state is TaskState.FAILED
    assert stage.rows()[-1].trigger == "timeout:attempt"
    assert stage.task().failure_kind is FailureKind.TIMEOUT_ATTEMPT
    assert stage.ledger.get_task(KEY) == stage.task()
