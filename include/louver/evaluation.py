"""
Pure: a definition and the states of its nodes in; what is ready, what will never run, and the run's state
out.

Node states are the truth; the run's state is recomputed from them (row W9). Joins other than
``all_succeeded`` and the aggregation ``fail_fast`` (row T15) have their place here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from louver.definition import Definition
from louver.states import RunState, TaskState

__all__ = ["Evaluation", "evaluate", "final_state"]

_UNSTARTED = frozenset({TaskState.PENDING, TaskState.BLOCKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """
    What the states of the nodes mean.

    :param ready: nodes that may start now, in declared order.
    :param skipped: nodes that will never run, since an upstream did not deliver.
    :param states: all node states, with ``skipped`` worked in.
    :param forward: the run's state as far as its steps go; compensation is not looked at.
    """

    ready: tuple[str, ...]
    skipped: tuple[str, ...]
    states: Mapping[str, TaskState]
    forward: RunState


def evaluate(
    definition: Definition, states: Mapping[str, TaskState], *, paused: Collection[str] = ()
) -> Evaluation:
    """
    What follows from the states of the nodes.

    :param definition: the workflow.
    :param states: node name to state; a missing node is pending.
    :param paused: nodes that a person paused; others that are ``paused`` wait for an approval.
    """
    current = {name: states.get(name, TaskState.PENDING) for name in definition.names}
    skipped: list[str] = []
    # One pass in topological order would do; passes until nothing changes need no order at all.
    changed = True
    while changed:
        changed = False
        for node in definition.nodes:
            undelivered = any(
                current[upstream].terminal and current[upstream] is not TaskState.SUCCEEDED
                for upstream in node.upstream
            )
            if current[node.name] in _UNSTARTED and undelivered:
                current[node.name] = TaskState.SKIPPED
                skipped.append(node.name)
                changed = True
    ready = tuple(
        node.name
        for node in definition.nodes
        if current[node.name] in _UNSTARTED
        and all(current[upstream] is TaskState.SUCCEEDED for upstream in node.upstream)
    )
    return Evaluation(
        ready=ready,
        skipped=tuple(name for name in definition.names if name in skipped),
        states=current,
        forward=_forward(definition, current, waiting=not ready, paused=paused),
    )


def _forward(
    definition: Definition, states: Mapping[str, TaskState], *, waiting: bool, paused: Collection[str]
) -> RunState:
    unfinished = [state for state in states.values() if not state.terminal]
    if unfinished:
        # Only steps that no process works on are left: the run waits for people.
        parked = [name for name, state in states.items() if state is TaskState.PAUSED]
        idle = all(state in _UNSTARTED or state is TaskState.PAUSED for state in unfinished)
        if not (parked and idle and waiting):
            return RunState.RUNNING
        return RunState.PAUSED if set(parked) <= set(paused) else RunState.WAITING_APPROVAL
    failed = [node for node in definition.nodes if states[node.name] in (TaskState.FAILED, TaskState.LOST)]
    if TaskState.STOPPED in states.values():
        return RunState.STOPPED
    if any(node.on_failure == "fail" for node in failed):
        return RunState.FAILED
    if TaskState.CANCELLED in states.values():
        return RunState.CANCELLED
    return RunState.SUCCEEDED_WITH_FAILURES if failed else RunState.SUCCEEDED


def final_state(forward: RunState, *, undone: int, failed: int, outstanding: int) -> RunState:
    """
    The run's state once its steps and its compensations are looked at together (semantics section 2).

    :param forward: :attr:`Evaluation.forward`.
    :param undone: effects of the run that were undone.
    :param failed: effects whose undo failed, or that wait for a person.
    :param outstanding: effects that still have to be undone.
    """
    if forward.success or not forward.terminal:
        return forward
    if outstanding:
        return RunState.COMPENSATING
    if failed:
        return RunState.COMPENSATION_FAILED
    return RunState.FAILED_COMPENSATED if undone else forward
