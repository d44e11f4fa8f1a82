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
from crash.steps import BREAKING, BUYING, ORDER, PARTS, PAYING, WALKING, order_event
from louver.approvals import Answer
from louver.definition import Definition
from louver.engine.inline import RunResult, run_inline
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
from louver.ledger.requests import (
    BeginOutcome,
    CommandRequest,
    EffectRequest,
    OpenedTask,
    Progress,
    RunStart,
)
from louver.liveness import LocalProcesses
from louver.sessions import Change, Claim
from louver.signing import SigningKeys
from louver.states import RunState, Source, TaskState
from louver.steps import run_start
from shop import faults, prices, report

__all__ = ["KEYS", "STORIES", "Clock", "Scene", "Story", "Stuck"]

KEYS = SigningKeys(secrets={"k1": b"0123456789abcdef"})

_CALLS = 8


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

    def order(self, wanted: Definition) -> RunKey:
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

    def prepare(self, scene: Scene) -> None:
        """What nobody is killed in."""

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
        yield from faults_in(scene.ledger, scene.order(self.workflow), keys=KEYS, state=self.ends)
        done = {act: count for act, count in report.counts(scene.case).items() if count}
        if done != self.acts:
            yield f"done: {report.sequence(scene.case)}, not {self.acts}"
        asked = report.calls(scene.case)
        for act, count in self.asks.items():
            if asked[act] != count:
                yield f"{act} was asked for {asked[act]} times, not {count}"
        approvals = scene.ledger.list_approvals(scene.order(self.workflow))
        if [approval.consumed_by is not None for approval in approvals] != self.used:
            yield f"the approvals are {[(str(one.decision), one.consumed_by) for one in approvals]}"


class OfAnOrder(OfAWorkflow):
    """A story of the order workflow."""

    workflow = ORDER

    def params(self, scene: Scene) -> dict[str, Any]:
        return {"event": order_event(scene.case)}

    def prepare_to_the_approval(self, scene: Scene) -> RunResult:
        """Run as far as the approval."""
        result = scene.run(self.workflow, **self.params(scene))
        if result.state is not RunState.WAITING_APPROVAL:
            raise Stuck(str(result.state))
        return result


class Order(OfAnOrder):
    name = "order"
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1, "mail.send": 1}
    asks: ClassVar = {**acts, "payments.refund": 0, "stock.release": 0}
    used: ClassVar = [True]


class Undoing(OfAnOrder):
    name = "order, mail fails for good"
    killed_from = "set_run_state.before"
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1, "payments.refund": 1, "stock.release": 1}
    used: ClassVar = [True]

    def prepare(self, scene: Scene) -> None:
        faults.tell("mail.send", "fail_for_good", order_id=scene.case)
        self.answer(scene, self.prepare_to_the_approval(scene))

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        if report.sequence(scene.case)[2:] != ["payments.refund", "stock.release"]:
            yield f"undone in another order: {report.sequence(scene.case)}"


class Rejected(OfAnOrder):
    name = "order, charge rejected"
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "stock.release": 1}
    used: ClassVar = [False]

    def prepare(self, scene: Scene) -> None:
        self.prepare_to_the_approval(scene)

    def answer(self, scene: Scene, result: RunResult) -> None:
        for request in result.waiting:
            scene.ledger.decide_approval(
                request.request_id, Answer(decision=Decision.REJECTED, by="bob"), now=scene.clock.now()
            )


class Expired(OfAnOrder):
    name = "order, nobody answers"
    LATER = timedelta(days=2)
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "stock.release": 1}
    used: ClassVar = [False]

    def prepare(self, scene: Scene) -> None:
        self.prepare_to_the_approval(scene)

    def answer(self, scene: Scene, result: RunResult) -> None:
        scene.clock.sleep(timedelta(days=1, hours=1))


