"""
The two tasks that close every Louver run.

They are teardowns that can fail the Dag run: plain ``all_done`` tasks are skipped by a ShortCircuit, or when
a run is marked failed, and the run then turns green (semantics section 2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from louver.binding import Workflow
from louver.clock import SystemClock
from louver.closing import CLOSING_RETRY, COMPENSATE, OUTCOME, close_run, compensate_call
from louver.policies import RetryPolicy
from louver_provider.airflow_states import cancel_others, settle_from_airflow
from louver_provider.operators.base import LouverOperator
from louver_provider.runtime import StepProcess

__all__ = ["CompensateOperator", "OutcomeOperator"]


class CompensateOperator(LouverOperator):
    """
    Undoes what the run has done, where it did not succeed; has nothing to do where it did.

    :param workflow: the definition and its functions.
    """

    ui_color = "#f3d3cf"

    def __init__(self, *, workflow: Workflow, **kwargs: Any) -> None:
        super().__init__(task_id=COMPENSATE, workflow=workflow, retry=CLOSING_RETRY, **kwargs)

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Bring the ledger up to what Airflow alone knows, then compensate."""
        process = StepProcess.from_context(context, self.workflow.definition, self.log)
        process.ledger.open_run(process.start, now=SystemClock().now())
        seen = settle_from_airflow(context["ti"], process)
        cancel_others(context["ti"], process, seen=seen)
        return process.live(compensate_call(process.start, process.claim))


class OutcomeOperator(LouverOperator):
    """
    Says what became of the run, and fails where it did not succeed, so that the Dag run's colour is true.

    It is no step: it has no states of its own, and may run as often as Airflow likes.

    :param workflow: the definition and its functions.
    """

    ui_color = "#dcdcdc"

    def __init__(self, *, workflow: Workflow, **kwargs: Any) -> None:
        # Shown as the task's docs, and kept with the Dag's version: who looks at a run whose first step has
        # not started yet finds its definition here, and need not import the Dag's file.
        form = json.dumps(workflow.definition.to_json(), sort_keys=True)
        super().__init__(task_id=OUTCOME, workflow=workflow, retry=RetryPolicy(), doc_json=form, **kwargs)

    def execute(self, context: Mapping[str, Any]) -> dict[str, str]:
        """Compute and store the run's state."""
        process = StepProcess.from_context(context, self.workflow.definition, self.log)
        process.ledger.open_run(process.start, now=SystemClock().now())
        seen = settle_from_airflow(context["ti"], process)
        cancel_others(context["ti"], process, seen=seen)
        closed = close_run(process.start.key, process.ledger, now=SystemClock().now())
        process.log.tell("run.closed", "run %s is %s", process.key.run_id, closed.state)
        if not closed.state.success:
            raise AirflowFailException(f"run {process.key.run_id} is {closed.state}")
        return {"state": str(closed.state)}
