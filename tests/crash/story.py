"""
What is going on when a process dies: stories that another process can go on with from anywhere.

A story is played by one process after the other, each beginning where the last one was killed. Its setting is
made beforehand, unharmed. At the end it must have come out as if nothing had happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

from crash.proofs import faults_in
from louver.approvals import Answer
from louver.definition import Definition
from louver.engine.inline import RunResult, run_inline
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey
from louver.permits import PermitSettings
from louver.retry_budgets import parse_retry_budgets
from louver.semaphores import parse_resources
from louver.signing import SigningKeys
from louver.states import RunState
from shop import report

__all__ = ["KEYS", "Clock", "OfAWorkflow", "Scene", "Story", "Stuck"]

KEYS = SigningKeys(secrets={"k1": b"0123456789abcdef"})

_CALLS = 8
_BUDGETS = parse_retry_budgets('{"shop": "1000/s"}')
# Many: what a killed process had is no other case's trouble.
_PERMITS = PermitSettings(limits=parse_resources('{"shop": 1000}'))


class Stuck(Exception):
    """The run neither ends nor waits for anybody."""


class Clock:
    """
    The machine's time, with what was slept skipped.

    :param ahead: how far it is ahead of the machine's at the beginning.
    """

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        """The current time, aware UTC."""
        return datetime.now(timezone.utc) + self._ahead

    def sleep(self, duration: timedelta) -> None:
        """Skip so much time."""
        self._ahead += max(duration, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """
    One process at its part of a story.

    :param case: names the run, and the order that it is about.
    """

    ledger: Ledger
    clock: Clock
    case: str

    def key(self, wanted: Definition) -> RunKey:
        """The run's key."""
        return RunKey(wanted.name, self.case)

    def run(self, workflow: Definition, **params: Any) -> RunResult:
        """Go on with the run, as far as it goes."""
        return run_inline(
            workflow,
            params=params,
            ledger=self.ledger,
            clock=self.clock,
            run_id=self.case,
            requester="ann",
            retry_budgets=_BUDGETS,
            resources=_PERMITS,
        )


class Story(ABC):
    """One story; see the module."""

    LATER: ClassVar[timedelta] = timedelta(seconds=10)
    """How much later the next process comes than the one that was killed."""

    name: ClassVar[str]

    killed_from: ClassVar[str | None] = None
    """The point from whose first hit on processes are killed: before it, another story is the same."""

    killed_until: ClassVar[str | None] = None
    """The point from whose last hit on they are killed no more, for the same reason."""

    def prepare(self, scene: Scene) -> None:  # noqa: B027 - most stories need no setting
        """Make the setting; nobody is killed meanwhile."""

    @abstractmethod
    def play(self, scene: Scene) -> None:
        """Go on to the end, from wherever it is."""

    @abstractmethod
    def faults(self, scene: Scene) -> Iterator[str]:
        """What is wrong at the end, in words."""


class OfAWorkflow(Story):
    """A story of a run."""

    workflow: ClassVar[Definition]
    ends: ClassVar[RunState]
    acts: ClassVar[dict[str, int]]
    """What was really done in the world."""

    asks: ClassVar[dict[str, int]] = {}
    """How often a provider was asked, where that is certain."""

    used: ClassVar[list[bool]] = []
    """Of each approval that was asked for, whether an effect has used it."""

    def params(self, scene: Scene) -> dict[str, Any]:
        """Of the run."""
        return {"order": scene.case}

    def answer(self, scene: Scene, result: RunResult) -> None:
        """Answer what the run waits for."""
        for request in result.waiting:
            scene.ledger.decide_approval(
                request.request_id, Answer(decision=Decision.APPROVED, by="bob"), now=scene.clock.now()
            )

    def play(self, scene: Scene) -> None:
        for _ in range(_CALLS):
            result = scene.run(self.workflow, **self.params(scene))
            if result.state.terminal:
                return
            if result.state not in (RunState.WAITING_APPROVAL, RunState.PAUSED):
                raise Stuck(f"{result.state}: {dict(result.states)}")
            self.answer(scene, result)
        raise Stuck(f"it goes round: {dict(result.states)}")

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from faults_in(scene.ledger, scene.key(self.workflow), keys=KEYS, state=self.ends)
        done = {act: count for act, count in report.counts(scene.case).items() if count}
        if done != self.acts:
            yield f"done: {report.sequence(scene.case)}, not {self.acts}"
        asked = report.calls(scene.case)
        for act, count in self.asks.items():
            if asked[act] != count:
                yield f"{act} was asked for {asked[act]} times, not {count}"
        approvals = scene.ledger.list_approvals(scene.key(self.workflow))
        if [approval.consumed_by is not None for approval in approvals] != self.used:
            yield f"the approvals are {[(str(one.decision), one.consumed_by) for one in approvals]}"
