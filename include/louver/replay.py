"""
Replays a recorded history (:mod:`louver.exports`): would this release have taken the same run the same way?

Every transition has to be legal, every chain without gaps, every start one that the definition in force then
allowed, and the final state the one that is computed from all of it (rows O14 and W9). Nothing is run, and no
ledger is needed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from louver.closing import COMPENSATE
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import DefinitionError, IllegalTransition, TimestampError
from louver.evaluation import FAILING, Evaluation, evaluate, final_state
from louver.exports import FORMAT
from louver.ledger.names import EffectKind, EffectState, TaskKey
from louver.node_states import states_by_node
from louver.states import RunState, TaskState, transition
from louver.timestamps import parse_rfc3339

__all__ = ["Replayed", "replay"]

_Place = tuple[str, int]
"""Task id and map index."""

_Spot = tuple[int, int, TaskState]
"""How many rows of either chain were taken, and the state after them."""


_STARTS = "orchestrator:dependencies_resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """
    What a replay has shown.

    :param written_by: the release that wrote the history.
    :param state: the run's state, computed from what was recorded; None where it cannot be.
    :param transitions: how many were replayed.
    :param problems: what this release makes of it otherwise; empty where nothing.
    """

    written_by: str
    state: RunState | None
    transitions: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    place: _Place
    chain: str
    version: int
    generation: int
    from_state: TaskState
    to_state: TaskState
    at: datetime
    trigger: str

    def __str__(self) -> str:
        task_id, index = self.place
        named = task_id if index < 0 else f"{task_id}[{index}]"
        return f"{named} {self.chain} {self.version}: {self.from_state} -> {self.to_state} ({self.trigger})"


def replay(document: Mapping[str, Any]) -> Replayed:
    """
    Replay a history.

    :param document: as :func:`louver.exports.export_run` made it, in this release or an earlier one. What
        cannot be read is a problem too, and no error.
    """
    written_by = str(document.get("written_by"))
    if document.get("louver_history") != FORMAT:
        problem = f"format {document.get('louver_history')!r} is not one that this release reads"
        return Replayed(written_by=written_by, state=None, transitions=0, problems=(problem,))
    try:
        return _Replay(document, written_by).run()
    except (KeyError, TypeError, ValueError, DefinitionError, TimestampError) as error:
        problem = f"it cannot be read: {type(error).__name__}: {error}"
        return Replayed(written_by=written_by, state=None, transitions=0, problems=(problem,))


class _Replay:
    def __init__(self, document: Mapping[str, Any], written_by: str) -> None:
        self._document = document
        self._written_by = written_by
        self._run = document["run"]
        self._definitions = [_definition(entry) for entry in document["definitions"]]
        self._since = [_time(row["accepted_at"]) for row in document["acceptances"]]
        self._rows = [_row(row) for row in document["transitions"]]
        self._states: dict[_Place, TaskState] = {}

    def run(self) -> Replayed:
        problems = [*self._check_definitions(), *self._check_chains()]
        problems += self._live()
        problems += self._check_tasks()
        problems += self._check_effects()
        problems += self._check_approvals()
        state = self._final()
        recorded = RunState(self._run["state"])
        if recorded.terminal and state is not recorded:
            problems.append(f"the run is recorded as {recorded}, and comes out as {state}")
        if not recorded.terminal and state.terminal:
            problems.append(f"the run is recorded as {recorded}, and is over: {state}")
        return Replayed(
            written_by=self._written_by, state=state, transitions=len(self._rows), problems=tuple(problems)
        )

    # Definitions

    def _check_definitions(self) -> Iterator[str]:
        names = [entry["fingerprint"] for entry in self._document["definitions"]]
        for entry, definition in zip(self._document["definitions"], self._definitions, strict=True):
            if not entry["altered"] and definition.fingerprint != entry["fingerprint"]:
                yield (
                    f"definition {definition.version} has the fingerprint {definition.fingerprint[:12]} in "
                    f"this release, and had {entry['fingerprint'][:12]}: a run under it would be taken for "
                    "one of another definition"
                )
        accepted = self._document["acceptances"]
        if [row["number"] for row in accepted] != list(range(1, len(accepted) + 1)):
            yield "an acceptance of another definition is missing"
        steps = [(row["from_fingerprint"], row["to_fingerprint"]) for row in accepted]
        if steps != list(pairwise(names)):
            yield "the acceptances do not lead from one definition to the next"
        if names[-1:] != [self._run["definition_fingerprint"]]:
            yield "the run is not under the definition that it accepted last"

    def _in_force(self, at: datetime) -> Definition:
        return self._definitions[sum(since <= at for since in self._since)]

    # Transitions

    def _check_chains(self) -> Iterator[str]:
        chains: dict[tuple[_Place, str], list[int]] = defaultdict(list)
        for row in self._rows:
            chains[row.place, row.chain].append(row.version)
            try:
                transition(row.from_state, row.to_state, row.trigger)
            except IllegalTransition as error:
                yield f"{row}: {error}"
        for (place, chain), versions in chains.items():
            if sorted(versions) != list(range(1, len(versions) + 1)):
                yield f"the {chain} chain of {place[0]} has gaps: {sorted(versions)}"

    def _live(self) -> Iterator[str]:
        """
        Take all rows in an order that each task's own states allow, by time; at one moment, what is allowed
        comes before what is not.
        """
        waiting: dict[_Place, deque[tuple[datetime, _Row]]] = {}
        by_task: dict[_Place, list[_Row]] = defaultdict(list)
        for row in self._rows:
            by_task[row.place].append(row)
        for place, rows in by_task.items():
            merged = _merged(rows)
            if merged is None:
                yield f"the transitions of {place[0]} do not go on from one another"
                continue
            # The task's own order stands, whatever the clocks of two machines say.
            times = accumulate((row.at for row in merged), max)
            waiting[place] = deque(zip(times, merged, strict=True))
        while waiting:
            now = min(rows[0][0] for rows in waiting.values())
            heads = [rows[0][1] for rows in waiting.values() if rows[0][0] == now]
            row = next((head for head in heads if not any(self._check_start(head))), heads[0])
            yield from self._check_start(row)
            self._states[row.place] = row.to_state
            waiting[row.place].popleft()
            if not waiting[row.place]:
                del waiting[row.place]

    def _check_start(self, row: _Row) -> Iterator[str]:
        """Whether the definition in force let the task start, or be skipped, with the states of then."""
        definition = self._in_force(row.at)
        name = row.place[0]
        if row.trigger == "executor:launched" and name == COMPENSATE:
            seen = self._evaluation(definition, self._states)
            if not seen.forward.terminal:
                yield f"{row}: the run's steps were not over"
        if name not in definition.names or row.trigger != _STARTS:
            return
        before = {place: state for place, state in self._states.items() if place[0] != name}
        if name not in self._evaluation(definition, before).ready:
            yield f"{row}: what it waits for did not let it start"

    def _evaluation(self, definition: Definition, states: Mapping[_Place, TaskState]) -> Evaluation:
        keys = {TaskKey("", "", *place): state for place, state in states.items()}
        counts = self._document["counts"]
        # How many there are is decided by what they are mapped over.
        known = {
            node.name: counts[node.name]
            for node in definition.nodes
            if node.mapped and node.name in counts and self._are_counted(node.over.values(), states)
        }
        return evaluate(
            definition,
            states_by_node(definition, keys, expected=known),
            chosen=self._document["chosen"],
            failing={place[0] for place, state in states.items() if state in FAILING},
        )

    @staticmethod
    def _are_counted(over: Any, states: Mapping[_Place, TaskState]) -> bool:
        wanted = set(over)
        return all(
            state is TaskState.SUCCEEDED for place, state in states.items() if place[0] in wanted
        ) and any(place[0] in wanted for place in states)

    # What came out

    def _check_tasks(self) -> Iterator[str]:
        told: dict[tuple[_Place, str], int] = defaultdict(int)
        generations: dict[_Place, int] = defaultdict(int)
        for row in self._rows:
            told[row.place, row.chain] += 1
            generations[row.place] = max(generations[row.place], row.generation)
        for task in self._document["tasks"]:
            place = task["task_id"], task["map_index"]
            for chain, name in (("main", "version"), ("side", "side_version")):
                count = told[place, chain]
                if count != task[name]:
                    yield f"{place[0]} has {task[name]} transitions in its {chain} chain, not {count}"
            state = self._states.get(place, TaskState.PENDING)
            if state is not TaskState(task["state"]):
                yield f"{place[0]} is recorded as {task['state']}, and comes out as {state}"
            if generations[place] not in (0, task["generation"]):
                yield f"{place[0]} is of generation {task['generation']}, not {generations[place]}"

    def _check_effects(self) -> Iterator[str]:
        effects = self._document["effects"]
        places = [row["commit_sequence"] for row in effects if row["commit_sequence"] is not None]
        if len(set(places)) != len(places) or max(places, default=0) > self._run["commits"]:
            yield f"the commits of the run have no places of their own: {sorted(places)}"
        known = {(row["scope"], f"{row['key']}#{row['epoch']}"): row for row in effects}
        for row in effects:
            state = EffectState(row["state"])
            if EffectKind(row["kind"]) is EffectKind.FORWARD or state is not EffectState.COMMITTED:
                continue
            undone = known.get((row["scope"], row["undoes"]))
            if undone is not None and EffectState(undone["state"]) is not EffectState.UNDONE:
                yield f"the undo of {row['undoes']} is committed, and it is {undone['state']}"

    def _check_approvals(self) -> Iterator[str]:
        for row in self._document["approvals"]:
            if row["consumed_by"] is not None and row["decision"] != "approved":
                yield f"request {row['request_id']} was used, and is {row['decision']}"
            if row["four_eyes"] and row["decision"] == "approved" and row["decided_by"] == row["requester"]:
                yield f"request {row['request_id']} was approved by who asked for it"
        approved = {row["task_id"] for row in self._document["approvals"] if row["decision"] == "approved"}
        for row in self._rows:
            if row.trigger == "approval:granted" and row.place[0] not in approved:
                yield f"{row}: no request of it was approved"

    def _final(self) -> RunState:
        seen = self._evaluation(self._definitions[-1], self._states)
        own = [row for row in self._document["effects"] if EffectKind(row["kind"]) is EffectKind.FORWARD]
        states = [(EffectState(row["state"]), row["undo"] is not None) for row in own]
        return final_state(
            seen.forward,
            undone=sum(state is EffectState.UNDONE for state, _ in states),
            failed=sum(state is EffectState.UNDO_FAILED for state, _ in states),
            outstanding=sum(
                state in (EffectState.STARTED, EffectState.UNKNOWN)
                or (state is EffectState.COMMITTED and undoable)
                for state, undoable in states
            ),
            stop=self._definitions[-1].compensation.stops,
        )


def _definition(entry: Mapping[str, Any]) -> Definition:
    return read_definition_form(entry["form"])


def _time(text: str) -> datetime:
    return parse_rfc3339(text)


def _row(row: Mapping[str, Any]) -> _Row:
    return _Row(
        place=(row["task_id"], row["map_index"]),
        chain=row["chain"],
        version=row["version"],
        generation=row["generation"],
        from_state=TaskState(row["from_state"]),
        to_state=TaskState(row["to_state"]),
        at=_time(row["at"]),
        trigger=row["trigger"],
    )


def _merged(rows: Sequence[_Row]) -> list[_Row] | None:
    """
    Both chains of a task as one, in which each row goes on from the one before; None where there is no way.

    Who writes into the side chain does not number in the main one, so states and times tell where it belongs.
    """
    main, side = (
        sorted((row for row in rows if row.chain == chain), key=lambda row: row.version)
        for chain in ("main", "side")
    )
    start: _Spot = (0, 0, TaskState.PENDING)
    came: dict[_Spot, tuple[_Spot, _Row] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        spot = waiting.popleft()
        i, j, state = spot
        if (i, j) == (len(main), len(side)):
            return _way(came, spot)
        steps = [(main[i], (i + 1, j))] if i < len(main) else []
        steps += [(side[j], (i, j + 1))] if j < len(side) else []
        for row, (after_i, after_j) in sorted(steps, key=lambda step: step[0].at):
            after = (after_i, after_j, row.to_state)
            if row.from_state is state and after not in came:
                came[after] = spot, row
                waiting.append(after)
    return None


def _way(came: Mapping[Any, tuple[Any, _Row] | None], spot: Any) -> list[_Row]:
    found = []
    while (step := came[spot]) is not None:
        spot, row = step
        found.append(row)
    return found[::-1]
