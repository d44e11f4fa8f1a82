"""A step, and an approval: the nodes of a workflow as Airflow tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.configuration import conf
from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from louver.binding import Workflow
from louver.definition import ApprovalNode, Node, Step
from louver.errors import DefinitionError
from louver.intake import EVENT, Intake
from louver.marks import mark_of
from louver.parked import ParkAnswer
from louver.ports import StepRuntime
from louver.steps import StepCalls
from louver_provider.airflow_states import cancel_others, settle_for_rules
from louver_provider.operators.base import LouverOperator, decided_arguments
from louver_provider.operators.pushed import call_that_fits
from louver_provider.run_times import run_times
from louver_provider.runtime import StepProcess, answer_from_event

__all__ = ["ApprovalStepOperator", "StepOperator", "node_arguments"]


# A join waits until everything upstream is settled; whether it then runs, the step's process decides by the
# ledger: Airflow's own rule for "at least one success" skips it as soon as anything was skipped.
_TRIGGER_RULES = {
    "all_succeeded": TriggerRule.ALL_SUCCESS,
    "all_settled": TriggerRule.ALL_DONE,
    "any_succeeded": TriggerRule.ALL_DONE,
}


def node_arguments(node: Node) -> dict[str, Any]:
    """What Airflow is told of a node: its scheduler needs it before any process of the step begins."""
    arguments = {**decided_arguments(node.retry), "trigger_rule": _TRIGGER_RULES[node.join]}
    if isinstance(node, Step):
        arguments["priority_weight"] = node.priority
        if node.queue:
            arguments["queue"] = node.queue
    return arguments


class StepOperator(LouverOperator):
    """
    Runs one step of a workflow through its life.

    :param workflow: the definition and its functions.
    :param node: the step's name; also the task id.
    :param intake: takes the run's event in, where the workflow is started by events.
    :param item: of a mapped step, what Airflow expands it by; the step reads its item from the ledger.
    """

    ui_color = "#cde4f0"

    def __init__(
        self, *, workflow: Workflow, node: str, intake: Intake | None = None, item: Any = None, **kwargs: Any
    ) -> None:
        found = workflow.definition.node(node)
        self._validate_kind(found)
        arguments = {"task_id": node, **node_arguments(found), **kwargs}
        super().__init__(workflow=workflow, retry=found.retry, **arguments)
        self.node_name = node
        self.intake = intake
        self.item = item

    def _validate_kind(self, node: Node) -> None:
        if not isinstance(node, Step):
            raise DefinitionError("is no step", node=node.name)

    def _tags(self) -> set[str]:
        """The tags of its Dag, and of its function's mark."""
        return {*self.dag.tags, *mark_of(self.workflow.functions[self.node_name]).tags}

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
        process = StepProcess.from_context(
            context,
            self.workflow.definition,
            self.log,
            nonce=nonce,
            tags=self._tags(),
        )

        def params(runtime: StepRuntime) -> Mapping[str, Any]:
            if self.intake is not None:
                return {EVENT: self.intake.take_in(process.conf, runtime)}
            return {**run_times(context), **context["params"]}

        ti = context["ti"]
        calls = StepCalls(
            workflow=self.workflow,
            start=process.start,
            params=params,
            unsettled=lambda: settle_for_rules(ti, process),
            max_items=conf.getint("core", "max_map_length"),
        )
        call = calls.node(self.node_name, key=process.key, claim=process.claim, answer=answer)
        try:
            return process.live(call_that_fits(call, ti))
        except AirflowFailException:
            cancel_others(ti, process)
            raise


class ApprovalStepOperator(StepOperator):
    """
    Asks a person, and waits without a slot and without a triggerer.

    The request stands under Required Actions with the fixed options Approve, Reject and Stop.
    """

    ui_color = "#f5e6c4"

    def _validate_kind(self, node: Node) -> None:
        if not isinstance(node, ApprovalNode):
            raise DefinitionError("is no approval", node=node.name)

    def _tags(self) -> set[str]:
        """Who decides uses nothing of it, whatever the Dag is about."""
        return set()
