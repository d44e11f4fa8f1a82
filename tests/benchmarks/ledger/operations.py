"""The ledger's operations, one by one, as a worker calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import uuid4

from benchmarks.ledger.stage import INTENT, RESULT, Stage, effect_key
from louver.clock import SystemClock
from louver.context import TaskContext
from louver.effects import EffectCall, run_effect
from louver.ledger.names import RunKey, Token, Verb
from louver.ledger.requests import CommandRequest
from louver.ports import StepRuntime
from louver.sessions import Change
from louver.states import Source, TaskState
from louver.testing.scene import COMPLETED

__all__ = ["BEGIN_AND_COMMIT", "KEPT_STEP", "WHOLE_STEP", "Operations"]

BEGIN_AND_COMMIT = "effect: begin + commit"
"""A whole effect, as issue 3 counts it."""

WHOLE_STEP = "effect: run_effect, whole"
"""The same through the function that ``ctx.effect`` calls."""

KEPT_STEP = "step: ctx.checkpoint, whole"
"""
Work whose outcome is kept before the next goes on.

That is what a step of dbos promises: one that was under way in a process that died is done again. An effect
promises more, and writes twice for it.
"""

Call = Callable[[int], object]
Prepare = Callable[[int], Call]

_PAUSING = Change(to=TaskState.PAUSING, trigger="user:pause")
_ROLLED_BACK = Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back")
_STATE = {"page": 17, "seen": ["o-4709", "o-4710", "o-4711"], "total": 3750}


class Operations:
    """
    Each method sets up what so many calls need, and returns the call.

    :param stage: of the ledger that is measured.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ledger = stage.ledger

    def by_name(self) -> dict[str, Prepare]:
        """All that is measured of a single worker."""
        return {
            "effect: begin": self.begin,
            "effect: commit": self.commit,
            BEGIN_AND_COMMIT: self.begin_and_commit,
            WHOLE_STEP: self.whole_step,
            KEPT_STEP: self.kept_step,
            "transition: append": self.advance,
            "checkpoint: save": self.save_checkpoint,
            "result: complete the task": self.complete,
            "command: claim": self.claim_commands,
        }

    def begin(self, count: int) -> Call:
        """Effects of one task begin, each under a key of its own."""
        ledger, now, token = self._ledger, self._stage.now(), self._stage.task()
        requests = [self._stage.request(token, number) for number in range(count)]
        return lambda number: ledger.begin_effect(token, requests[number], now=now)

    def commit(self, count: int) -> Call:
        """Effects that have begun commit."""
        ledger, now, token = self._ledger, self._stage.now(), self._stage.task()
        requests = [self._stage.request(token, number) for number in range(count)]
        begun = [ledger.begin_effect(token, request, now=now).record for request in requests]
        return lambda number: ledger.commit_effect(token, begun[number], RESULT, now=now)

    def begin_and_commit(self, count: int, run: RunKey | None = None) -> Call:
        """Effects of one task begin and commit, one after the other."""
        ledger, now, token = self._ledger, self._stage.now(), self._stage.task(run)
        requests = [self._stage.request(token, number) for number in range(count)]

        def both(number: int) -> object:
            record = ledger.begin_effect(token, requests[number], now=now).record
            return ledger.commit_effect(token, record, RESULT, now=now)

        return both

    def whole_step(self, count: int) -> Call:
        """The same as a step does it: intent hashed, lease kept alive, the clock read, the log told."""
        token = self._stage.task()
        runtime = self._runtime(token)
        calls = [
            EffectCall(
                scope=f"dag:{token.key.dag_id}",
                key=effect_key(token, number),
                name="charge",
                intent=INTENT,
                perform=_no_operation,
                undo="shop.payments.refund",
            )
            for number in range(count)
        ]
        return lambda number: run_effect(calls[number], runtime)

    def kept_step(self, count: int) -> Call:
        """One task keeps how far it has come after each piece of its work, as its function does it."""
        context = TaskContext(runtime=self._runtime(self._stage.task()), upstream={})
        return lambda number: context.checkpoint(_STATE)

    def _runtime(self, token: Token) -> StepRuntime:
        return StepRuntime(
            ledger=self._ledger,
            token=token,
            clock=SystemClock(),
            liveness=self._stage.processes,
            log=_Silence(),
        )

    def advance(self, count: int) -> Call:
        """One task goes to and fro between two states."""
        ledger, now, token = self._ledger, self._stage.now(), self._stage.task()
        changes = (_PAUSING, _ROLLED_BACK)
        return lambda number: ledger.advance(token, changes[number % 2], now=now)

    def save_checkpoint(self, count: int) -> Call:
        """One task saves its state again and again."""
        ledger, now, token = self._ledger, self._stage.now(), self._stage.task()
        return lambda number: ledger.save_checkpoint(token, "state", _STATE, now=now)

    def complete(self, count: int) -> Call:
        """Tasks of one run complete, each with its result."""
        ledger, now, run = self._ledger, self._stage.now(), self._stage.run()
        tokens = [self._stage.task(run) for _ in range(count)]
        return lambda number: ledger.complete(tokens[number], COMPLETED, RESULT, now=now)

    def claim_commands(self, count: int) -> Call:
        """Tasks of one run take up the one command that each of them was sent."""
        ledger, now, run = self._ledger, self._stage.now(), self._stage.run()
        tokens = [self._stage.task(run) for _ in range(count)]
        for token in tokens:
            command = CommandRequest(
                command_id=uuid4().hex,
                task=token.key,
                verb=Verb.PAUSE,
                actor="ann",
                reason="a look at the figures",
                source=Source.CLI,
            )
            ledger.send_command(command, now=now)
        until = now + timedelta(seconds=60)
        return lambda number: _one(ledger.claim_commands(tokens[number], lease_until=until, now=now))


class _Silence:
    """A step's log that nobody reads: what a log costs is not the ledger's."""

    def tell(self, action: str, message: str, *args: object) -> None:
        """Nothing."""


def _no_operation(key: str) -> object:
    return RESULT


def _one(found: Sequence[object]) -> object:
    if len(found) != 1:
        # A claim that finds nothing would be measured as a quick one.
        raise RuntimeError(f"the claim found {len(found)} commands; there is one")
    return found[0]
