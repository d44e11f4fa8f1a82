"""The task that compensates a run which its own closing tasks could not compensate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from louver.clock import SystemClock
from louver.closing import CLOSING_RETRY, COMPENSATE, close_run, compensate_call, definition_of
from louver.errors import LedgerError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import RunStart
from louver.ports import Interrupted
from louver_provider.current import remember_step
from louver_provider.hooks.ledger import get_ledger
from louver_provider.operators.base import decided_arguments
from louver_provider.reconciler.rescue import rescue_target
from louver_provider.runtime import StepProcess

__all__ = ["RescueOperator"]


class RescueOperator(BaseOperator):
    """
    Undoes what a run of another Dag has done: the same call that the run's own closing task would make.

    In the ledger it is the task ``compensate`` of that run, with the number of the rescue as its map index.
    Which run it is stands in the conf; all else is read from the ledger, whatever is deployed now.

    What it does not do: run any step of that run, or need its Dag to be there.
    """

    ui_color = "#f3d3cf"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(task_id=COMPENSATE, **{**decided_arguments(CLOSING_RETRY), **kwargs})

    def on_kill(self) -> None:
        """Airflow's hook on SIGTERM; see :class:`~louver_provider.operators.base.LouverOperator`."""
        raise Interrupted

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Compensate the run, then store what became of it, and seal it."""
        run, number = rescue_target(context["dag_run"].conf or {})
        key = TaskKey(run.dag_id, run.run_id, COMPENSATE, number)
        process = StepProcess.from_context(context, definition_of(run, get_ledger()), self.log)
        process = replace(process, key=key, start=_start_of(run, process.ledger))
        # The ledger knows it by that name, so its result is none that XCom would have to look up there.
        remember_step(key)
        call = replace(compensate_call(process.start, process.claim), key=key)
        try:
            done = process.live(call)
        except AirflowFailException:
            _close(run, process)
            raise
        _close(run, process)
        return done


def _start_of(run: RunKey, ledger: Ledger) -> RunStart:
    """The run as it began, which a run of the same definition today might not do."""
    record = ledger.get_run(run)
    if record is None:
        raise LedgerError(
            f"run {run.run_id} of {run.dag_id} is not in the ledger; nothing can be compensated"
        )
    return RunStart(
        key=run,
        definition_name=record.definition_name,
        definition_version=record.definition_version,
        definition_fingerprint=record.definition_fingerprint,
        definition=ledger.load_definition(record.definition_fingerprint),
        marker=record.marker,
        requester=record.requester,
    )


def _close(run: RunKey, process: StepProcess) -> None:
    seen = close_run(run, process.ledger, now=SystemClock().now())
    process.log.tell("run.closed", "run %s is %s", run.run_id, seen.state)
