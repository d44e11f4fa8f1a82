"""
One round of reconciling: look at both sides, decide, repair.

Runs are taken in pages, so a round needs little memory and no long transaction however many there are. A
repair that fails, or finds that things have changed meanwhile, is left to the next round: everything is
decided anew from what is true then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any

from airflow.models.dagbag import DBDagBag

from louver.cascade import decide_cascade
from louver.clock import Clock
from louver.closing import COMPENSATE, definition_of, paused_nodes
from louver.definition import Definition
from louver.errors import LedgerUnavailable, LouverError, describe
from louver.evaluation import FAILING, evaluate
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import RunRecord, TaskRecord, TransitionRecord
from louver.ledger.requests import RunFilter, RunStart
from louver.ledger.survey_contract import Survey
from louver.node_states import states_by_node
from louver.nodes import Node
from louver.ports import Liveness
from louver.reconcile import Patience, TaskFacts, close_of_whole_step, decide_task, state_after
from louver.reconcile_runs import Undoing, decide_run
from louver.repairs import Chain, Repair
from louver.results import RunResults
from louver.sightings import Shown, Sighting, explains_skip, in_order, occupies, was_cleared
from louver.states import RunState, TaskState
from louver.steps import run_start
from louver.timeouts import running_time
from louver_provider.reconciler.others import behind_others_by_rows
from louver_provider.reconciler.pools import MakePool
from louver_provider.reconciler.sights import (
    RunSeen,
    read_answered,
    read_deployed,
    read_live,
    read_runs,
    read_timed_out,
    read_undoing,
)

__all__ = ["Carrier", "Outcome", "Round"]

_PAGE = 200
_LIVE = tuple(state for state in RunState if not state.terminal)
_DEFINITIONS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What became of a repair.

    :param done: None where it was only to be shown.
    :param why_not: where it was not done.
    """

    repair: Repair | MakePool
    done: bool | None
    why_not: str | None = None


