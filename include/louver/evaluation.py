"""
Pure: a definition and the states of its nodes in; what is ready, what will never run, and the run's state
out (semantics section 1, Evaluation of a graph).

Node states are the truth; the run's state is recomputed from them (row W9). How the states of a mapped node's
indexes become one is told by :mod:`louver.node_states`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from louver.definition import Definition
from louver.nodes import Node
from louver.states import RunState, TaskState

__all__ = ["FAILING", "Evaluation", "evaluate", "final_state", "has_own_rules", "may_run"]

_UNSTARTED = frozenset({TaskState.PENDING, TaskState.BLOCKED})
_BLAMED = frozenset({TaskState.FAILED, TaskState.LOST})

FAILING = _BLAMED | {TaskState.STOPPED}
"""A task that ended in one of these keeps its run from succeeding, unless its node says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """
    What the states of the nodes mean.

    :param ready: nodes that may start now, in declared order.
    :param skipped: nodes that will never run, since an upstream did not deliver or a branch did not choose
        them.
    :param cancelled: nodes that will never run, since the workflow fails fast and something failed.
    :param cancelling: nodes at work, or parked, that are to be cancelled for the same reason.
    :param states: all node states, with ``skipped`` and ``cancelled`` worked in.
    :param forward: the run's state as far as its steps go; compensation is not looked at.
    """

    ready: tuple[str, ...]
    skipped: tuple[str, ...]
    cancelled: tuple[str, ...] = ()
    cancelling: tuple[str, ...] = ()
    states: Mapping[str, TaskState]
    forward: RunState


def may_run(node: Node, upstream: Sequence[TaskState]) -> bool | None:
    """
    Whether the node's join lets it run.

    ``any_succeeded`` waits until all upstreams are settled: the same outcomes give the same run, whoever
    finishes first.

    :param upstream: the states of what it waits for.
    :returns: None where that is still open.
    """
    settled = all(state.terminal for state in upstream)
    if node.join == "all_succeeded":
        if any(state.terminal and state is not TaskState.SUCCEEDED for state in upstream):
            return False
        return True if settled else None
    if not settled:
        return None
    return node.join == "all_settled" or not upstream or TaskState.SUCCEEDED in upstream


def has_own_rules(definition: Definition, node: Node) -> bool:
    """Whether its join, or a branch before it, may keep it from running though the platform starts it."""
    return node.join != "all_succeeded" or any(definition.node(name).branch for name in node.upstream)


def evaluate(
    definition: Definition,
    states: Mapping[str, TaskState],
    *,
    paused: Collection[str] = (),
    chosen: Mapping[str, Collection[str]] | None = None,
    failing: Collection[str] = (),
) -> Evaluation:
    """
    What follows from the states of the nodes.

    :param definition: the workflow.
    :param states: node name to state; a missing node is pending.
    :param paused: nodes that a person paused; others that are ``paused`` wait for an approval.
    :param chosen: branch node to the nodes that it chose; of one that is missing nothing is known yet.
    :param failing: mapped nodes that go on, though one of their indexes has failed or was stopped.
    """
    current = {name: states.get(name, TaskState.PENDING) for name in definition.names}
    barred = _not_chosen(definition, current, chosen or {})
    fast = definition.aggregation == "fail_fast" and _fails(definition, current, failing)
    # What was skipped before anything failed stays so; then a failure cancels all that has not begun.
    skipped = _skip(definition, current, barred, causes={TaskState.SKIPPED} if fast else None)
    cancelled = [name for name in definition.names if fast and current[name] in _UNSTARTED]
    current.update(dict.fromkeys(cancelled, TaskState.CANCELLED))
    ready = tuple(
        node.name
        for node in definition.nodes
        if current[node.name] in _UNSTARTED and may_run(node, [current[name] for name in node.upstream])
    )
    return Evaluation(
        ready=ready,
        skipped=tuple(name for name in definition.names if name in skipped),
        cancelled=tuple(cancelled),
        cancelling=tuple(name for name in definition.names if fast and not current[name].terminal),
        states=current,
        forward=_forward(definition, current, waiting=not ready, paused=paused),
    )


def _fails(definition: Definition, states: Mapping[str, TaskState], failing: Collection[str]) -> bool:
    """Whether the run cannot succeed any more. What is cancelled is a consequence, and never the cause."""
    return any(
        states[node.name] is TaskState.STOPPED
        or (node.on_failure == "fail" and (states[node.name] in _BLAMED or node.name in failing))
        for node in definition.nodes
    )


def _not_chosen(
    definition: Definition, states: Mapping[str, TaskState], chosen: Mapping[str, Collection[str]]
) -> set[str]:
    """Nodes right behind a branch that went another way."""
    decided = {name for name, names in chosen.items() if states.get(name) is TaskState.SUCCEEDED}
    return {
        node.name
        for node in definition.nodes
        if any(branch in decided and node.name not in chosen[branch] for branch in node.upstream)
    }


def _skip(
    definition: Definition,
    current: dict[str, TaskState],
    barred: Collection[str],
    *,
    causes: Collection[TaskState] | None,
) -> set[str]:
    """
    Work into the states what will never run.

    :param causes: only for upstreams in these states; None for all.
    """
    skipped: set[str] = set()
    # One pass in topological order would do; passes until nothing changes need no order at all.
    changed = True
    while changed:
        changed = False
        for node in definition.nodes:
            if current[node.name] not in _UNSTARTED:
                continue
            upstream = [current[name] for name in node.upstream]
            never = may_run(node, upstream) is False
            if never and causes is not None:
                never = any(state in causes for state in upstream)
            if never or node.name in barred:
                current[node.name] = TaskState.SKIPPED
                skipped.add(node.name)
                changed = True
    return skipped


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
    failed = [node for node in definition.nodes if states[node.name] in _BLAMED]
    if TaskState.STOPPED in states.values():
        return RunState.STOPPED
    if any(node.on_failure == "fail" for node in failed):
        return RunState.FAILED
    if TaskState.CANCELLED in states.values():
        return RunState.CANCELLED
    return RunState.SUCCEEDED_WITH_FAILURES if failed else RunState.SUCCEEDED


def final_state(
    forward: RunState, *, undone: int, failed: int, outstanding: int, stop: bool = False
) -> RunState:
    """
    The run's state once its steps and its compensations are looked at together (semantics section 2).

    :param forward: :attr:`Evaluation.forward`.
    :param undone: effects of the run that were undone.
    :param failed: effects whose undo failed, or that wait for a person.
    :param outstanding: effects that still have to be undone.
    :param stop: nothing more is undone where one has failed, until a person has seen to it (case E06).
    """
    if forward.success or not forward.terminal:
        return forward
    if outstanding and not (failed and stop):
        return RunState.COMPENSATING
    if failed:
        return RunState.COMPENSATION_FAILED
    return RunState.FAILED_COMPENSATED if undone else forward
