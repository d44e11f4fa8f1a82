"""Emptying what a task has saved (semantics section 1)."""

from __future__ import annotations

from louver.errors import LedgerError
from louver.ledger.names import TaskKey
from louver.ledger.records import RESULT, CheckpointRecord, PayloadRecord, TaskRecord
from louver.ledger.rows import Rows, primary_of
from louver.ledger.transactions import Transactional, decision, question

__all__ = ["CheckpointOperations"]


class CheckpointOperations(Transactional):
    """The part of the contract that concerns saved states."""

    @question
    def list_states(self, rows: Rows, key: TaskKey) -> tuple[str, ...]:
        record = rows.peek(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        return tuple(saved.name for saved in self._saved(rows, record))

    @decision
    def reset_states(self, rows: Rows, key: TaskKey) -> tuple[str, ...]:
        # Locked: a process that saves at this moment is done before, or saves after it.
        record = rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        saved = self._saved(rows, record)
        if record is not None and record.state.terminal:
            raise LedgerError(
                f"{key} is {record.state}: nobody reads what it saved. To run it again, clear it in Airflow; "
                "it begins with no state then"
            )
        rows.discard(CheckpointRecord, [primary_of(one) for one in saved])
        rows.discard(PayloadRecord, [(one.payload,) for one in saved])
        return tuple(one.name for one in saved)

    def _saved(self, rows: Rows, record: TaskRecord | None) -> list[CheckpointRecord]:
        if record is None or record.incarnation != self._run(rows, record.key.run).incarnation:
            return []
        found = rows.find(
            CheckpointRecord,
            dag_id=record.dag_id,
            run_id=record.run_id,
            task_id=record.task_id,
            map_index=record.map_index,
            generation=record.generation,
            incarnation=record.incarnation,
        )
        return [saved for saved in found if saved.name != RESULT]
