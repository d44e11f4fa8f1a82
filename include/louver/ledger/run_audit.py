"""Reading a run to verify it: by pages, in one transaction, so that what is at work is no finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from louver.audit import ChainWalk
from louver.errors import IntegrityError
from louver.ledger.acceptance_signatures import is_accepted
from louver.ledger.findings import Checked, Finding
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.owners import Expected, expected_of
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    PayloadRecord,
    Record,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.rows import Damaged, Rows, primary_of
from louver.ledger.task_operations import seal_binding
from louver.sealed_runs import SealCheck
from louver.seals import Ends, Place, Seal, read_seal
from louver.signing import SigningKeys, unseal
from louver.verification import (
    MAIN,
    SIDE,
    check_acceptances,
    check_approval,
    check_commits,
    check_effect,
    check_ends,
    check_payload,
    check_task,
    found_at,
    related,
)

__all__ = ["PAGE", "PayloadAudit", "RunAudit", "pages"]

PAGE = 500
"""How many rows are read at once."""

_FOREIGN = "it holds what no ledger writes"

_TOGETHER = 100
_TOGETHER_BYTES = 4 * 1024 * 1024

T = TypeVar("T", bound=Record)


def pages(rows: Rows, kind: type[T], **equal: Any) -> Iterator[T | Damaged]:
    """All rows with these field values, in order of their primary key, read by the page."""
    after: tuple[Any, ...] | None = None
    while True:
        found = rows.page(kind, after=after, limit=PAGE, **equal)
        yield from found
        if len(found) < PAGE:
            return
        after = primary_of(found[-1])


class PayloadAudit:
    """
    Looks at payloads, many at a time unless they are large.

    ``checked`` counts those that it has looked at.
    """

    def __init__(self, rows: Rows, *, keys: SigningKeys) -> None:
        self._rows = rows
        self._keys = keys
        self._waiting: list[Expected] = []
        self.checked = 0

    def look(self, expected: Iterable[Expected]) -> Iterator[Finding]:
        """Payloads that rows say they have; what is wrong with those that have waited long enough."""
        for one in expected:
            self._waiting.append(one)
            if len(self._waiting) == _TOGETHER:
                yield from self.rest()

    def rest(self) -> Iterator[Finding]:
        """What is wrong with those that still wait to be read."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            yield from self._look_at(waiting)

    def _look_at(self, expected: list[Expected]) -> Iterator[Finding]:
        sizes = self._rows.sizes(one.payload_id for one in expected)
        together: list[Expected] = []
        size = 0
        for one in expected:
            if one.payload_id not in sizes:
                yield self._at(one, "it is missing")
                continue
            if together and size + sizes[one.payload_id] > _TOGETHER_BYTES:
                yield from self._read(together)
                together, size = [], 0
            together.append(one)
            size += sizes[one.payload_id]
        yield from self._read(together)

    def _read(self, expected: list[Expected]) -> Iterator[Finding]:
        found = self._rows.read(PayloadRecord, {(one.payload_id,) for one in expected})
        by_id = {row.payload_id: row for row in found if isinstance(row, PayloadRecord)}
        self.checked += len(by_id)
        for one in expected:
            payload = by_id.get(one.payload_id)
            if payload is None:
                yield self._at(one, _FOREIGN)
            else:
                yield from check_payload(one, payload, keys=self._keys)

    @staticmethod
    def _at(expected: Expected, what: str) -> Finding:
        return replace(found_at(expected.owner, what), table=PayloadRecord.TABLE, key=expected.payload_id)


