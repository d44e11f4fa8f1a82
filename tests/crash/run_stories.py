"""Stories of small runs: retries, lost answers, checkpoints, commands, an event, an undo that fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from crash.steps import BREAKING, BUYING, PARTS, PAYING, WALKING
from crash.story import OfAWorkflow, Scene
from louver.engine.inline import RunResult
from louver.ledger.names import CommandState, EffectKind, EffectState, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import RunState, Source, TaskState
from louver.steps import run_start
from shop import faults

__all__ = ["Event", "NotUndone", "PerformingAgain", "Retrying", "Stopped", "Walking"]


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
        effects = scene.ledger.list_effects(scene.key(self.workflow))
        states = {effect.name: effect.state for effect in effects if effect.kind is EffectKind.FORWARD}
        if states != {"reserve": EffectState.UNDONE, "pay": EffectState.UNDO_FAILED}:
            yield f"the effects are {states}"


class Walking(OfAWorkflow):
    name = "checkpoints"
    workflow = WALKING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"stock.reserve": PARTS}
    asks: ClassVar = acts

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        key = scene.key(self.workflow)
        walked = scene.ledger.load_result(TaskKey(key.dag_id, key.run_id, "walk"))
        if walked != list(range(PARTS)):
            yield f"it went through {walked}"


class Stopped(OfAWorkflow):
    name = "paused, then stopped"
    workflow = BUYING
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "stock.release": 1}

    def prepare(self, scene: Scene) -> None:
        key = scene.key(self.workflow)
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
        key = scene.key(self.workflow)
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
        states = {task.task_id: task.state for task in scene.ledger.list_tasks(scene.key(self.workflow))}
        if states.get("pay") is not TaskState.STOPPED:
            yield f"the tasks are {states}"
        ends = {
            command.verb: command.state for command in scene.ledger.list_commands(scene.key(self.workflow))
        }
        # A process that was killed on its way out of the pause leaves nothing to be resumed: it goes on.
        resumed = ends.pop(Verb.RESUME, None) in (CommandState.DONE, CommandState.REFUSED)
        if not resumed or ends != {Verb.PAUSE: CommandState.DONE, Verb.STOP: CommandState.DONE}:
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
