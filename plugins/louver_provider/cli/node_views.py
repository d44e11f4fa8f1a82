"""The nodes of a run, each with the tasks that it has, as the commands show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from louver.closing import RunOverview
from louver.definition import Node
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.ledger.records import RunRecord, TaskRecord, TouchRecord
from louver.results import RunResults
from louver.states import TaskState

__all__ = ["NodeView", "node_views"]

_EXPLAINED = (TaskState.BLOCKED, TaskState.RETRY_WAIT, TaskState.FAILED, TaskState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """
    One node.

    :param node: None for a closing task, and for one that the definition does not have.
    :param records: of its tasks, by map index.
    :param expected: of a mapped node, how many indexes it has, where that is known.
    :param touch: the newest sign of life of the task that is shown.
    :param reason: why it is in its state, where that is no matter of course.
    """

    name: str
    node: Node | None
    state: TaskState
    records: Mapping[int, TaskRecord] = field(default_factory=dict)
    expected: int | None = None
    touch: TouchRecord | None = None
    reason: str | None = None

    @property
    def record(self) -> TaskRecord | None:
        """The record that tells most: of several in the node's state the one that changed last."""
        return _telling(self.records, self.state)

    @property
    def mapped(self) -> str | None:
        """How many indexes have succeeded, and how many others are in which state: ``3/10, 1 failed``."""
        if self.node is None or not self.node.mapped:
            return None
        indexes = [record for index, record in self.records.items() if index >= 0]
        states = Counter(record.state for record in indexes)
        total = (len(indexes) or "?") if self.expected is None else self.expected
        others = [f"{states[state]} {state}" for state in _EXPLAINED if states[state]]
        return ", ".join([f"{states[TaskState.SUCCEEDED]}/{total}", *others])

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The nodes that it comes after."""
        return tuple(self.node.upstream) if self.node is not None else ()


def node_views(ledger: Ledger, run: RunRecord, seen: RunOverview) -> list[NodeView]:
    """The nodes of the definition in its order, then what else has a record."""
    definition = seen.definition
    records: dict[str, dict[int, TaskRecord]] = defaultdict(dict)
    for record in ledger.list_tasks(run.key):
        records[record.task_id][record.map_index] = record
    touches = {
        TaskKey(touch.dag_id, touch.run_id, touch.task_id, touch.map_index): touch
        for touch in ledger.list_touches(run.key)
    }
    # By time, so that the newest of each task and state stays.
    reasons = {(row.task, row.to_state): row.reason for row in ledger.list_transitions(run.key)}
    expected = _expected(ledger, run, seen)
    views = []
    for name in [*definition.names, *(name for name in records if name not in definition.names)]:
        node = definition.node(name) if name in definition.names else None
        mine = records.get(name, {})
        if (last := expected.get(name)) is not None:
            # One beyond the list is left over from a longer one, before a clear.
            mine = {index: record for index, record in mine.items() if index < last}
        newest = max(mine.values(), key=lambda record: record.updated_at, default=None)
        state = seen.evaluation.states.get(name) or (newest.state if newest else TaskState.PENDING)
        telling = _telling(mine, state)
        views.append(
            NodeView(
                name=name,
                node=node,
                state=state,
                records=mine,
                expected=expected.get(name),
                touch=touches.get(telling.key) if telling else None,
                reason=reasons.get((telling.key, state)) if telling and state in _EXPLAINED else None,
            )
        )
    return views


def _telling(records: Mapping[int, TaskRecord], state: TaskState) -> TaskRecord | None:
    same = [record for record in records.values() if record.state is state]
    found = same or list(records.values())
    return max(found, key=lambda record: (record.updated_at, record.map_index), default=None)


def _expected(ledger: Ledger, run: RunRecord, seen: RunOverview) -> Mapping[str, int]:
    """How many indexes mapped nodes have; their lists are read only where there are such nodes."""
    if not any(node.mapped for node in seen.definition.nodes):
        return {}
    return RunResults(seen.definition, run.key, ledger, strict=False).counts
