"""
One state for each node of a run, from the states of its tasks.

A step that is not mapped has one task, and the node's state is that task's. A mapped one has a task for each
index: the node is over when all of them are, and then tells of the gravest (row W13).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from louver.definition import Definition
from louver.ledger.names import TaskKey
from louver.ledger.records import TaskRecord
from louver.states import TaskState

__all__ = ["folded", "node_states", "states_by_node"]

_S = TaskState

# Of unfinished indexes the one closest to user code tells most about the node.
_TELLING = (
    _S.RUNNING,
    _S.PAUSING,
    _S.STOPPING,
    _S.STARTING,
    _S.QUEUED,
    _S.RETRY_WAIT,
    _S.PAUSED,
    _S.BLOCKED,
    _S.PENDING,
)
_GRAVE = (_S.FAILED, _S.LOST, _S.STOPPED, _S.CANCELLED, _S.SKIPPED, _S.SUCCEEDED)
_UNSTARTED = frozenset({_S.PENDING, _S.BLOCKED})


def folded(states: Iterable[TaskState], *, expected: int | None = None) -> TaskState:
    """
    The state of a mapped node.

    :param states: of its indexes, as far as they are known.
    :param expected: how many there will be; None where nobody knows yet, or knows better.
    """
    found = list(states)
    if expected == 0:
        return _S.SKIPPED
    missing = 0 if expected is None else expected - len(found)
    if not found:
        return _S.PENDING
    unfinished = {state for state in found if not state.terminal}
    if missing > 0:
        unfinished.add(_S.PENDING)
    if not unfinished:
        return next(state for state in _GRAVE if state in found)
    first = next(state for state in _TELLING if state in unfinished)
    # It has begun as soon as one index has, though the others are still to come.
    if first in _UNSTARTED and any(state not in _UNSTARTED for state in found):
        return _S.RUNNING
    return first


def states_by_node(
    definition: Definition, states: Mapping[TaskKey, TaskState], *, expected: Mapping[str, int] | None = None
) -> dict[str, TaskState]:
    """
    Node name to its state; a node that no task is known of is left out, and so pending.

    :param states: of the tasks of one run.
    :param expected: mapped node to how many indexes it has, where that is known.
    """
    by_node: dict[str, dict[int, TaskState]] = defaultdict(dict)
    for key, state in states.items():
        by_node[key.task_id][key.map_index] = state
    counts = expected or {}
    nodes: dict[str, TaskState] = {}
    for node in definition.nodes:
        found = by_node.get(node.name, {})
        if not node.mapped:
            if -1 in found:
                nodes[node.name] = found[-1]
            continue
        # One beyond the list is left over from a longer one, before a clear.
        last = counts.get(node.name)
        indexes = {i: state for i, state in found.items() if i >= 0 and (last is None or i < last)}
        if indexes or counts.get(node.name) == 0:
            nodes[node.name] = folded(indexes.values(), expected=counts.get(node.name))
        elif -1 in found:
            # Never expanded: the platform has settled it as a whole.
            nodes[node.name] = found[-1]
    return nodes


def node_states(
    definition: Definition, tasks: Iterable[TaskRecord], *, expected: Mapping[str, int] | None = None
) -> dict[str, TaskState]:
    """As :func:`states_by_node`, from the records of the run's tasks."""
    return states_by_node(definition, {task.key: task.state for task in tasks}, expected=expected)