class Dearer(OfAnOrder):
    name = "order, price changes after the approval"
    killed_from = "park.before"
    killed_until = "perform.before"
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1, "mail.send": 1}
    asks: ClassVar = acts

    used: ClassVar = [False, True]

    def prepare(self, scene: Scene) -> None:
        prices.set_price("teapot", "100.00")
        self.answer(scene, self.prepare_to_the_approval(scene))
        prices.set_price("teapot", "101.00")


class Retrying(OfAWorkflow):
    name = "retries"
    workflow = BUYING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1}
    asks: ClassVar = {"payments.charge": 1}

    def prepare(self, scene: Scene) -> None:
        faults.tell("stock.reserve", "fail", order_id=scene.case)
        faults.tell("payments.charge", "lose_answer", order_id=scene.case)


class PerformingAgain(OfAWorkflow):
    name = "answer lost, performed again"
    workflow = PAYING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"payments.charge": 1}

    def params(self, scene: Scene) -> dict[str, Any]:
        return {"order": scene.case, "way": "retry"}

    def prepare(self, scene: Scene) -> None:
        faults.tell("payments.charge", "lose_answer", order_id=scene.case)


class NotUndone(OfAWorkflow):
    name = "undo fails for good"
    killed_from = "set_run_state.before"
    workflow = BREAKING
    ends = RunState.COMPENSATION_FAILED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1, "stock.release": 1}
    asks: ClassVar = {"payments.charge": 1, "stock.reserve": 1}

    def prepare(self, scene: Scene) -> None:
        faults.tell("payments.refund", "fail_for_good", order_id=scene.case)

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        effects = scene.ledger.list_effects(scene.order(self.workflow))
        states = {effect.name: effect.state for effect in effects if effect.kind is EffectKind.FORWARD}
        if states != {"reserve": EffectState.UNDONE, "pay": EffectState.UNDO_FAILED}:
            yield f"the effects are {states}"


class Stopped(OfAWorkflow):
    name = "paused, then stopped"
    workflow = BUYING
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "stock.release": 1}

    def prepare(self, scene: Scene) -> None:
        key = scene.order(self.workflow)
        scene.ledger.open_run(run_start(self.workflow, key, requester="ann"), now=scene.clock.now())
        for task_id, verb in (("reserve", Verb.PAUSE), ("pay", Verb.STOP)):
            request = CommandRequest(
                command_id=f"{scene.case}-{verb}",
                task=TaskKey(key.dag_id, key.run_id, task_id),
                verb=verb,
                actor="bob",
                reason=None,
                source=Source.CLI,
            )
            scene.ledger.send_command(request, now=scene.clock.now())

    def answer(self, scene: Scene, result: RunResult) -> None:
        key = scene.order(self.workflow)
        request = CommandRequest(
            command_id=f"{scene.case}-{Verb.RESUME}",
            task=TaskKey(key.dag_id, key.run_id, "reserve"),
            verb=Verb.RESUME,
            actor="bob",
            reason=None,
            source=Source.CLI,
        )
        scene.ledger.send_command(request, now=scene.clock.now())

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        states = {task.task_id: task.state for task in scene.ledger.list_tasks(scene.order(self.workflow))}
        if states.get("pay") is not TaskState.STOPPED:
            yield f"the tasks are {states}"
        ends = {
            command.verb: command.state for command in scene.ledger.list_commands(scene.order(self.workflow))
        }
        # A process that was killed on its way out of the pause leaves nothing to be resumed: it goes on.
        resumed = ends.pop(Verb.RESUME, None) in (CommandState.DONE, CommandState.REFUSED)
        if not resumed or ends != {Verb.PAUSE: CommandState.DONE, Verb.STOP: CommandState.DONE}:
            yield f"the commands are {ends}"


class Walking(OfAWorkflow):
    name = "checkpoints"
    workflow = WALKING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"stock.reserve": PARTS}
    asks: ClassVar = acts

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        key = scene.order(self.workflow)
        walked = scene.ledger.load_result(TaskKey(key.dag_id, key.run_id, "walk"))
        if walked != list(range(PARTS)):
            yield f"it went through {walked}"


