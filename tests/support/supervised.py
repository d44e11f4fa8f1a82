"""One step under supervision, by a clock that is turned, and people who want something of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

from louver.binding import bind
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.control import Sent, send
from louver.definition import Definition, Step
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.records import CommandRecord, TaskRecord, TransitionRecord
from louver.ledger.requests import CommandRequest
from louver.lifecycle import Closing, Lifecycle
from louver.parked import ParkAnswer
from louver.policies import RetryPolicy
from louver.ports import Parked
from louver.sessions import Change, Claim
from louver.states import Source
from louver.steps import StepCalls, run_start
from louver.supervision import ControlSettings, Supervision
from louver.timeouts import Timeouts

__all__ = [
    "KEY",
    "NOW",
    "RUN",
    "SECOND",
    "Nobody",
    "Stage",
    "Told",
    "poll",
    "supervision_of",
    "wait",
]

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
KEY = TaskKey("work", "run-1", "one")
SECOND = timedelta(seconds=1)


class Told:
    """A log that remembers what was told."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.lines: list[str] = []

    def tell(self, action: str, message: str, *args: object) -> None:
        self.actions.append(action)
        self.lines.append(message % args)


class Nobody:
    """Proves no death."""

    def proves_dead(self, process: str) -> bool:
        return False


class Stage:
    """
    One step, and people who want something of it.

    :attr:`given` holds arguments of the step beside those it has by itself. Where it is :attr:`watched`, it
    is polled by :func:`poll` alone, which stands for the thread that watches it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.clock = FixedClock(NOW)
        self.log = Told()
        self.tries = 0
        self.nonce: str | None = None
        self.timeouts = Timeouts()
        self.retry = RetryPolicy(max_attempts=2, delay=7 * SECOND)
        self.given: dict[str, Any] = {}
        self.watched = False
        self.request_in: Callable[[Exception], Change | None] = lambda error: None

    @property
    def definition(self) -> Definition:
        step = Step(name="one", task="business:one", timeouts=self.timeouts, retry=self.retry, **self.given)
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
            request_in=self.request_in,
            control=ControlSettings(pause_window=30 * SECOND, stop_grace=10 * SECOND),
            watch=(lambda supervision: nullcontext()) if self.watched else None,
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

    def rows(self) -> list[TransitionRecord]:
        return self.ledger.list_transitions(RUN)

    def task(self) -> TaskRecord:
        found = self.ledger.get_task(KEY)
        if found is None:
            raise LookupError(f"no task {KEY}")
        return found

    def commands(self) -> list[CommandRecord]:
        return self.ledger.list_commands(RUN)

    def outcomes(self) -> list[tuple[str, str, str | None]]:
        return [(str(command.verb), str(command.state), command.outcome) for command in self.commands()]


def supervision_of(ctx: TaskContext) -> Supervision:
    found: Any = ctx._runtime.supervision
    return found


def poll(ctx: TaskContext) -> None:
    """Look, as the thread does that watches a step."""
    supervision_of(ctx).poll()


def wait(stage: Stage, ctx: TaskContext, seconds: float = 1, state: Any = ...) -> None:
    """Time passes, and the step comes to a checkpoint."""
    stage.clock.sleep(timedelta(seconds=seconds))
    ctx.checkpoint(state)