class RunAudit:
    """
    Looks at all that the ledger has of one run.

    Held in memory are its tasks, effects and approvals; transitions, checkpoints and payloads pass by.

    :param rows: of one moment of the ledger.
    """

    def __init__(self, rows: Rows, key: RunKey, *, keys: SigningKeys) -> None:
        self._rows = rows
        self._key = key
        self._keys = keys
        self._payloads = PayloadAudit(rows, keys=keys)
        self._checked = Checked()
        self._damaged: Counter[type[Record]] = Counter()
        self._unreadable: list[Damaged] = []

    @property
    def checked(self) -> Checked:
        """How many rows were looked at so far."""
        return replace(self._checked, payloads=self._payloads.checked)

    def findings(self) -> Iterator[Finding]:
        """What is broken, one after the other; no more is read than was asked for."""
        run = next(self._all(RunRecord), None)
        tasks = {(task.task_id, task.map_index): task for task in self._all(TaskRecord)}
        record = next(self._all(SealRecord), None)
        effects = list(self._all(EffectRecord))
        approvals = {asked.request_id: asked for asked in self._all(ApprovalRecord)}
        accepted = list(self._all(AcceptanceRecord))
        self._checked = Checked(
            runs=int(run is not None),
            tasks=len(tasks),
            seals=int(record is not None),
            effects=len(effects),
            approvals=len(approvals),
        )
        yield from self._unread()
        if run is None and not self._damaged[RunRecord]:
            yield from self._remnants(tasks, record, effects, approvals, accepted)
        seal = None
        if record is not None:
            try:
                seal = self._opened(record)
            except IntegrityError as error:
                yield found_at(record, str(error))
        elif run is not None and run.state.terminal and not self._damaged[SealRecord]:
            yield self._missing(SealRecord, f"the run is {run.state}")
        told: set[Place] = set()
        yield from self._chains(run, tasks, {} if seal is None else seal.ends, told)
        check = None
        if run is not None and record is not None and seal is not None:
            check = SealCheck(run, record, seal, tasks)
            yield from check.check_run()
        if run is not None:
            yield from self._payloads.look(expected_of(run))
            yield from check_commits(run, effects)
            yield from check_acceptances(run, accepted, keys=self._keys)
        yield from self._payloads.look(one for row in accepted for one in expected_of(row))
        known = {*tasks, *told}
        yield from self._effects(effects, approvals)
        standing: list[EffectRecord | ApprovalRecord] = [*effects, *approvals.values()]
        for row in standing:
            yield from self._of_the_run(row, run, known, check)
        yield from self._asked(approvals.values())
        yield from self._saved(run, known, check, self._before(run, accepted))
        yield from self._payloads.rest()
        yield from self._unread()
        if check is not None:
            yield from check.check_rest(told)

    # Reading

    def _all(self, kind: type[T], **more: Any) -> Iterator[T]:
        """Rows of the run; those that cannot be read are told of by :meth:`_unread`."""
        for row in pages(self._rows, kind, dag_id=self._key.dag_id, run_id=self._key.run_id, **more):
            if isinstance(row, Damaged):
                self._damaged[kind] += 1
                self._unreadable.append(row)
            else:
                yield row

    def _unread(self) -> Iterator[Finding]:
        while self._unreadable:
            yield found_at(self._unreadable.pop(0), _FOREIGN)

    def _opened(self, record: SealRecord) -> Seal:
        binding = seal_binding(self._key, record.incarnation)
        return read_seal(unseal(record.envelope, binding=binding, keys=self._keys))

    # What is wrong

    def _missing(self, kind: type[Record], why: str, place: Place | None = None) -> Finding:
        return Finding(
            table=kind.TABLE,
            what=f"it is missing: {why}",
            dag_id=self._key.dag_id,
            run_id=self._key.run_id,
            task_id=None if place is None else place[0],
            map_index=-1 if place is None else place[1],
        )

    def _remnants(
        self,
        tasks: Collection[Any],
        record: SealRecord | None,
        effects: Iterable[EffectRecord],
        approvals: Collection[Any],
        accepted: Collection[Any],
    ) -> Iterator[Finding]:
        """A run that is gone while rows of it are there; effects may outlive it, for what they guard."""
        equal: dict[str, Any] = {"dag_id": self._key.dag_id, "run_id": self._key.run_id}
        left = {
            TaskRecord.TABLE: bool(tasks),
            TransitionRecord.TABLE: bool(self._rows.page(TransitionRecord, limit=1, **equal)),
            SealRecord.TABLE: record is not None,
            EffectRecord.TABLE: any(effect.scope.startswith("run:") for effect in effects),
            ApprovalRecord.TABLE: bool(approvals),
            AcceptanceRecord.TABLE: bool(accepted),
            CheckpointRecord.TABLE: bool(self._rows.page(CheckpointRecord, limit=1, **equal)),
        }
        if any(left.values()):
            tables = ", ".join(table for table, there in left.items() if there)
            yield self._missing(RunRecord, f"rows of it are left in {tables}")

    def _chains(
        self,
        run: RunRecord | None,
        tasks: Mapping[Place, TaskRecord],
        ends: Mapping[Place, Ends],
        told: set[Place],
    ) -> Iterator[Finding]:
        """Both chains of every task, and whether the task is where they left it."""
        passing = pages(self._rows, TransitionRecord, dag_id=self._key.dag_id, run_id=self._key.run_id)
        for place, group in groupby(passing, key=_place_of):
            told.add(place)
            yield from self._of_a_task(place, group, run, tasks.get(place), ends.get(place))
        for place, task in tasks.items():
            if place not in told:
                yield from self._of_a_task(place, (), run, task, ends.get(place))

    def _of_a_task(
        self,
        place: Place,
        passing: Iterable[TransitionRecord | Damaged],
        run: RunRecord | None,
        task: TaskRecord | None,
        sealed: Ends | None,
    ) -> Iterator[Finding]:
        walks = {chain: ChainWalk(keys=self._keys) for chain in (MAIN, SIDE)}
        count = 0
        for row in passing:
            count += 1
            chain, version = row.primary[-2:] if isinstance(row, Damaged) else (row.chain, row.version)
            if chain not in walks or not isinstance(version, int):
                yield found_at(row, "no chain has such a row")
                continue
            walk = walks[chain]
            broken = walk.skip(version) if isinstance(row, Damaged) else walk.follow(row)
            for number, what in broken:
                yield found_at(self._row(place, chain, number), what)
        self._checked += Checked(transitions=count)
        key = TaskKey(self._key.dag_id, self._key.run_id, *place)
        if task is None and not self._damaged[TaskRecord]:
            yield self._missing(TaskRecord, f"{count} transitions of it are left", place)
        for chain, walk in walks.items():
            yield from check_ends(chain, walk, task, sealed, key=key)
        if task is not None:
            yield from check_task(task, run, main=walks[MAIN].last, side=walks[SIDE].last)

    def _row(self, place: Place, chain: str, version: int) -> Damaged:
        """Names a transition, whether it is there or not."""
        primary = (self._key.dag_id, self._key.run_id, *place, chain, version)
        return Damaged(kind=TransitionRecord, primary=primary)

    def _effects(
        self, effects: Collection[EffectRecord], approvals: Mapping[str, ApprovalRecord]
    ) -> Iterator[Finding]:
        known = {(effect.scope, effect.key, effect.epoch): effect for effect in effects}
        wanted = {other for effect in effects for other in related(effect) if other not in known}
        for row in self._rows.read(EffectRecord, wanted) if wanted else ():
            if not isinstance(row, Damaged):
                known[row.scope, row.key, row.epoch] = row
        for effect in effects:
            yield from check_effect(effect, known, approvals)
        yield from self._payloads.look(one for effect in effects for one in expected_of(effect))
        open_ones = {effect.result_payload: effect for effect in effects if effect.commit_sequence is None}
        kept = self._rows.sizes(open_ones) if open_ones else {}
        for payload_id in kept:
            yield found_at(open_ones[payload_id], "it was not committed, and a result of it is kept")

    def _of_the_run(
        self,
        row: EffectRecord | ApprovalRecord | CheckpointRecord,
        run: RunRecord | None,
        known: Collection[Place],
        check: SealCheck | None,
    ) -> Iterator[Finding]:
        """Whether the row's task is there, and whether it is as it was sealed."""
        # One of no generation has outlived its run, for what it guards.
        if run is not None and row.generation and (row.task_id, row.map_index) not in known:
            yield found_at(row, "its task is not in the ledger")
        if check is not None:
            yield from check.check_row(row)

    def _asked(self, approvals: Collection[ApprovalRecord]) -> Iterator[Finding]:
        for asked in approvals:
            yield from check_approval(asked, keys=self._keys)
        yield from self._payloads.look(one for asked in approvals for one in expected_of(asked))

    def _before(self, run: RunRecord | None, accepted: Iterable[AcceptanceRecord]) -> list[str]:
        """Definitions that the run was under before, as far as the ledger would believe it."""
        return [
            one.from_fingerprint
            for one in accepted
            if run is not None and one.incarnation == run.incarnation and is_accepted(one, keys=self._keys)
        ]

    def _saved(
        self,
        run: RunRecord | None,
        known: Collection[Place],
        check: SealCheck | None,
        before: Collection[str],
    ) -> Iterator[Finding]:
        for saved in self._all(CheckpointRecord):
            self._checked += Checked(checkpoints=1)
            yield from self._of_the_run(saved, run, known, check)
            # Saved before the run was made again, it is bound to the definition of then.
            bound = run.definition_fingerprint if run and run.incarnation == saved.incarnation else None
            earlier = () if bound is None else tuple(before)
            wanted = expected_of(saved, definition_fingerprint=bound, earlier=earlier)
            yield from self._payloads.look(wanted)


def _place_of(row: TransitionRecord | Damaged) -> Place:
    if isinstance(row, Damaged):
        _, _, task_id, map_index, *_ = row.primary
        return task_id, map_index
    return row.task_id, row.map_index