Carrier = Callable[["Repair | MakePool", "RunStart | None"], str | None]
"""Carries a repair out; returns why it did not come about. Gets the start of a run that is not open yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """
    A run, from both sides.

    :param record: None where the ledger does not know it yet.
    :param start: what to open it with then.
    """

    key: RunKey
    record: RunRecord | None
    definition: Definition
    seen: RunSeen
    start: RunStart | None = None
    tasks: Mapping[TaskKey, TaskRecord] = field(default_factory=dict)


class _Witness:
    """
    Finds out what is asked for in doubt, about the tasks of one run.

    Its transitions are read once, however many tasks there are doubts about.
    """

    def __init__(self, ledger: Ledger, liveness: Liveness, run: RunKey, *, now: datetime) -> None:
        self._ledger = ledger
        self._liveness = liveness
        self._run = run
        self._now = now
        self._rows: dict[TaskKey, list[TransitionRecord]] | None = None

    def proves_dead(self, process: str) -> bool:
        return self._liveness.proves_dead(process)

    def ran(self, record: TaskRecord) -> timedelta:
        if self._rows is None:
            self._rows = defaultdict(list)
            for row in self._ledger.list_transitions(self._run):
                self._rows[row.task].append(row)
        rows = [
            row
            for row in self._rows[record.key]
            if (row.generation, row.attempt) == (record.generation, record.attempt)
        ]
        return running_time(rows, until=self._now)


class Round:
    """
    One round over one ledger and this Airflow.

    :param carry_out: does what was decided; None only shows it, and nothing is written.
    :param deployed: keeps what was read of Dags, from round to round.
    :param troubles: told of a run that cannot be looked at, and why; the others go on.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        liveness: Liveness,
        patience: Patience,
        deployed: DBDagBag,
        carry_out: Carrier | None,
        troubles: Callable[[RunKey, str], None] = lambda run, why: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._liveness = liveness
        self._patience = patience
        self._deployed = deployed
        self._carry_out = carry_out
        self._troubles = troubles
        self._definitions: dict[str, tuple[Definition, tuple[Node, ...]]] = {}

    def run(self, *, go_on: Callable[[], bool] = lambda: True) -> Iterator[Outcome]:
        """
        Look at every run that is not over, and repair what has to be.

        :param go_on: asked before each page; False ends the round.
        :raises LedgerUnavailable: where the ledger cannot be reached.
        :raises sqlalchemy.exc.DBAPIError: where Airflow's database cannot.
        """
        answered = read_answered()
        known: set[RunKey] = set()
        for runs in self._live():
            if not go_on():
                return
            keys = [run.key for run in runs]
            known.update(keys)
            yield from self._reconcile(keys, answered)
        others = iter([key for key in read_live() if key not in known])
        while page := list(islice(others, _PAGE)):
            if not go_on():
                return
            yield from self._reconcile(page, answered)

    def of_run(self, key: RunKey) -> Iterator[Outcome]:
        """Look at this run alone, whether or not it is over, and repair what has to be; as :meth:`run`."""
        yield from self._reconcile([key], read_answered())

    def _live(self) -> Iterator[list[RunRecord]]:
        after: RunRecord | None = None
        while True:
            page = self._ledger.list_runs(RunFilter(states=_LIVE, after=after, limit=_PAGE))
            if page:
                yield page
            if len(page) < _PAGE:
                return
            after = page[-1]

    def _reconcile(self, keys: Sequence[RunKey], answered: frozenset[TaskKey]) -> Iterator[Outcome]:
        # Airflow first: what its tasks have done since stands in the ledger, which is read after it.
        seen = read_runs(keys, answered=answered)
        try:
            survey = self._ledger.survey(keys)
        except (TypeError, ValueError, LookupError) as error:
            if len(keys) == 1:
                self._troubles(keys[0], f"its rows cannot be read: {type(error).__name__}")
                return
            # One run with a row that no ledger wrote must not keep the others from being looked at.
            for key in keys:
                yield from self._reconcile([key], answered)
            return
        parts = _parts(survey)
        for key in keys:
            try:
                run = self._run(key, parts, seen[key])
                if run is not None:
                    yield from self._repair(run, parts)
            except LedgerUnavailable:
                raise
            except LouverError as error:
                self._troubles(key, describe(error))

    def _run(self, key: RunKey, parts: _Parts, seen: RunSeen) -> _Run | None:
        """The run, where it is one to look at."""
        record = parts.runs.get(key)
        if record is None:
            deployed = read_deployed(key, self._deployed) if seen.there else None
            if deployed is None:
                return None
            marker = seen.run_after.isoformat() if seen.run_after else None
            start = run_start(deployed, key, marker=marker, requester=seen.requester)
            return _Run(key=key, record=None, definition=deployed, seen=seen, start=start)
        if record.marker is None:
            # It never was Airflow's: an embedded engine goes on with it.
            return None
        if seen.there and not _is_same(record.marker, seen.run_after):
            # Deleted and made again; the first task that opens the new one takes over what is left.
            return None
        definition, tasks = self._definition(record)[0], parts.tasks[key]
        if seen.over and _skipped(seen, tasks) and read_timed_out(key, self._deployed):
            # Case D08: the trail says what it was.
            seen = replace(seen, tasks={place: _by_timeout(task) for place, task in seen.tasks.items()})
        return _Run(key=key, record=record, definition=definition, seen=seen, tasks=tasks)

    def _definition(self, run: RunRecord) -> tuple[Definition, tuple[Node, ...]]:
        found = self._definitions.get(run.definition_fingerprint)
        if found is None:
            if len(self._definitions) >= _DEFINITIONS:
                self._definitions.clear()
            definition = definition_of(run.key, self._ledger)
            found = self._definitions[run.definition_fingerprint] = definition, in_order(definition)
        return found

    def _repair(self, run: _Run, parts: _Parts) -> Iterator[Outcome]:
        nodes = self._definition(run.record)[1] if run.record is not None else in_order(run.definition)
        left_over = _left_over(run)
        states = {key: record.state for key, record in run.tasks.items() if key not in left_over}
        by_node = states_by_node(run.definition, states)
        failing_fast = _failing_fast(run.definition, by_node)
        stale = False
        others = cache(lambda: behind_others_by_rows(run.key, run.definition, self._deployed))
        at_node: str | None = None
        whole = True
        now = self._clock.now()
        witness = _Witness(self._ledger, self._liveness, run.key, now=now)
        for facts in self._tasks(run, nodes, parts):
            if stale and facts.key.task_id != at_node:
                # Once for a node, however many indexes it has: those that explain it come before it.
                by_node, stale = states_by_node(run.definition, states), False
                failing_fast = _failing_fast(run.definition, by_node)
            at_node = facts.key.task_id
            chains = decide_task(
                facts,
                over=run.seen.over,
                explained=_explained(facts, by_node, others),
                fast=facts.key.task_id in failing_fast,
                patience=self._patience,
                witness=witness,
                now=now,
            )
            if not chains:
                continue
            if facts.key not in left_over:
                states[facts.key], stale = state_after(facts, chains), True
            for chain in chains:
                for outcome in self._do(chain, run.start):
                    whole = whole and outcome.done is not False
                    yield outcome
        if run.record is not None and whole:
            yield from self._fail_fast(run, parts)
            for chain in _of_whole_steps(run, nodes, parts, states):
                yield from self._do(chain, None)
            yield from self._repair_run(run, run.record, states_by_node(run.definition, states))

    def _fail_fast(self, run: _Run, parts: _Parts) -> Iterator[Outcome]:
        """Cancel what the process of the failed step could not, where the workflow fails fast."""
        failed = any(record.state in FAILING for record in run.tasks.values())
        if run.definition.aggregation != "fail_fast" or not failed or run.seen.over:
            return
        cleared = {key for key, record in run.tasks.items() if was_cleared(record, run.seen.task(key))}
        results = RunResults(run.definition, run.key, self._ledger, unsettled=cleared, strict=False)
        commands = [command for key in run.tasks for command in parts.commands.get(key, ())]
        for one in decide_cascade(results, commands):
            yield from self._do((one,), run.start)

    def _tasks(self, run: _Run, nodes: Iterable[Node], parts: _Parts) -> Iterator[TaskFacts]:
        dag_id, run_id = run.key.dag_id, run.key.run_id
        indexes: dict[str, set[int]] = defaultdict(set)
        for task_id, map_index in (*((key.task_id, key.map_index) for key in run.tasks), *run.seen.tasks):
            indexes[task_id].add(map_index)
        for node in nodes:
            for map_index in sorted(indexes.get(node.name) or (-1,)):
                facts = self._facts(TaskKey(dag_id, run_id, node.name, map_index), node, run, parts)
                if facts.record is None and map_index >= 0 and facts.seen.shown is Shown.GONE:
                    # Beyond the end of a list that was longer before a clear.
                    continue
                yield facts
        # The others of that name are tasks of the Dag that compensates from outside.
        closing = TaskKey(dag_id, run_id, COMPENSATE)
        if occupies(run.tasks.get(closing)):
            yield self._facts(closing, None, run, parts)

    def _facts(self, key: TaskKey, node: Node | None, run: _Run, parts: _Parts) -> TaskFacts:
        return TaskFacts(
            key=key,
            record=run.tasks.get(key),
            seen=run.seen.task(key),
            touch=parts.touches.get(key),
            commands=tuple(parts.commands.get(key, ())),
            asked=parts.asked.get(key),
            node=node,
        )

    def _repair_run(self, run: _Run, record: RunRecord, states: Mapping[str, TaskState]) -> Iterator[Outcome]:
        closing = run.seen.task(TaskKey(run.key.dag_id, run.key.run_id, COMPENSATE)).shown
        at_work = closing in (Shown.WAITING, Shown.RUNNING, Shown.RETRYING)

        def undoing() -> Undoing:
            known = read_undoing(run.key)
            # Airflow may have forgotten some, whose tasks the ledger still has.
            numbers = [key.map_index for key in run.tasks if key.task_id == COMPENSATE and key.map_index > 0]
            started = max([known.started, *numbers])
            return Undoing(active=known.active, started=started, outstanding=known.outstanding)

        yield from self._do(
            decide_run(
                record,
                run.definition,
                states,
                over=run.seen.over and not at_work,
                effects=lambda: self._ledger.list_effects(run.key),
                undoing=undoing,
                paused=paused_nodes(run.tasks.values()),
            ),
            None,
        )

    def _do(self, chain: Chain, start: RunStart | None) -> Iterator[Outcome]:
        for repair in chain:
            if self._carry_out is None:
                yield Outcome(repair=repair, done=None)
                continue
            why_not = self._carry_out(repair, start)
            yield Outcome(repair=repair, done=why_not is None, why_not=why_not)
            if why_not is not None:
                return