class ByHand(Story):
    """A story of operations that no workflow reaches by itself."""

    def key(self, scene: Scene) -> RunKey:
        """The run."""
        return RunKey("by-hand", scene.case)

    def open(self, scene: Scene, task_id: str) -> OpenedTask:
        """Take hold of a task, as the next try of it."""
        key = TaskKey(self.key(scene).dag_id, self.key(scene).run_id, task_id)
        known = scene.ledger.get_task(key)
        claim = Claim(
            try_number=known.try_number + 1 if known is not None else 1,
            max_tries=0,
            process=LocalProcesses().name(),
            source=Source.ENGINE,
        )
        return scene.ledger.open_task(key, claim, now=scene.clock.now())

    def begin(self, scene: Scene) -> None:
        """Open the run."""
        start = RunStart(
            key=self.key(scene),
            definition_name="by-hand",
            definition_version="1",
            definition_fingerprint="f" * 64,
            definition={"name": "by-hand"},
        )
        scene.ledger.open_run(start, now=scene.clock.now())

    def launch(self, scene: Scene, task_id: str) -> Token | None:
        """Have a task running; None where it is over."""
        opened = self.open(scene, task_id)
        if opened.record.state.terminal:
            return None
        launched = Change(to=TaskState.RUNNING, trigger="executor:launched")
        scene.ledger.advance(opened.token, launched, now=scene.clock.now())
        return opened.token

    def end(self, scene: Scene) -> None:
        """Close the run."""
        scene.ledger.set_run_state(self.key(scene), RunState.SUCCEEDED, reason=None, now=scene.clock.now())

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from faults_in(scene.ledger, self.key(scene), keys=KEYS, state=RunState.SUCCEEDED)


_COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")


class Commands(ByHand):
    name = "commands"

    VERBS: ClassVar = {"a": Verb.PAUSE, "b": Verb.RESUME, "c": Verb.STOP}

    def play(self, scene: Scene) -> None:
        self.begin(scene)
        token = self.launch(scene, "work")
        if token is None:
            return self.end(scene)
        for name, verb in self.VERBS.items():
            request = CommandRequest(
                command_id=f"{scene.case}-{name}",
                task=token.key,
                verb=verb,
                actor="ann",
                reason=None,
                source=Source.CLI,
            )
            # Whoever does not know whether it was sent sends it again, under the same id.
            scene.ledger.send_command(request, now=scene.clock.now())
        # Whoever claims is not always able to act: then it is another one's turn.
        for command in self.claimed(scene, token, limit=1):
            scene.ledger.release_command(command, now=scene.clock.now())
        for command in self.claimed(scene, token):
            if command.verb is Verb.RESUME:
                scene.ledger.refuse_command(command, outcome="it is not paused", now=scene.clock.now())
            else:
                scene.ledger.complete_command(command, outcome="seen", now=scene.clock.now())
        scene.ledger.complete(token, _COMPLETED, None, now=scene.clock.now())
        self.end(scene)
        return None

    def claimed(self, scene: Scene, token: Token, *, limit: int = 100) -> Any:
        now = scene.clock.now()
        return scene.ledger.claim_commands(
            token, limit=limit, lease_until=now + timedelta(minutes=1), now=now
        )

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        ends = {
            command.command_id.rpartition("-")[2]: command.state
            for command in scene.ledger.list_commands(self.key(scene))
        }
        if ends != {"a": CommandState.DONE, "b": CommandState.REFUSED, "c": CommandState.DONE}:
            yield f"the commands are {ends}"


class Event(OfAWorkflow):
    name = "an event comes in"
    workflow = PAYING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"payments.charge": 1}

    def params(self, scene: Scene) -> dict[str, Any]:
        return {"order": scene.case, "way": "verify"}

    def play(self, scene: Scene) -> None:
        _, record = scene.ledger.accept_event(
            dag_id=self.workflow.name,
            identity=scene.case,
            payload_fingerprint="f" * 64,
            run_id=scene.case,
            event={"order": scene.case},
            now=scene.clock.now(),
        )
        super().play(scene)
        scene.ledger.confirm_event(record, now=scene.clock.now())

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        found = scene.ledger.load_event(self.workflow.name, scene.case)
        if found is None or found[0].triggered_at is None or found[1] != {"order": scene.case}:
            yield f"the event is {found}"


