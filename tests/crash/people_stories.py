"""Stories of people who settle what was left to them, and of cleaning up behind what is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from crash.proofs import faults_in
from crash.steps import BREAKING, PAYING
from crash.story import KEYS, OfAWorkflow, Scene, Story, Stuck
from louver.closing import close_run
from louver.definition import Definition
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectState
from louver.ledger.records import EffectRecord, PayloadRecord
from louver.ledger.task_operations import definition_payload
from louver.states import RunState, Source
from shop import faults, report

__all__ = ["Cleaning", "Renewed", "Settled", "UndoneAfterAll"]

_WORD = Word(actor="bob", reason="he looked", source=Source.CLI)


def _effect(scene: Scene, workflow: Definition, key: str) -> EffectRecord:
    found = scene.ledger.get_effect(f"dag:{workflow.name}", key)
    if found is None:
        raise Stuck(f"there is no effect {key}")
    return found


class Settled(OfAWorkflow):
    name = "a person says what became of it"
    workflow = PAYING
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"payments.charge": 1}
    asks: ClassVar = acts

    def params(self, scene: Scene) -> dict[str, Any]:
        return {"order": scene.case, "way": "manual"}

    def prepare(self, scene: Scene) -> None:
        faults.tell("payments.charge", "lose_answer", order_id=scene.case)
        super().play(scene)

    def play(self, scene: Scene) -> None:
        effect = _effect(scene, self.workflow, f"pay:{scene.case}")
        if effect.state is EffectState.UNDO_FAILED:
            scene.ledger.settle_effect(effect, undone=True, word=_WORD, now=scene.clock.now())
        close_run(scene.key(self.workflow), scene.ledger, now=scene.clock.now())


class UndoneAfterAll(OfAWorkflow):
    name = "a person has it undone again"
    workflow = BREAKING
    ends = RunState.FAILED_COMPENSATED
    acts: ClassVar = {"stock.reserve": 1, "payments.charge": 1, "payments.refund": 1, "stock.release": 1}

    def prepare(self, scene: Scene) -> None:
        # Tried three times each time it is undone.
        faults.tell("payments.refund", "fail", times=3, order_id=scene.case)
        super().play(scene)

    def play(self, scene: Scene) -> None:
        effect = _effect(scene, self.workflow, f"pay:{scene.case}")
        if effect.state is EffectState.UNDO_FAILED:
            scene.ledger.reopen_undo(effect, word=_WORD, now=scene.clock.now())
        super().play(scene)


class Renewed(OfAWorkflow):
    name = "a person allows it once more"
    workflow = PAYING
    ends = RunState.SUCCEEDED
    acts: ClassVar = {"payments.charge": 2}
    asks: ClassVar = acts

    def params(self, scene: Scene) -> dict[str, Any]:
        return {"order": scene.case, "way": "verify"}

    def prepare(self, scene: Scene) -> None:
        super().play(scene)

    def play(self, scene: Scene) -> None:
        effect = _effect(scene, self.workflow, f"pay:{scene.case}")
        if effect.epoch == 1:
            scene.ledger.renew_effect(effect, word=_WORD, now=scene.clock.now())
        again = replace(scene, case=f"{scene.case}-again").run(self.workflow, **self.params(scene))
        if again.state is not RunState.SUCCEEDED:
            raise Stuck(str(again.errors))

    def faults(self, scene: Scene) -> Iterator[str]:
        yield from super().faults(scene)
        again = replace(scene, case=f"{scene.case}-again").key(self.workflow)
        yield from faults_in(scene.ledger, again, keys=KEYS, state=RunState.SUCCEEDED)


class Cleaning(Story):
    name = "one that cleans up"

    def workflow(self, scene: Scene) -> Definition:
        """Of this case alone, so that its definition is left over too."""
        return replace(PAYING, name="cleaned", version=scene.case)

    def prepare(self, scene: Scene) -> None:
        scene.run(self.workflow(scene), order=scene.case, way="verify")

    def play(self, scene: Scene) -> None:
        ledger, workflow = scene.ledger, self.workflow(scene)
        before = scene.clock.now() + timedelta(days=1)
        ledger.clean_run(scene.key(workflow), before=before)
        page = ledger.list_standing_effects(before=before, dag_id=workflow.name)
        ledger.clean_effects(page.effects, before=before)
        ledger.remove_orphans([definition_payload(workflow.fingerprint)], saved_before=before)

    def faults(self, scene: Scene) -> Iterator[str]:
        workflow = self.workflow(scene)
        key = scene.key(workflow)
        with scene.ledger._transaction(write=False) as rows:  # type: ignore[attr-defined]
            left = [payload.payload_id for payload in rows.find(PayloadRecord)]
        if scene.ledger.get_run(key) is not None or scene.ledger.list_transitions(key):
            yield "the run is there still"
        if scene.ledger.get_effect(f"dag:{workflow.name}", f"pay:{scene.case}") is not None:
            yield "the effect is there still"
        wanted = (scene.case, definition_payload(workflow.fingerprint))
        if kept := [name for name in left if any(part in name for part in wanted)]:
            yield f"these payloads are there still: {kept}"
        if report.counts(scene.case)["payments.charge"] != 1:
            yield f"done: {report.sequence(scene.case)}"
