"""Steps whose resources have limits, in the embedded engine: who waits, how long, and what is given back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock, SystemClock
from louver.control import send
from louver.definition import Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import ConfigurationError, LedgerUnavailable, TaskCancelled
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey, TaskKey, Token, Verb
from louver.ledger.requests import CommandRequest, RunStart
from louver.permits import PermitSettings
from louver.policies import RetryPolicy
from louver.semaphores import PermitTerms, Stage, parse_resources
from louver.sessions import Claim
from louver.signing import SigningKeys
from louver.states import RunState, Source, TaskState
from louver.timeouts import Timeouts

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
TERMS = PermitTerms(lease=60 * SECOND, grant_ttl=30 * SECOND)


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as opened:
        yield opened


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def settings(limits: str = '{"api": 1}') -> PermitSettings:
    return PermitSettings(limits=parse_resources(limits), terms=TERMS, look_every=SECOND)


def run(
    ledger: Ledger,
    clock: Any,
    body: Any,
    *,
    name: str = "work",
    run_id: str = "run-1",
    limits: str = '{"api": 1}',
    needs: Mapping[str, int] | None = None,
    **step: Any,
) -> RunResult:
    node = Step(name="call", task="tests:call", resources=needs or {"api": 1}, **step)
    return run_inline(
        Definition(name=name, version="1", nodes=[node]),
        {"tests:call": body},
        ledger=ledger,
        clock=clock,
        run_id=run_id,
        resources=settings(limits),
    )


def other(ledger: Ledger, now: datetime, run_id: str = "other") -> Token:
    """Somebody else at work, who has all of the resource."""
    start = RunStart(
        key=RunKey("others", run_id),
        definition_name="others",
        definition_version="1",
        definition_fingerprint="f" * 64,
        definition={},
        marker=None,
    )
    ledger.open_run(start, now=now)
    claim = Claim(try_number=1, max_tries=1, process="host:1:1", source=Source.WORKER)
    token = ledger.open_task(TaskKey("others", run_id, "call"), claim, now=now).token
    ledger.take_permit(token, {"api": 1}, limits=settings().limits, priority=1, terms=TERMS, now=now)
    return token


def ask(ledger: Ledger, verb: Verb, now: datetime) -> None:
    """Somebody wants something of the step."""
    request = CommandRequest(
        command_id=f"{verb}-{now.isoformat()}",
        task=TaskKey("work", "run-1", "call"),
        verb=verb,
        actor="ann",
        reason=None,
        source=Source.CLI,
    )
    send(ledger, request, now=now)


def states(ledger: Ledger, run_id: str = "run-1") -> list[str]:
    rows = ledger.list_transitions(RunKey("work", run_id), task_id="call")
    return [str(row.to_state) for row in rows]


class Passing(FixedClock):
    """Time in which something happens."""

    def __init__(self, start: datetime, events: dict[float, Any]) -> None:
        super().__init__(start)
        self.events = events

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        for second in [second for second in self.events if (self.now() - NOW).total_seconds() >= second]:
            self.events.pop(second)()


def test_a_step_holds_its_permit_while_its_code_runs_and_not_longer(
    ledger: Ledger, clock: FixedClock
) -> None:
    seen = []

    done = run(ledger, clock, lambda: seen.extend(ledger.list_permits()))

    assert done.state is RunState.SUCCEEDED
    assert [(permit.stage, permit.units) for permit in seen] == [(Stage.HELD, {"api": 1})]
    assert ledger.list_permits() == []
    assert states(ledger) == ["queued", "starting", "running", "succeeded"]


@pytest.mark.parametrize("raised", [OSError, TaskCancelled])
def test_it_is_given_back_where_the_code_fails(
    ledger: Ledger, clock: FixedClock, raised: type[Exception]
) -> None:
    def fail() -> None:
        raise raised

    assert run(ledger, clock, fail).state is RunState.FAILED
    assert ledger.list_permits() == []


def test_each_attempt_takes_one_of_its_own(ledger: Ledger, clock: FixedClock) -> None:
    held: list[int] = []

    def flaky() -> str:
        held.extend(permit.sequence for permit in ledger.list_permits())
        if len(held) < 3:
            raise OSError
        return "up"

    retry = RetryPolicy(max_attempts=3, delay=SECOND)
    assert run(ledger, clock, flaky, retry=retry).value == "up"
    assert held == [1, 2, 3]


def test_a_step_that_finds_nothing_free_waits_until_it_is_given_back(ledger: Ledger) -> None:
    holder = other(ledger, NOW)

    def give_back() -> None:
        ledger.release_permit(holder.key, session=holder.session, terms=TERMS, now=clock.now())

    clock = Passing(NOW, {20: give_back})
    begun: list[datetime] = []

    done = run(ledger, clock, lambda: begun.append(clock.now()), timeouts=Timeouts(attempt=5 * SECOND))

    assert done.state is RunState.SUCCEEDED
    assert begun == [NOW + 20 * SECOND]
    rows = ledger.list_transitions(RunKey("work", "run-1"))
    assert [str(row.to_state) for row in rows] == [
        *("queued", "starting", "blocked"),
        *("queued", "starting", "running", "succeeded"),
    ]
    blocked = rows[2]
    assert (blocked.trigger, blocked.reason) == ("resource:waiting", "waits for 1 of api")
    # It never ran in between: this is its first attempt still.
    assert {row.attempt for row in rows[1:]} == {1}


def test_what_a_dead_process_holds_is_free_when_its_lease_is_over(ledger: Ledger, clock: FixedClock) -> None:
    other(ledger, NOW)
    begun: list[datetime] = []

    assert run(ledger, clock, lambda: begun.append(clock.now())).state is RunState.SUCCEEDED

    assert begun == [NOW + TERMS.lease]


def test_a_process_that_dies_leaves_its_permit_to_its_successor(ledger: Ledger, clock: FixedClock) -> None:
    def die() -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        # Killed, it gives nothing back.
        patched.setattr(type(ledger), "release_permit", lambda *given, **more: None)
        with pytest.raises(Killed):
            run(ledger, clock, die)
    assert [permit.stage for permit in ledger.list_permits()] == [Stage.HELD]

    assert run(ledger, clock, lambda: None).state is RunState.SUCCEEDED

    assert clock.now() == NOW
    assert ledger.list_permits() == []


def test_a_rate_counts_what_begins(ledger: Ledger, clock: FixedClock) -> None:
    begun: list[float] = []
    for number in range(5):
        run(
            ledger,
            clock,
            lambda: begun.append((clock.now() - NOW).total_seconds()),
            run_id=f"run-{number}",
            limits='{"api": "2/min"}',
        )
    assert begun == [0, 0, 30, 60, 90]


def test_a_need_larger_than_the_limit_fails_the_step_at_once(ledger: Ledger, clock: FixedClock) -> None:
    retry = RetryPolicy(max_attempts=3, delay=SECOND)

    done = run(ledger, clock, lambda: "never", needs={"api": 2}, retry=retry)

    assert done.state is RunState.FAILED
    error = done.errors["call"]
    assert isinstance(error, ConfigurationError)
    assert str(error) == "it needs 2 of api, which has 1; raise the limit or need less"
    assert states(ledger).count("starting") == 1
    assert ledger.list_permits() == []


def test_a_stop_ends_the_waiting_and_the_place_in_the_line(ledger: Ledger) -> None:
    other(ledger, NOW)

    def stop() -> None:
        ask(ledger, Verb.STOP, clock.now())

    clock = Passing(NOW, {5: stop})

    done = run(ledger, clock, lambda: "never")

    assert done.states == {"call": TaskState.STOPPED}
    assert [permit.task.dag_id for permit in ledger.list_permits()] == ["others"]
    assert clock.now() == NOW + 5 * SECOND


def test_a_pause_takes_it_out_of_the_line_and_a_resume_puts_it_back(ledger: Ledger) -> None:
    holder = other(ledger, NOW)
    clock = Passing(NOW, {5: lambda: ask(ledger, Verb.PAUSE, clock.now())})
    assert run(ledger, clock, lambda: "done").paused == ("call",)
    assert [permit.task for permit in ledger.list_permits()] == [holder.key]

    ask(ledger, Verb.RESUME, clock.now())
    clock.events[10] = lambda: ledger.release_permit(
        holder.key, session=holder.session, terms=TERMS, now=clock.now()
    )
    assert run(ledger, clock, lambda: "done").value == "done"


def test_a_pause_while_it_runs_gives_the_permit_to_the_next(ledger: Ledger, clock: FixedClock) -> None:
    holders: list[str] = []

    def pausing(ctx: Any) -> str:
        holders.extend(permit.run_id for permit in ledger.list_permits())
        if ctx.restore(None) is None:
            ask(ledger, Verb.PAUSE, clock.now())
            clock.advance(2 * SECOND)
            ctx.checkpoint({"row": 1})
        return str(ctx.restore(None))

    assert run(ledger, clock, pausing).paused == ("call",)
    assert ledger.list_permits() == []

    ask(ledger, Verb.RESUME, clock.now())
    assert run(ledger, clock, pausing).value == "{'row': 1}"
    assert holders == ["run-1", "run-1"]


def test_running_time_before_a_pause_counts_though_it_waited_for_a_resource_since(ledger: Ledger) -> None:
    def slow(ctx: Any) -> str:
        if ctx.restore(None) is None:
            clock.advance(4 * SECOND)
            ask(ledger, Verb.PAUSE, clock.now())
            clock.advance(SECOND)
            ctx.checkpoint({"row": 1})
        clock.advance(3 * SECOND)
        ctx.checkpoint()
        return "done"

    clock = Passing(NOW, {})
    limit = Timeouts(attempt=7 * SECOND)
    assert run(ledger, clock, slow, timeouts=limit).paused == ("call",)
    other(ledger, clock.now())
    ask(ledger, Verb.RESUME, clock.now())

    done = run(ledger, clock, slow, timeouts=limit)

    assert "blocked" in states(ledger)
    assert done.states == {"call": TaskState.FAILED}
    last = ledger.list_transitions(RunKey("work", "run-1"), task_id="call")[-1]
    assert str(last.reason).startswith("timeout_attempt")


def test_without_the_ledger_nobody_gets_in(clock: FixedClock) -> None:
    class Away(MemoryLedger):
        def take_permit(self, *given: Any, **more: Any) -> Any:
            raise LedgerUnavailable

    called = []
    with Away(keys=SigningKeys.unsigned()) as ledger, pytest.raises(LedgerUnavailable):
        run(ledger, clock, lambda: called.append(1))
    assert called == []


def test_a_permit_that_cannot_be_given_back_does_not_fail_the_step(clock: FixedClock) -> None:
    class Away(MemoryLedger):
        def release_permit(self, *given: Any, **more: Any) -> Any:
            raise LedgerUnavailable

    with Away(keys=SigningKeys.unsigned()) as ledger:
        assert run(ledger, clock, lambda: "done").value == "done"


def test_a_resource_without_a_limit_costs_no_place(ledger: Ledger, clock: FixedClock) -> None:
    assert run(ledger, clock, lambda: len(ledger.list_permits()), limits="").value == 0


def test_threads_with_one_permit_are_inside_one_at_a_time(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    inside: list[int] = []
    most: list[int] = []
    done: list[RunState] = []

    def body() -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    def work(number: int) -> None:
        with open_ledger(url) as mine:
            node = Step(name="call", task="tests:call", resources={"api": 1})
            result = run_inline(
                Definition(name=f"work-{number % 2}", version="1", nodes=[node]),
                {"tests:call": body},
                ledger=mine,
                clock=SystemClock(),
                run_id=f"run-{number}",
                resources=PermitSettings(
                    limits=parse_resources('{"api": 1}'), look_every=timedelta(milliseconds=5)
                ),
            )
            done.append(result.state)

    open_ledger(url).close()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert done == [RunState.SUCCEEDED] * 6
    assert most == [1] * 6
