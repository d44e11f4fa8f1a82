"""
What the nodes of a run came to: values by node and index, told apart from failures and skips (row W13).

A value is looked up by its task and index, never by its place in a list of what there is, so a gap shifts
nothing (case J01), and a legal ``None`` is a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import maxsize
from typing import Any

from louver.definition import Definition
from louver.errors import IntegrityError, LouverError, NoResult, ValueRefused
from louver.evaluation import FAILING, Evaluation, evaluate
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, place_of
from louver.ledger.records import TaskRecord
from louver.node_states import node_states
from louver.sightings import in_order
from louver.states import TaskState

__all__ = [
    "NodeError",
    "NodeResult",
    "RunResults",
    "UpstreamFailed",
    "choice_of",
    "items_of",
    "run_results",
]

_TAGS = {
    TaskState.SUCCEEDED: "ok",
    TaskState.FAILED: "failed",
    TaskState.LOST: "failed",
    TaskState.STOPPED: "failed",
    TaskState.SKIPPED: "skipped",
    TaskState.CANCELLED: "skipped",
}


class UpstreamFailed(LouverError):
    """A result was asked for that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeError:
    """
    Why there is no value.

    :param kind: a :class:`~louver.states.FailureKind`, as text; None where nothing failed.
    :param reason: for people; ids and states, never payload.
    """

    kind: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """
    What one task came to.

    :param map_index: -1 where the step is not mapped.
    :param value: where it succeeded.
    :param error: where it is over and did not; or was marked as succeeded by hand, and has no value.
    """

    node: str
    state: TaskState
    map_index: int = -1
    value: Any = field(default=None, repr=False)
    error: NodeError | None = None

    @property
    def place(self) -> str:
        """Node and map index, for people."""
        return place_of(self.node, self.map_index)

    @property
    def tag(self) -> str:
        """``ok``, ``failed`` (lost and stopped too), ``skipped`` (cancelled too) or ``open``."""
        return _TAGS.get(self.state, "open")

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.state is TaskState.SUCCEEDED and self.error is None

    def unwrap(self) -> Any:
        """
        The value.

        :raises UpstreamFailed: where there is none.
        """
        if self.ok:
            return self.value
        by_hand = " by hand" if self.state is TaskState.SUCCEEDED else ""
        raise UpstreamFailed(f"{self.place} is {self.state}{by_hand}; it has no result")


def items_of(value: Any, *, node: str) -> Sequence[Any]:
    """
    The result of a node that others map over.

    :raises ValueRefused: where it is no list.
    """
    if isinstance(value, (list, tuple)):
        return value
    raise ValueRefused("$", f"must be a list, since a step maps over what {node!r} returns")


