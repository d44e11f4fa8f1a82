"""Whether a finished run is still as it was sealed: pure decisions over its rows (semantics section 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from louver.ledger.findings import Finding
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    Record,
    RunRecord,
    SealRecord,
    TaskRecord,
)
from louver.seals import Ends, Place, Seal
from louver.timestamps import format_utc
from louver.verification import found_at

__all__ = ["SealCheck"]

_KINDS: Mapping[str, type[EffectRecord] | type[ApprovalRecord] | type[CheckpointRecord]] = {
    "effect": EffectRecord,
    "approval": ApprovalRecord,
    "checkpoint": CheckpointRecord,
}


class SealCheck:
    """
    Holds the rows of a run against its seal.

    Where something has gone on since (transitions beyond the seal tell), rows may have changed with it. What
    was sealed is still there even then: of a run that is in the ledger, nothing is ever removed.

    :param tasks: of the run, by task id and map index.
    """

    def __init__(
        self, run: RunRecord, record: SealRecord, seal: Seal, tasks: Mapping[Place, TaskRecord]
    ) -> None:
        self._run = run
        self._record = record
        self._seal = seal
        self._tasks = tasks
        self._met: set[tuple[str, tuple[Any, ...]]] = set()
        # In order, and quick to look into.
        self._standing = dict.fromkeys(
            place for place, task in tasks.items() if _stands(task, seal.ends.get(place))
        )
        self.gone_on = run.incarnation != record.incarnation or len(self._standing) != len(tasks)

    def check_run(self) -> Iterator[Finding]:
        """The seal itself, the run's own row, and its tasks."""
        record, seal, run = self._record, self._seal, self._run
        if seal.at is not None and seal.at != format_utc(record.sealed_at):
            yield found_at(record, "it was made at another time than it says")
        if record.incarnation > run.incarnation or (
            run.state.terminal and record.incarnation != run.incarnation
        ):
            yield found_at(record, f"it is of incarnation {record.incarnation}, its run of {run.incarnation}")
        elif record.incarnation == run.incarnation:
            yield from self._check_own_row()
        for place in self._standing:
            task = self._tasks[place]
            if seal.keeps("task", task) is False:
                yield found_at(task, "it is not as it was sealed, and no transition has changed it since")

    def _check_own_row(self) -> Iterator[Finding]:
        run, seal = self._run, self._seal
        if run.state.terminal:
            if seal.keeps("run.end", run) is False:
                yield found_at(run, "its end is not the one that was sealed")
        elif seal.over and not self.gone_on:
            yield found_at(run, f"it is {run.state}, was sealed as finished, and nothing has gone on since")
        # One that was opened without a marker may have learnt it since.
        origin = run if seal.marked else replace(run, marker=None)
        if seal.keeps("run.origin", origin) is False:
            yield found_at(run, "it did not begin as was sealed")

    def check_row(self, row: EffectRecord | ApprovalRecord | CheckpointRecord) -> Iterator[Finding]:
        """A row of the run."""
        parts: tuple[str, ...]
        if isinstance(row, CheckpointRecord):
            parts, free = ("checkpoint",), (row.task_id, row.map_index) not in self._standing
        elif isinstance(row, ApprovalRecord):
            parts, free = ("approval",), self.gone_on
        else:
            parts, free = ("effect", "effect.failed"), self.gone_on
        for part in parts:
            kept = self._seal.keeps(part, row)
            if kept is not None:
                self._met.add((part, self._seal.primary(part, row)))
                if not kept and not free:
                    yield found_at(row, "it is not as it was sealed, and nothing has changed it since")

    def check_rest(self, known: Collection[Place]) -> Iterator[Finding]:
        """
        What was sealed and is gone.

        :param known: tasks that something else in the ledger tells of, so that somebody has looked for them.
        """
        for place in self._seal.ends:
            if place not in self._tasks and place not in known:
                yield self._missing(TaskRecord.TABLE, place, None)
        for part, primary in self._seal.rows:
            kind = _KINDS.get(part)
            if kind is None or (part, primary) in self._met:
                continue
            if kind is CheckpointRecord and primary[:2] not in self._standing:
                continue
            named = (primary[0], primary[1]) if kind is CheckpointRecord else None
            yield self._missing(kind.TABLE, named, _key_of(kind, primary))

    def _missing(self, table: str, place: Place | None, key: str | None) -> Finding:
        return Finding(
            table=table,
            what="it is missing: the run was sealed with it",
            dag_id=self._run.dag_id,
            run_id=self._run.run_id,
            task_id=None if place is None else place[0],
            map_index=-1 if place is None else place[1],
            key=key,
        )


def _key_of(kind: type[Record], primary: tuple[Any, ...]) -> str:
    if kind is EffectRecord:
        scope, key, epoch = primary
        return f"{scope} {key}#{epoch}"
    return " ".join(map(str, primary[2:] if kind is CheckpointRecord else primary))


def _stands(task: TaskRecord, sealed: Ends | None) -> bool:
    """Whether nothing has gone on in the task since it was sealed."""
    return sealed is not None and (task.version, task.side_version) == (sealed.version, sealed.side_version)
