"""Runs, tasks, transitions, checkpoints and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from louver.approvals import Evidence, evidence_of
from louver.audit import link
from louver.definition import Definition
from louver.definition_json import read_definition_form
from louver.errors import DefinitionError, IntegrityError, LedgerError, NoResult
from louver.ledger.acceptance_signatures import check_acceptance, definitions_of
from louver.ledger.approval_signatures import is_as_signed, sign_approval
from louver.ledger.names import Decision, RunKey, TaskKey, Token
from louver.ledger.passed_on import pass_on
from louver.ledger.records import (
    OF_NO_GENERATION,
    RESULT,
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    PayloadRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.requests import OpenedTask, RunFilter, RunStart
from louver.ledger.rows import Rows, primary_of
from louver.ledger.transactions import Transactional, decision, question
from louver.retention import outliving
from louver.seals import seal_content
from louver.sessions import Change, Claim, Entry, apply_change, plan_opening
from louver.signing import seal
from louver.states import RunState, Source, TaskState

__all__ = [
    "TaskOperations",
    "checkpoint_binding",
    "definition_binding",
    "definition_payload",
    "new_checkpoint",
    "seal_binding",
]


class TaskOperations(Transactional):
    """The part of the contract that concerns runs, tasks and what they save."""

    @decision
    def open_run(self, rows: Rows, start: RunStart, *, now: datetime) -> RunRecord:
        fresh = RunRecord(
            dag_id=start.key.dag_id,
            run_id=start.key.run_id,
            incarnation=1,
            marker=start.marker,
            definition_name=start.definition_name,
            definition_version=start.definition_version,
            definition_fingerprint=start.definition_fingerprint,
            state=RunState.RUNNING,
            reason=None,
            requester=start.requester,
            created_at=now,
            updated_at=now,
        )
        self._keep_definition(rows, start, now=now)
        if rows.insert(fresh):
            # Of a run of this id that was cleaned away, effects may be left, with their places.
            left = rows.find(EffectRecord, dag_id=fresh.dag_id, run_id=fresh.run_id)
            places = [effect.commit_sequence for effect in left if effect.commit_sequence is not None]
            if places:
                fresh = replace(fresh, commits=max(places))
                rows.update(fresh)
            self._keep_definition(rows, start, now=now, held=True)
            return fresh
        known = rows.peek(RunRecord, start.key.dag_id, start.key.run_id) or fresh
        if start.marker is None or known.marker == start.marker:
            return known
        return self._open_anew(rows, start, fresh, now=now)

    def _open_anew(self, rows: Rows, start: RunStart, fresh: RunRecord, *, now: datetime) -> RunRecord:
        """The run is there with another marker, or with none."""
        equal = {"dag_id": fresh.dag_id, "run_id": fresh.run_id}
        # Locked before their run, as by whoever commits one.
        left = [rows.get(EffectRecord, *primary_of(effect)) for effect in rows.find(EffectRecord, **equal)]
        known = rows.get(RunRecord, fresh.dag_id, fresh.run_id) or fresh
        if known.marker == start.marker:
            return known
        if known.marker is None:
            # Nobody had told which run it is; that somebody does now makes it no other one.
            told = replace(known, marker=start.marker)
            rows.update(told)
            return told
        outlived = outliving(
            known,
            self._definition_of(rows, known),
            tasks=rows.find(TaskRecord, **equal),
            effects=[effect for effect in left if effect is not None],
        )
        for effect in outlived:
            rows.update(replace(effect, generation=OF_NO_GENERATION))
        # What else the deleted run committed is still to be undone in order, so the places go on.
        fresh = replace(fresh, commits=known.commits, incarnation=known.incarnation + 1)
        rows.update(fresh)
        self._keep_definition(rows, start, now=now, held=True)
        return fresh

    def _definition_of(self, rows: Rows, run: RunRecord) -> Definition | None:
        """The run's definition; None where it cannot be read."""
        fingerprint = run.definition_fingerprint
        try:
            return read_definition_form(
                self._load(rows, definition_payload(fingerprint), binding=definition_binding(fingerprint))
            )
        except (IntegrityError, DefinitionError):
            return None

    def _keep_definition(self, rows: Rows, start: RunStart, *, now: datetime, held: bool = False) -> None:
        """
        See that the definition is there.

        :param held: the run that needs it is written: nobody may take the definition for an orphan meanwhile.
        """
        payload_id = definition_payload(start.definition_fingerprint)
        found = (rows.hold if held else rows.peek)(PayloadRecord, payload_id)
        if found is None:
            binding = definition_binding(start.definition_fingerprint)
            self._keep(rows, payload_id, dict(start.definition), binding=binding, now=now)

    @question
    def load_definition(self, rows: Rows, definition_fingerprint: str) -> Mapping[str, Any]:
        payload_id = definition_payload(definition_fingerprint)
        form = self._load(rows, payload_id, binding=definition_binding(definition_fingerprint))
        return dict(form)

    @question
    def get_run(self, rows: Rows, key: RunKey) -> RunRecord | None:
        return rows.peek(RunRecord, key.dag_id, key.run_id)

    @question
    def list_runs(self, rows: Rows, wanted: RunFilter) -> list[RunRecord]:
        return rows.list_runs(wanted)

    @decision
    def set_run_state(
        self, rows: Rows, key: RunKey, state: RunState, *, reason: str | None, now: datetime
    ) -> None:
        run = rows.get(RunRecord, key.dag_id, key.run_id) or self._run(rows, key)
        if (run.state, run.reason) != (state, reason):
            run = replace(run, state=state, reason=reason, updated_at=now)
            rows.update(run)
        if state.terminal:
            self._seal(rows, run, now=now)

    @decision
    def seal_run(self, rows: Rows, key: RunKey, *, now: datetime) -> SealRecord:
        return self._seal(rows, self._run(rows, key), now=now)

    def _seal(self, rows: Rows, run: RunRecord, *, now: datetime) -> SealRecord:
        key = run.key
        equal = {"dag_id": key.dag_id, "run_id": key.run_id}
        tasks = rows.find(TaskRecord, **equal)
        content = seal_content(
            run,
            tasks,
            rows.find(EffectRecord, **equal),
            rows.find(ApprovalRecord, **equal),
            rows.find(CheckpointRecord, **equal),
            now=now,
        )
        record = SealRecord(
            dag_id=key.dag_id,
            run_id=key.run_id,
            incarnation=run.incarnation,
            # Not limited as values are: a run of many tasks has to end.
            envelope=seal(content, binding=seal_binding(key, run.incarnation), keys=self._keys),
            sealed_at=now,
        )
        rows.put(record)
        return record

    @question
    def get_seal(self, rows: Rows, key: RunKey) -> SealRecord | None:
        run = rows.peek(RunRecord, key.dag_id, key.run_id)
        seal = rows.peek(SealRecord, key.dag_id, key.run_id)
        # Of a run that was made again, the seal of the deleted one is left until this one has its own.
        return seal if run and seal and seal.incarnation == run.incarnation else None

    @decision
    def open_task(self, rows: Rows, key: TaskKey, claim: Claim, *, now: datetime) -> OpenedTask:
        run = self._run(rows, key.run)
        record = self._locked(rows, key, run, now=now)
        opening = plan_opening(record, claim, incarnation=run.incarnation)
        after, transitions = self._append(rows, opening.record, opening.changes, claim.source, now)
        rows.update(after)
        if opening.entry is Entry.START:
            pass_on(rows, run, record, after, now=now)
        token = Token(
            key=key,
            incarnation=after.incarnation,
            generation=after.generation,
            attempt=after.attempt,
            try_number=after.try_number,
            session=after.session,
            process=claim.process,
            source=claim.source,
        )
        return OpenedTask(token=token, entry=opening.entry, record=after, transitions=transitions)

    def _append(
        self, rows: Rows, record: TaskRecord, changes: Iterable[Change], source: Source, now: datetime
    ) -> tuple[TaskRecord, tuple[TransitionRecord, ...]]:
        written = []
        for change in changes:
            before = record.head
            record, row = apply_change(record, change, source=source, now=now)
            row = link(row, before, keys=self._keys)
            record = replace(record, head=row.mac)
            rows.insert(row)
            written.append(row)
        return record, tuple(written)

    @decision
    def advance(
        self, rows: Rows, token: Token, *changes: Change, now: datetime
    ) -> tuple[TransitionRecord, ...]:
        record, written = self._append(rows, self._hold(rows, token), changes, token.source, now)
        rows.update(record)
        return written

    @decision
    def complete(
        self, rows: Rows, token: Token, change: Change, result: Any, *, now: datetime
    ) -> TransitionRecord:
        held = self._hold(rows, token)
        self._save(rows, token, RESULT, result, now)
        record, written = self._append(rows, held, [change], token.source, now)
        rows.update(record)
        return written[0]

    @decision
    def mark(
        self,
        rows: Rows,
        key: TaskKey,
        change: Change,
        *,
        session: int,
        source: Source,
        max_tries: int | None = None,
        now: datetime,
    ) -> TransitionRecord | None:
        run = self._run(rows, key.run)
        if session != 0 and rows.peek(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index) is None:
            # Nothing is done, so no record is made either: a task that nobody opened has no session.
            return None
        record = self._locked(rows, key, run, now=now)
        if record.session != session:
            return None
        before = record
        if record.incarnation != run.incarnation:
            # It is about the new run's task, to which no result and no checkpoint of the old run belongs.
            record = replace(
                record,
                incarnation=run.incarnation,
                generation=record.generation + 1,
                attempt=0,
                failures=0,
                losses=0,
            )
        if change.trigger == "user:cleared":
            record = replace(record, generation=record.generation + 1, attempt=0, failures=0, losses=0)
        elif change.trigger == "runtime:attempt_lost":
            record = replace(record, losses=record.losses + 1)
        if max_tries is not None:
            record = replace(record, max_tries=max_tries)
        number = record.side_version + 1
        after, row = apply_change(record, change, source=source, now=now, side_version=number)
        row = link(row, record.side_head, keys=self._keys)
        rows.insert(row)
        after = replace(after, session=record.session + 1, nonce=None, side_version=number, side_head=row.mac)
        rows.update(after)
        if (
            change.trigger in ("runtime:attempt_lost", "user:cleared")
            and before.incarnation == run.incarnation
        ):
            # It may have been paused; who begins it anew finds another state.
            pass_on(rows, run, before, after, now=now)
        if after.state.terminal:
            self._void_requests(rows, key, now=now)
        return row

    def _void_requests(self, rows: Rows, key: TaskKey, *, now: datetime) -> None:
        """A task that is over waits for nobody's answer."""
        for request in self._pending_requests(rows, key):
            self._close_request(rows, request, replace(request, decision=Decision.VOID, decided_at=now))

    def _write_request(self, rows: Rows, record: ApprovalRecord) -> ApprovalRecord:
        signed = sign_approval(record, keys=self._keys)
        rows.update(signed)
        return signed

    def _close_request(self, rows: Rows, known: ApprovalRecord, over: ApprovalRecord) -> None:
        """Nobody's answer is waited for; what was changed past the ledger is not signed with it."""
        if is_as_signed(known, keys=self._keys):
            self._write_request(rows, over)
        else:
            rows.update(over)

    @staticmethod
    def _locked(rows: Rows, key: TaskKey, run: RunRecord, *, now: datetime) -> TaskRecord:
        """The task's record, made where it is new, and locked: whoever comes second waits for the first."""
        fresh = _new_record(key, run, now=now)
        # Held: whoever cleans the run away has either not begun, or is done with it.
        if rows.insert(fresh) and rows.hold(RunRecord, key.dag_id, key.run_id) is None:
            raise LedgerError(
                f"run {key.run_id} of {key.dag_id} was just removed from the ledger; open it anew"
            )
        return rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index) or fresh

    @staticmethod
    def _pending_requests(rows: Rows, key: TaskKey) -> list[ApprovalRecord]:
        """The task's requests without a decision, locked: somebody may be answering one at this moment."""
        locked = (
            rows.get(ApprovalRecord, request.request_id)
            for request in rows.find(ApprovalRecord, **_place(key))
            if request.decision is Decision.PENDING
        )
        return [request for request in locked if request and request.decision is Decision.PENDING]

    @question
    def get_task(self, rows: Rows, key: TaskKey) -> TaskRecord | None:
        return rows.peek(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)

    @question
    def list_tasks(self, rows: Rows, run: RunKey) -> list[TaskRecord]:
        return self._tasks(rows, run)

    @staticmethod
    def _tasks(rows: Rows, run: RunKey) -> list[TaskRecord]:
        """The tasks of the run as it is now, without those of a run of this id that was deleted."""
        record = rows.peek(RunRecord, run.dag_id, run.run_id)
        found = rows.find(TaskRecord, dag_id=run.dag_id, run_id=run.run_id)
        return [task for task in found if record and task.incarnation == record.incarnation]

    @question
    def list_transitions(
        self, rows: Rows, run: RunKey, *, task_id: str | None = None
    ) -> list[TransitionRecord]:
        wanted = {"dag_id": run.dag_id, "run_id": run.run_id}
        if task_id is not None:
            wanted["task_id"] = task_id
        found = rows.find(TransitionRecord, **wanted)
        return sorted(found, key=lambda row: (row.at, row.task_id, row.map_index, row.chain, row.version))

    @decision
    def save_checkpoint(self, rows: Rows, token: Token, name: str, value: Any, *, now: datetime) -> None:
        self._hold(rows, token)
        self._save(rows, token, name, value, now)

    def _save(self, rows: Rows, token: Token, name: str, value: Any, now: datetime) -> None:
        record = new_checkpoint(token, name, now=now)
        binding = checkpoint_binding(record, self._run(rows, token.key.run).definition_fingerprint)
        digest = self._keep(rows, record.payload, value, binding=binding, now=now)
        record = replace(record, digest=digest)
        if not rows.insert(record):
            rows.update(record)

    @question
    def load_checkpoint(self, rows: Rows, token: Token, name: str, default: Any) -> Any:
        key = token.key
        record = rows.peek(
            CheckpointRecord, key.dag_id, key.run_id, key.task_id, key.map_index, token.generation, name
        )
        if record is None or record.incarnation != token.incarnation:
            return default
        return self._restore(rows, record)

    def _restore(self, rows: Rows, record: CheckpointRecord) -> Any:
        run = self._run(rows, RunKey(record.dag_id, record.run_id))
        try:
            return self._bound(rows, record, run.definition_fingerprint)
        except IntegrityError as error:
            # What was saved under a definition that the run was under before is its own: the run has accepted
            # the change, signed. Nobody else's is.
            accepted = self._accepted(rows, run)
            for fingerprint in definitions_of(run, accepted)[1:]:
                with suppress(IntegrityError):
                    return self._bound(rows, record, fingerprint)
            raise error from None

    def _bound(self, rows: Rows, record: CheckpointRecord, definition_fingerprint: str) -> Any:
        binding = checkpoint_binding(record, definition_fingerprint)
        return self._load(rows, record.payload, binding=binding, digest=record.digest)

    def _accepted(self, rows: Rows, run: RunRecord) -> list[AcceptanceRecord]:
        """The run's acceptances by their numbers, each as it was signed."""
        found = rows.find(AcceptanceRecord, dag_id=run.dag_id, run_id=run.run_id, incarnation=run.incarnation)
        return [check_acceptance(one, keys=self._keys) for one in sorted(found, key=attrgetter("number"))]

    @question
    def load_result(self, rows: Rows, key: TaskKey) -> Any:
        task = rows.peek(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        if (
            task is None
            or task.state is not TaskState.SUCCEEDED
            or task.incarnation != self._run(rows, key.run).incarnation
        ):
            raise IntegrityError(f"{key} has no committed result")
        record = rows.peek(
            CheckpointRecord, key.dag_id, key.run_id, key.task_id, key.map_index, task.generation, RESULT
        )
        if record is None:
            if self._marked_by_hand(rows, key):
                raise NoResult(
                    f"{key} was marked as succeeded by hand, so it has no result; clear it to run it"
                )
            raise IntegrityError(f"the result of {key} is gone")
        return self._restore(rows, record)

    @staticmethod
    def _marked_by_hand(rows: Rows, key: TaskKey) -> bool:
        found = rows.find(TransitionRecord, **_place(key))
        ends = [row for row in found if row.to_state is TaskState.SUCCEEDED]
        last = max(ends, key=lambda row: row.at, default=None)
        return last is not None and last.trigger == "user:marked"

    @question
    def evidence(self, rows: Rows, run: RunKey, task_ids: Iterable[str]) -> Evidence:
        return self._evidence(rows, run, task_ids)

    def _evidence(self, rows: Rows, run: RunKey, task_ids: Iterable[str]) -> Evidence:
        generations = {
            (task.task_id, task.map_index): task.generation
            for task in self._tasks(rows, run)
            if task.state is TaskState.SUCCEEDED
        }
        wanted = set(task_ids)
        return evidence_of(
            result
            for result in rows.find(CheckpointRecord, name=RESULT, dag_id=run.dag_id, run_id=run.run_id)
            if result.task_id in wanted
            and generations.get((result.task_id, result.map_index)) == result.generation
        )


def _new_record(key: TaskKey, run: RunRecord, *, now: datetime) -> TaskRecord:
    return TaskRecord(
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        map_index=key.map_index,
        incarnation=run.incarnation,
        updated_at=now,
    )


def _place(key: TaskKey) -> dict[str, Any]:
    return {"dag_id": key.dag_id, "run_id": key.run_id, "task_id": key.task_id, "map_index": key.map_index}


def new_checkpoint(token: Token, name: str, *, now: datetime) -> CheckpointRecord:
    """The row of a value that the token's process saves; its digest is still to come."""
    return CheckpointRecord(
        dag_id=token.key.dag_id,
        run_id=token.key.run_id,
        task_id=token.key.task_id,
        map_index=token.key.map_index,
        generation=token.generation,
        name=name,
        incarnation=token.incarnation,
        digest="",
        saved_at=now,
    )


def checkpoint_binding(record: CheckpointRecord, definition_fingerprint: str) -> Mapping[str, Any]:
    """What the envelope of a checkpoint is bound to (semantics section 5)."""
    return {
        "kind": "checkpoint",
        "dag_id": record.dag_id,
        "run_id": record.run_id,
        "task_id": record.task_id,
        "map_index": record.map_index,
        "incarnation": record.incarnation,
        "generation": record.generation,
        "name": record.name,
        "definition": definition_fingerprint,
    }


def seal_binding(key: RunKey, incarnation: int) -> Mapping[str, Any]:
    """What a run's seal is bound to."""
    return {"kind": "seal", "dag_id": key.dag_id, "run_id": key.run_id, "incarnation": incarnation}


def definition_payload(definition_fingerprint: str) -> str:
    """Payload id of a definition."""
    return f"definition:{definition_fingerprint}"


def definition_binding(definition_fingerprint: str) -> Mapping[str, Any]:
    """What the envelope of a definition is bound to."""
    return {"kind": "definition", "fingerprint": definition_fingerprint}
