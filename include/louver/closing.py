"""
Closing a run: compensate where it did not succeed, and say what became of it (semantics sections 2 and 4).

Both are resumable: called again they find the same truth in the ledger and go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from louver.compensation import compensate_run, tally
from louver.control import is_pause
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import CompensationFailed, LedgerError, LouverError
from louver.evaluation import Evaluation, final_state
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import TaskRecord
from louver.ledger.requests import RunStart
from louver.lifecycle import TaskCall
from louver.policies import RetryPolicy
from louver.ports import StepRuntime
from louver.results import RunResults
from louver.sessions import Claim
from louver.states import RunState, TaskState

__all__ = [
    "CLOSING_RETRY",
    "COMPENSATE",
    "OUTCOME",
    "RunOverview",
    "close_run",
    "compensate_call",
    "definition_of",
    "overview",
    "paused_nodes",
]

COMPENSATE, OUTCOME = "compensate", "outcome"
"""Task ids of the closing tasks."""

CLOSING_RETRY = RetryPolicy(max_attempts=3, delay=timedelta(seconds=5))
"""How often compensating is tried where the ledger, or a process still at work, was in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """
    A run as its nodes and effects tell it.

    :param definition: the one that the run began under.
    :param state: recomputed, not the stored one.
    :param evaluation: of the nodes.
    """

    definition: Definition
    state: RunState
    evaluation: Evaluation


def definition_of(run: RunKey, ledger: Ledger) -> Definition:
    """
    The definition that the run began under, whatever is deployed now.

    :raises LedgerError: where the ledger does not know the run.
    """
    record = ledger.get_run(run)
    if record is None:
        raise LedgerError(f"run {run.run_id} of {run.dag_id} is not in the ledger")
    return read_definition_form(ledger.load_definition(record.definition_fingerprint))


def overview(run: RunKey, ledger: Ledger) -> RunOverview:
    """The run's state, recomputed from its node states and effects (row W9)."""
    definition = definition_of(run, ledger)
    results = RunResults(definition, run, ledger, strict=False)
    paused = paused_nodes(results.tasks.values())
    evaluation = results.evaluate(paused=paused)
    count = tally(ledger.list_effects(run))
    state = final_state(
        evaluation.forward,
        undone=count.undone,
        failed=count.failed,
        outstanding=count.outstanding,
        stop=definition.compensation.stops,
    )
    return RunOverview(definition=definition, state=state, evaluation=evaluation)


def paused_nodes(tasks: Iterable[TaskRecord]) -> set[str]:
    """Nodes that people paused, and that wait for nothing else."""
    parked = [task for task in tasks if task.state is TaskState.PAUSED]
    return {task.task_id for task in parked} - {task.task_id for task in parked if not is_pause(task)}


def compensate_call(start: RunStart, claim: Claim) -> TaskCall:
    """
    The call of the closing task that undoes what a run without success has done.

    Its result names effects by reference; it fails where one of them waits for a person.
    """

    def body(runtime: StepRuntime) -> dict[str, Any]:
        seen = overview(start.key, runtime.ledger)
        forward = seen.evaluation.forward
        if not forward.terminal:
            raise LouverError(f"run {start.key.run_id} has unfinished steps; it cannot be compensated yet")
        if forward.success:
            runtime.log.tell("compensation.none", "the run succeeded: nothing to undo")
            return {"forward": str(forward), "undone": [], "standing": []}
        runtime.ledger.set_run_state(start.key, RunState.COMPENSATING, reason=str(forward), now=runtime.now())
        runtime.log.tell("compensation.started", "the run ended %s: compensating", forward)
        report = compensate_run(start.key, runtime, seen.definition.compensation)
        if report.failed:
            raise CompensationFailed(
                f"these effects could not be undone and wait for a person: {', '.join(report.failed)}"
            )
        runtime.log.tell("compensation.done", "effects undone: %s", len(report.undone))
        return {"forward": str(forward), "undone": list(report.undone), "standing": list(report.standing)}

    key = TaskKey(start.key.dag_id, start.key.run_id, COMPENSATE)
    return TaskCall(
        key=key,
        start=start,
        claim=claim,
        retry=CLOSING_RETRY,
        body=body,
        any_definition=True,
        supervised=False,
    )


def close_run(run: RunKey, ledger: Ledger, *, now: datetime) -> RunOverview:
    """Compute what became of the run and store it."""
    seen = overview(run, ledger)
    if seen.state.terminal:
        _close_commands(run, seen.definition, ledger, now=now)
    ledger.set_run_state(run, seen.state, reason=_reason(seen), now=now)
    return seen


def _close_commands(run: RunKey, definition: Definition, ledger: Ledger, *, now: datetime) -> None:
    """Of what mapped steps were asked as a whole: an index that a clear brings later is not to meet it."""
    mapped = {node.name for node in definition.nodes if node.mapped}
    for command in ledger.list_commands(run) if mapped else ():
        if command.task_id in mapped and command.map_index == -1 and command.closed_at is None:
            ledger.refuse_command(command, outcome="the run is over", now=now)


def _reason(seen: RunOverview) -> str | None:
    """Which nodes it was, for a run that did not simply succeed."""
    blamed = [
        f"{name} {state}"
        for name, state in seen.evaluation.states.items()
        if state.terminal and state not in (TaskState.SUCCEEDED, TaskState.SKIPPED)
    ]
    return ", ".join(blamed) or None
