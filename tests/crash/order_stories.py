"""Stories of the order workflow: approved, rejected, answered by nobody, at another price, undone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

from crash.steps import ORDER, order_event
from crash.story import OfAWorkflow, Scene, Stuck
from louver.approvals import Answer
from louver.engine.inline import RunResult
from louver.ledger.names import Decision
from louver.states import RunState
from shop import faults, prices, report

__all__ = ["Dearer", "Expired", "Order", "Rejected", "Undoing"]


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