class Reconciling(ByHand):
    name = "one that watches others"

    def play(self, scene: Scene) -> None:
        ledger, now = scene.ledger, scene.clock.now
        me = LocalProcesses().name()
        # The lease of one that died runs out; it is tried until then.
        while ledger.take_lease(scene.case, me, lease_until=now() + timedelta(seconds=30), now=now()) is None:
            scene.clock.sleep(timedelta(seconds=1))
        self.begin(scene)
        gone = ledger.get_task(TaskKey(self.key(scene).dag_id, scene.case, "gone"))
        if gone is None or gone.state is TaskState.PENDING:
            gone = self.open(scene, "gone").record
        if not gone.state.terminal:
            ledger.mark(
                gone.key,
                Change(to=TaskState.LOST, trigger="runtime:attempt_lost"),
                session=gone.session,
                source=Source.RECONCILER,
                now=now(),
            )
        self.keep(scene)
        ledger.seal_run(self.key(scene), now=now())
        self.end(scene)
        ledger.give_lease(scene.case, me, now=now())

    def keep(self, scene: Scene) -> None:
        """A task that says that it lives, while its effect takes long."""
        token = self.launch(scene, "work")
        if token is None:
            return
        now = scene.clock.now
        scene.ledger.touch(token, progress=Progress(done=1, total=2), now=now())
        begun = scene.ledger.begin_effect(token, _slow(scene), now=now())
        record = begun.record
        if begun.outcome is BeginOutcome.IN_PROGRESS:
            scene.ledger.lose_effect(record, reason="its process is dead", now=now())
            begun = scene.ledger.begin_effect(token, _slow(scene), now=now())
        if begun.outcome is BeginOutcome.UNKNOWN:
            until = now() + timedelta(seconds=60)
            record = scene.ledger.retry_effect(token, begun.record, lease_until=until, now=now()) or record
        if begun.outcome is not BeginOutcome.RECORDED:
            scene.ledger.keep_effect(token, record, lease_until=now() + timedelta(seconds=90))
            scene.ledger.commit_effect(token, record, "kept", now=now())
        scene.ledger.complete(token, _COMPLETED, None, now=now())

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        (effect,) = scene.ledger.list_effects(self.key(scene))
        if (effect.state, scene.ledger.load_effect(effect)[1]) != (EffectState.COMMITTED, "kept"):
            yield f"the effect is {effect}"
        lease = scene.ledger.get_lease(scene.case)
        if lease is None or lease.lease_until > scene.clock.now():
            yield f"the lease is {lease}"
        states = {task.task_id: task.state for task in scene.ledger.list_tasks(self.key(scene))}
        if states != {"gone": TaskState.LOST, "work": TaskState.SUCCEEDED}:
            yield f"the tasks are {states}"
        touches = scene.ledger.list_touches(self.key(scene))
        if [touch.done for touch in touches] != [1.0]:
            yield f"the signs of life are {touches}"


def _slow(scene: Scene) -> EffectRequest:
    return EffectRequest(
        scope="global",
        key=scene.case,
        name="slow",
        intent=1,
        intent_hash="1" * 64,
        undo=None,
        on_unknown=OnUnknown.RETRY,
        provider_idempotent=True,
        lease_until=scene.clock.now() + timedelta(seconds=60),
        quiesce_seconds=30.0,
    )


STORIES: dict[str, Story] = {
    story.name: story
    for story in (
        Order(),
        Undoing(),
        Rejected(),
        Expired(),
        Dearer(),
        Retrying(),
        PerformingAgain(),
        NotUndone(),
        Walking(),
        Stopped(),
        Commands(),
        Event(),
        Reconciling(),
    )
}