def _of_whole_steps(
    run: _Run, nodes: Iterable[Node], parts: _Parts, states: Mapping[TaskKey, TaskState]
) -> Iterator[Chain]:
    """Commands that were given to mapped steps before they had indexes, which they have now."""
    for node in nodes:
        whole = TaskKey(run.key.dag_id, run.key.run_id, node.name)
        commands = parts.commands.get(whole, ()) if node.mapped else ()
        if commands:
            seen = {
                replace(whole, map_index=index)
                for (name, index), task in run.seen.tasks.items()
                if name == node.name and task.shown is not Shown.GONE
            }
            indexes = [
                key
                for key in {*seen, *run.tasks} - _left_over(run)
                if key.task_id == node.name and key.map_index >= 0
            ]
            if indexes:
                yield from close_of_whole_step(commands, [states.get(key) for key in indexes])


def _explained(
    facts: TaskFacts, states: Mapping[str, TaskState], others: Callable[[], Collection[str]]
) -> bool | None:
    """
    Whether an upstream did not deliver.

    :param others: steps that tasks of others keep from running; asked only where nothing else explains it.
    """
    found = explains_skip(facts.node, states, whole=facts.key.map_index < 0)
    if found is not False or facts.seen.shown is not Shown.SKIPPED:
        return found
    if facts.state.terminal and (facts.record is None or not was_cleared(facts.record, facts.seen)):
        return found
    return facts.key.task_id in others()


