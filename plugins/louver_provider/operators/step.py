"""A step, and an approval: the nodes of a workflow as Airflow tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from louver.binding import Workflow
from louver.definition import ApprovalNode, Node, Step
from louver.errors import DefinitionError
from louver.intake import EVENT, Intake
from louver.ports import StepRuntime
from louver.steps import ParkAnswer, StepCalls
from louver_provider.operators.base import LouverOperator
from louver_provider.runtime import StepProcess, answer_from_event

__all__ = ["ApprovalOperator", "StepOperator"]


class StepOperator(LouverOperator):
    """
    Runs one step of a workflow through its life.

    :param workflow: the definition and its functions.
    :param node: the step's name; also the task id.
    :param intake: takes the run's event in, where the workflow is started by events.
    """

    ui_color = "#cde4f0"

    def __init__(self, *, workflow: Workflow, node: str, intake: Intake | None = None, **kwargs: Any) -> None:
        found = workflow.definition.node(node)
        self._validate_kind(found)
        super().__init__(
            task_id=node,
            workflow=workflow,
            retry=found.retry,
            **({"queue": found.queue} if isinstance(found, Step) and found.queue else {}),
            priority_weight=found.priority if isinstance(found, Step) else 1,
            **kwargs,
        )
        self.node_name = node
        self.intake = intake

    def _validate_kind(self, node: Node) -> None:
        if not isinstance(node, Step):
            raise DefinitionError("is no step", node=node.name)

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Live the step from its start."""
        return self._live(context, nonce=None, answer=None)

    def louver_resume(
        self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None, nonce: str | None = None
    ) -> Any:
        """Come back from a park; Airflow calls it with the answer as ``event``."""
        return self._live(context, nonce=nonce, answer=answer_from_event(event))

    def louver_enter(self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> Any:
        """Come back from waiting for a resource; what was meant by it, the ledger knows."""
        return self._live(context, nonce=None, answer=None)

    def _live(self, context: Mapping[str, Any], *, nonce: str | None, answer: ParkAnswer | None) -> Any:
        process = StepProcess.from_context(context, self.workflow.definition, self.log, nonce=nonce)

        def params(runtime: StepRuntime) -> Mapping[str, Any]:
            if self.intake is not None:
                return {EVENT: self.intake.take_in(process.conf, runtime)}
            return dict(context["params"])

        calls = StepCalls(workflow=self.workflow, start=process.start, params=params)
        return process.live(calls.node(self.node_name, key=process.key, claim=process.claim, answer=answer))


class ApprovalOperator(StepOperator):
    """
    Asks a person, and waits without a slot and without a triggerer.

    The request stands under Required Actions with the fixed options Approve, Reject and Stop.
    """

    ui_color = "#f5e6c4"

    def _validate_kind(self, node: Node) -> None:
        if not isinstance(node, ApprovalNode):
            raise DefinitionError("is no approval", node=node.name)