class RunResults:
    """
    The results of one run as they stand now; read once, values loaded as they are asked for.

    :param unsettled: tasks that the platform has taken up again, whatever the ledger still holds of them.
    :param strict: what decides about nodes has to be what was signed; otherwise it counts as not known, so
        that the state of a run can be told all the same.
    """

    def __init__(
        self,
        definition: Definition,
        run: RunKey,
        ledger: Ledger,
        *,
        unsettled: Collection[TaskKey] = (),
        strict: bool = True,
    ) -> None:
        self._strict = strict
        self.definition = definition
        self.run = run
        self._ledger = ledger
        self._values: dict[TaskKey, Any] = {}
        self._reasons: dict[TaskKey, str | None] | None = None
        self.tasks: dict[TaskKey, TaskRecord] = {
            task.key: task for task in ledger.list_tasks(run) if task.key not in unsettled
        }
        # Nodes that others build on first: how many indexes there are decides what a mapped one came to.
        self._counts = self._count()
        for key in [key for key in self.tasks if key.map_index >= self._counts.get(key.task_id, maxsize)]:
            # Left over from a longer list, before a clear: nothing depends on it any more.
            del self.tasks[key]
        self.evaluation: Evaluation = self.evaluate()

    @property
    def states(self) -> Mapping[str, TaskState]:
        """Node name to state, with what will never run worked in."""
        return self.evaluation.states

    @property
    def counts(self) -> Mapping[str, int]:
        """Mapped node to the number of its indexes, where that is known."""
        return self._counts

    def of(self, name: str) -> NodeResult | list[NodeResult]:
        """The result of a node; of a mapped one those of all indexes in order, none missing."""
        if not self.definition.node(name).mapped:
            return self._result(name, -1)
        return [self._result(name, index) for index in self.indexes(name)]

    def value(self, name: str) -> Any:
        """
        The node's value; of a mapped one the list of values by index.

        :raises UpstreamFailed: where one is missing.
        """
        found = self.of(name)
        return [each.unwrap() for each in found] if isinstance(found, list) else found.unwrap()

    def delivered(self, names: Iterable[str]) -> dict[str, Any]:
        """Name to value, of those that succeeded and have one (row T8)."""
        values = {}
        for name in names:
            found = self.of(name) if self.states[name] is TaskState.SUCCEEDED else None
            if isinstance(found, list) and all(each.ok for each in found):
                values[name] = [each.value for each in found]
            elif isinstance(found, NodeResult) and found.ok:
                values[name] = found.value
        return values

    def indexes(self, name: str) -> Sequence[int]:
        """The map indexes of a node, as far as they are known; -1 alone where it is not mapped."""
        if not self.definition.node(name).mapped:
            return (-1,)
        known = [key.map_index + 1 for key in self.tasks if key.task_id == name]
        return range(self._counts.get(name, max(known, default=0)))

    def _result(self, name: str, index: int) -> NodeResult:
        key = TaskKey(self.run.dag_id, self.run.run_id, name, index)
        record = self.tasks.get(key)
        state = record.state if record is not None else TaskState.PENDING
        if state in (TaskState.PENDING, TaskState.BLOCKED):
            # It never will run where an upstream has not delivered, though nobody has written that down yet.
            whole = self.states[name]
            state = whole if whole in (TaskState.SKIPPED, TaskState.CANCELLED) else state
        if state is TaskState.SUCCEEDED:
            try:
                return NodeResult(node=name, state=state, map_index=index, value=self._load(key))
            except NoResult:
                by_hand = NodeError(reason="marked as succeeded by hand; it has no result")
                return NodeResult(node=name, state=state, map_index=index, error=by_hand)
        error = None
        if state.terminal:
            kind = record.failure_kind if record is not None else None
            error = NodeError(kind=str(kind) if kind else None, reason=self._why(key))
        return NodeResult(node=name, state=state, map_index=index, error=error)

    def _load(self, key: TaskKey) -> Any:
        if key not in self._values:
            self._values[key] = self._ledger.load_result(key)
        return self._values[key]

    def _deciding(self, key: TaskKey) -> Iterator[Any]:
        """The value of a task, if it has one."""
        record = self.tasks.get(key)
        if record is None or record.state is not TaskState.SUCCEEDED:
            return
        try:
            value = self._load(key)
        except NoResult:
            # Marked by hand: it has chosen nothing, and keeps nobody behind it from running.
            return
        except IntegrityError:
            if self._strict:
                raise
            return
        yield value

    def _why(self, key: TaskKey) -> str | None:
        if self._reasons is None:
            states = {key: record.state for key, record in self.tasks.items()}
            rows = self._ledger.list_transitions(self.run)
            self._reasons = {row.task: row.reason for row in rows if row.to_state is states.get(row.task)}
        return self._reasons.get(key)

    def _count(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        # How often the platform itself has expanded a step, its indexes alone tell.
        for node in in_order(self.definition) if any(node.over for node in self.definition.nodes) else ():
            for source in node.over.values():
                if self.definition.node(source).mapped:
                    if source in counts:
                        counts[node.name] = counts[source]
                    continue
                for value in self._deciding(TaskKey(self.run.dag_id, self.run.run_id, source)):
                    counts[node.name] = len(items_of(value, node=source))
        return counts

    def evaluate(self, *, paused: Collection[str] = ()) -> Evaluation:
        """
        What the states of the nodes mean, with what branches chose and how long lists are.

        :param paused: nodes that people paused.
        """
        states = node_states(self.definition, self.tasks.values(), expected=self._counts)
        chosen = {
            node.name: choice_of(value)
            for node in self.definition.nodes
            if node.branch
            for value in self._deciding(TaskKey(self.run.dag_id, self.run.run_id, node.name))
        }
        failing = {key.task_id for key, record in self.tasks.items() if record.state in FAILING}
        return evaluate(self.definition, states, paused=paused, chosen=chosen, failing=failing)


def choice_of(value: Any) -> tuple[str, ...]:
    """The nodes that a branch chose; its result was checked when it succeeded."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def run_results(
    definition: Definition, run: RunKey, ledger: Ledger
) -> dict[str, NodeResult | list[NodeResult]]:
    """
    What every node came to, by name in declared order.

    :raises IntegrityError: where a stored result is not what was signed.
    """
    results = RunResults(definition, run, ledger)
    return {name: results.of(name) for name in definition.names}