def _failing_fast(definition: Definition, states: Mapping[str, TaskState]) -> Collection[str]:
    """Nodes that have not begun and are cancelled for a failure."""
    return evaluate(definition, states).cancelled if definition.aggregation == "fail_fast" else ()


def _left_over(run: _Run) -> set[TaskKey]:
    """Indexes of a list that was longer before a clear: Airflow has removed them, and nothing needs them."""
    mapped = {node.name for node in run.definition.nodes if node.mapped}
    there = {name for (name, _), task in run.seen.tasks.items() if task.shown is not Shown.GONE}
    return {
        key
        for key in run.tasks
        if key.map_index >= 0 and key.task_id in mapped & there and run.seen.task(key).shown is Shown.GONE
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A survey, by what its rows belong to."""

    runs: Mapping[RunKey, RunRecord]
    tasks: Mapping[RunKey, Mapping[TaskKey, TaskRecord]]
    touches: Mapping[TaskKey, Any]
    commands: Mapping[TaskKey, list[Any]]
    asked: Mapping[TaskKey, Any]


def _parts(survey: Survey) -> _Parts:
    tasks: dict[RunKey, dict[TaskKey, TaskRecord]] = defaultdict(dict)
    for task in survey.tasks:
        key = task.key
        tasks[key.run][key] = task
    commands: dict[TaskKey, list[Any]] = defaultdict(list)
    for command in survey.commands:
        commands[command.task].append(command)
    return _Parts(
        runs={run.key: run for run in survey.runs},
        tasks=tasks,
        touches={
            TaskKey(touch.dag_id, touch.run_id, touch.task_id, touch.map_index): touch
            for touch in survey.touches
        },
        commands=commands,
        # Of several the newest, which is the one that can be answered.
        asked={asked.task: asked for asked in survey.approvals},
    )


def _skipped(seen: RunSeen, tasks: Mapping[TaskKey, TaskRecord]) -> bool:
    """Whether Airflow skipped something that the ledger does not hold for over."""
    over = {(key.task_id, key.map_index) for key, record in tasks.items() if record.state.terminal}
    return any(task.shown is Shown.SKIPPED and place not in over for place, task in seen.tasks.items())


def _by_timeout(task: Sighting) -> Sighting:
    return replace(task, said="skipped by dagrun_timeout") if task.said == "skipped" else task


def _is_same(marker: str, run_after: datetime | None) -> bool:
    try:
        return run_after is not None and datetime.fromisoformat(marker) == run_after
    except ValueError:
        return False
