"""Stories of operations that no workflow reaches by itself: of those who watch, and of commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

from crash.proofs import faults_in
from crash.steps import BY_HAND, LONGER
from crash.story import KEYS, Scene, Story
from louver.canonical import fingerprint
from louver.ledger.names import CommandState, EffectState, OnUnknown, RunKey, TaskKey, Token, Verb
from louver.ledger.requests import BeginOutcome, CommandRequest, EffectRequest, OpenedTask, Progress
from louver.liveness import LocalProcesses
from louver.semaphores import PermitTerms, ResourceLimit, Stage
from louver.sessions import Change, Claim
from louver.states import RunState, Source, TaskState
from louver.steps import run_start

__all__ = ["Accepting", "Commands", "Emptying", "Reconciling", "Sharing"]

_COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")


class ByHand(Story):
    """A story of operations that no workflow reaches by itself."""

    def key(self, scene: Scene) -> RunKey:
        """The run."""
        return scene.key(BY_HAND)

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
        scene.ledger.open_run(run_start(BY_HAND, self.key(scene)), now=scene.clock.now())

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


class Emptying(ByHand):
    name = "a person empties what a step has saved"

    def play(self, scene: Scene) -> None:
        self.begin(scene)
        token = self.launch(scene, "work")
        if token is not None:
            scene.ledger.save_checkpoint(token, "state", {"page": 7}, now=scene.clock.now())
            scene.ledger.reset_states(token.key)
            scene.ledger.complete(token, _COMPLETED, None, now=scene.clock.now())
        self.end(scene)

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        run = self.key(scene)
        left = scene.ledger.list_states(TaskKey(run.dag_id, run.run_id, "work"))
        if left:
            yield f"it has still saved {left}"


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


class Accepting(ByHand):
    name = "a definition that is accepted"

    def play(self, scene: Scene) -> None:
        self.begin(scene)
        token = self.launch(scene, "work")
        if token is not None:
            scene.ledger.save_checkpoint(token, "state", "before", now=scene.clock.now())
            # Whoever does not know whether it was accepted asks again, and is told what is recorded.
            scene.ledger.accept_definition(
                token,
                run_start(LONGER, self.key(scene)),
                instead_of=BY_HAND.fingerprint,
                reason="only additions",
                now=scene.clock.now(),
            )
            scene.ledger.complete(token, _COMPLETED, None, now=scene.clock.now())
        self.end(scene)

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        accepted = [
            (one.number, one.from_fingerprint, one.to_fingerprint)
            for one in scene.ledger.list_acceptances(self.key(scene))
        ]
        if accepted != [(1, BY_HAND.fingerprint, LONGER.fingerprint)]:
            yield f"accepted is {accepted}"


class Sharing(ByHand):
    name = "a resource of which there is one"

    TERMS: ClassVar = PermitTerms(lease=timedelta(seconds=30), grant_ttl=timedelta(seconds=30))

    def play(self, scene: Scene) -> None:
        ledger, now = scene.ledger, scene.clock.now
        self.begin(scene)
        if all(self.over(scene, task_id) for task_id in ("one", "two")):
            return self.leave(scene)
        ledger.set_resource(
            ResourceLimit(resource=scene.case, limit=1), by="ann", terms=self.TERMS, now=now()
        )
        one = self.launch(scene, "one")
        if one is not None:
            self.hold(scene, one)
            ledger.renew_permit(one, terms=self.TERMS, now=now())
        two = self.launch(scene, "two")
        if two is not None:
            self.take(scene, two)
            ledger.settle_permits(limits={}, terms=self.TERMS, now=now())
        for token in filter(None, (one, two)):
            self.hold(scene, token)
            ledger.complete(token, _COMPLETED, None, now=now())
            ledger.release_permit(token.key, session=token.session, terms=self.TERMS, now=now())
        return self.leave(scene)

    def leave(self, scene: Scene) -> None:
        """Whoever was killed before it gave back is waited for, then the limit goes."""
        ledger = scene.ledger
        while any(permit.run_id == scene.case for permit in ledger.list_permits()):
            scene.clock.sleep(timedelta(seconds=5))
            ledger.settle_permits(limits={}, terms=self.TERMS, now=scene.clock.now())
        ledger.unset_resource(scene.case, limits={}, terms=self.TERMS, now=scene.clock.now())
        self.end(scene)

    def over(self, scene: Scene, task_id: str) -> bool:
        key = self.key(scene)
        record = scene.ledger.get_task(TaskKey(key.dag_id, key.run_id, task_id))
        return record is not None and record.state.terminal

    def take(self, scene: Scene, token: Token) -> bool:
        permit = scene.ledger.take_permit(
            token, {scene.case: 1}, limits={}, priority=1, terms=self.TERMS, now=scene.clock.now()
        )
        return permit is not None and permit.stage is Stage.HELD

    def hold(self, scene: Scene, token: Token) -> None:
        """Wait until it is held, for the lease of one that died if need be."""
        while not self.take(scene, token):
            scene.clock.sleep(timedelta(seconds=5))
            scene.ledger.settle_permits(limits={}, terms=self.TERMS, now=scene.clock.now())

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        left = [permit.task_id for permit in scene.ledger.list_permits() if permit.run_id == scene.case]
        if left:
            yield f"permits are left of {left}"
        if scene.case in [row.resource for row in scene.ledger.list_resources()]:
            yield "its limit is left"


def _slow(scene: Scene) -> EffectRequest:
    return EffectRequest(
        scope="global",
        key=scene.case,
        name="slow",
        intent=1,
        intent_hash=fingerprint(1),
        undo=None,
        on_unknown=OnUnknown.RETRY,
        provider_idempotent=True,
        lease_until=scene.clock.now() + timedelta(seconds=60),
        quiesce_seconds=30.0,
    )
