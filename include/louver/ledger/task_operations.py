"""Runs, tasks, transitions, checkpoints and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.approvals import Evidence, evidence_of
from louver.errors import IntegrityError
from louver.ledger.contract import OpenedTask, RunStart
from louver.ledger.names import Decision, RunKey, TaskKey, Token
from louver.ledger.records import (
    RESULT,
    ApprovalRecord,
    CheckpointRecord,
    PayloadRecord,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.rows import Rows
from louver.ledger.transactions import Transactional
from louver.sessions import Change, Claim, apply_change, plan_opening
from louver.states import RunState, Source, TaskState

__all__ = ["TaskOperations"]


class TaskOperations(Transactional):
    """The part of the contract that concerns runs, tasks and what they save."""

    def open_run(self, start: RunStart, *, now: datetime) -> RunRecord:
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
        with self._transaction() as rows:
            self._keep_definition(rows, start, now=now)
            if rows.insert(fresh):
                return fresh
            known = self._run(rows, start.key)
            if start.marker is None or known.marker == start.marker:
                return known
            if known.marker is not None:
                fresh = replace(fresh, incarnation=known.incarnation + 1)
            rows.update(fresh)
            return fresh

    def _keep_definition(self, rows: Rows, start: RunStart, *, now: datetime) -> None:
        payload_id = _definition_payload(start.definition_fingerprint)
        if rows.peek(PayloadRecord, payload_id) is None:
            binding = _definition_binding(start.definition_fingerprint)
            self._keep(rows, payload_id, dict(start.definition), binding=binding, now=now)

    def load_definition(self, definition_fingerprint: str) -> Mapping[str, Any]:
        with self._transaction() as rows:
            payload_id = _definition_payload(definition_fingerprint)
            form = self._load(rows, payload_id, binding=_definition_binding(definition_fingerprint))
            return dict(form)

    def get_run(self, key: RunKey) -> RunRecord | None:
        with self._transaction() as rows:
            return rows.peek(RunRecord, key.dag_id, key.run_id)

    def find_runs(self, *, dag_id: str | None = None, run_id: str | None = None) -> list[RunRecord]:
        wanted = {
            name: value for name, value in (("dag_id", dag_id), ("run_id", run_id)) if value is not None
        }
        with self._transaction() as rows:
            found = rows.find(RunRecord, **wanted)
        return sorted(found, key=lambda run: run.created_at, reverse=True)

    def set_run_state(self, key: RunKey, state: RunState, *, reason: str | None, now: datetime) -> None:
        with self._transaction() as rows:
            run = self._run(rows, key)
            if (run.state, run.reason) != (state, reason):
                rows.update(replace(run, state=state, reason=reason, updated_at=now))

    def open_task(self, key: TaskKey, claim: Claim, *, now: datetime) -> OpenedTask:
        with self._transaction() as rows:
            run = self._run(rows, key.run)
            record = self._locked(rows, key, run, now=now)
            opening = plan_opening(record, claim, incarnation=run.incarnation)
            after, transitions = self._append(rows, opening.record, opening.changes, claim.source, now)
            rows.update(after)
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

    @staticmethod
    def _append(
        rows: Rows, record: TaskRecord, changes: Iterable[Change], source: Source, now: datetime
    ) -> tuple[TaskRecord, tuple[TransitionRecord, ...]]:
        written = []
        for change in changes:
            record, row = apply_change(record, change, source=source, now=now)
            rows.insert(row)
            written.append(row)
        return record, tuple(written)

    def advance(self, token: Token, *changes: Change, now: datetime) -> tuple[TransitionRecord, ...]:
        with self._transaction() as rows:
            record, written = self._append(rows, self._hold(rows, token), changes, token.source, now)
            rows.update(record)
            return written

    def complete(self, token: Token, change: Change, result: Any, *, now: datetime) -> TransitionRecord:
        with self._transaction() as rows:
            held = self._hold(rows, token)
            self._save(rows, token, RESULT, result, now)
            record, written = self._append(rows, held, [change], token.source, now)
            rows.update(record)
            return written[0]

    def mark(
        self, key: TaskKey, change: Change, *, session: int, source: Source, now: datetime
    ) -> TransitionRecord | None:
        with self._transaction() as rows:
            run = self._run(rows, key.run)
            record = self._locked(rows, key, run, now=now)
            if record.session != session:
                return None
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
            side = [row for row in rows.find(TransitionRecord, **_place(key)) if row.chain == "side"]
            after, row = apply_change(record, change, source=source, now=now, side_version=len(side) + 1)
            rows.insert(row)
            rows.update(replace(after, session=record.session + 1, nonce=None))
            if after.state.terminal:
                for request in self._pending_requests(rows, key):
                    # A task that is over waits for nobody's answer.
                    rows.update(replace(request, decision=Decision.VOID, decided_at=now))
            return row

    @staticmethod
    def _locked(rows: Rows, key: TaskKey, run: RunRecord, *, now: datetime) -> TaskRecord:
        """The task's record, made where it is new, and locked: whoever comes second waits for the first."""
        fresh = _new_record(key, run, now=now)
        rows.insert(fresh)
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

    def get_task(self, key: TaskKey) -> TaskRecord | None:
        with self._transaction() as rows:
            return rows.peek(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)

    def list_tasks(self, run: RunKey) -> list[TaskRecord]:
        with self._transaction() as rows:
            return self._tasks(rows, run)

    @staticmethod
    def _tasks(rows: Rows, run: RunKey) -> list[TaskRecord]:
        """The tasks of the run as it is now, without those of a run of this id that was deleted."""
        record = rows.peek(RunRecord, run.dag_id, run.run_id)
        found = rows.find(TaskRecord, dag_id=run.dag_id, run_id=run.run_id)
        return [task for task in found if record and task.incarnation == record.incarnation]

    def list_transitions(self, run: RunKey, *, task_id: str | None = None) -> list[TransitionRecord]:
        wanted = {"dag_id": run.dag_id, "run_id": run.run_id}
        if task_id is not None:
            wanted["task_id"] = task_id
        with self._transaction() as rows:
            found = rows.find(TransitionRecord, **wanted)
        return sorted(found, key=lambda row: (row.at, row.task_id, row.map_index, row.chain, row.version))

    def save_checkpoint(self, token: Token, name: str, value: Any, *, now: datetime) -> None:
        with self._transaction() as rows:
            self._hold(rows, token)
            self._save(rows, token, name, value, now)

    def _save(self, rows: Rows, token: Token, name: str, value: Any, now: datetime) -> None:
        key = token.key
        record = CheckpointRecord(
            dag_id=key.dag_id,
            run_id=key.run_id,
            task_id=key.task_id,
            map_index=key.map_index,
            generation=token.generation,
            name=name,
            incarnation=token.incarnation,
            digest="",
            saved_at=now,
        )
        binding = _binding(record, self._run(rows, key.run))
        digest = self._keep(rows, record.payload, value, binding=binding, now=now)
        record = replace(record, digest=digest)
        if not rows.insert(record):
            rows.update(record)

    def load_checkpoint(self, token: Token, name: str, default: Any) -> Any:
        key = token.key
        with self._transaction() as rows:
            record = rows.peek(
                CheckpointRecord, key.dag_id, key.run_id, key.task_id, key.map_index, token.generation, name
            )
            if record is None or record.incarnation != token.incarnation:
                return default
            return self._restore(rows, record)

    def _restore(self, rows: Rows, record: CheckpointRecord) -> Any:
        run = self._run(rows, RunKey(record.dag_id, record.run_id))
        return self._load(rows, record.payload, binding=_binding(record, run), digest=record.digest)

    def load_result(self, key: TaskKey) -> Any:
        with self._transaction() as rows:
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
                raise IntegrityError(f"the result of {key} is gone")
            return self._restore(rows, record)

    def evidence(self, run: RunKey, task_ids: Iterable[str]) -> Evidence:
        with self._transaction() as rows:
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


def _binding(record: CheckpointRecord, run: RunRecord) -> Mapping[str, Any]:
    return {
        "kind": "checkpoint",
        "dag_id": record.dag_id,
        "run_id": record.run_id,
        "task_id": record.task_id,
        "map_index": record.map_index,
        "incarnation": record.incarnation,
        "generation": record.generation,
        "name": record.name,
        "definition": run.definition_fingerprint,
    }


def _definition_payload(definition_fingerprint: str) -> str:
    return f"definition:{definition_fingerprint}"


def _definition_binding(definition_fingerprint: str) -> Mapping[str, Any]:
    return {"kind": "definition", "fingerprint": definition_fingerprint}
