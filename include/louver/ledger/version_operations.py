"""Definitions that change under a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from louver.errors import DefinitionChanged
from louver.ledger.acceptance_signatures import definitions_of, sign_acceptance
from louver.ledger.names import RunKey, Token
from louver.ledger.records import AcceptanceRecord, RunRecord
from louver.ledger.requests import RunStart
from louver.ledger.rows import Rows
from louver.ledger.task_operations import TaskOperations
from louver.ledger.transactions import decision, question

__all__ = ["VersionOperations"]


class VersionOperations(TaskOperations):
    """The part of the contract about versions."""

    @decision
    def accept_definition(
        self, rows: Rows, token: Token, start: RunStart, *, instead_of: str, reason: str, now: datetime
    ) -> RunRecord:
        held = self._hold(rows, token)
        run = rows.get(RunRecord, held.dag_id, held.run_id) or self._run(rows, held.key.run)
        if run.definition_fingerprint == start.definition_fingerprint:
            return run
        accepted = self._accepted(rows, run)
        if run.definition_fingerprint != instead_of:
            raise DefinitionChanged(
                f"run {run.run_id} is under {run.definition_name} {run.definition_version} "
                f"({run.definition_fingerprint[:12]}) by now; compare with that one"
            )
        if start.definition_fingerprint in definitions_of(run, accepted):
            raise DefinitionChanged(
                f"run {run.run_id} was under {start.definition_name} {start.definition_version} and has "
                f"accepted {run.definition_version} since"
            )
        self._keep_definition(rows, start, now=now, held=True)
        record = AcceptanceRecord(
            dag_id=run.dag_id,
            run_id=run.run_id,
            incarnation=run.incarnation,
            number=len(accepted) + 1,
            from_version=run.definition_version,
            from_fingerprint=run.definition_fingerprint,
            to_version=start.definition_version,
            to_fingerprint=start.definition_fingerprint,
            reason=reason,
            task_id=held.task_id,
            map_index=held.map_index,
            process=token.process,
            source=token.source,
            accepted_at=now,
        )
        rows.insert(sign_acceptance(record, keys=self._keys))
        run = replace(
            run,
            definition_name=start.definition_name,
            definition_version=start.definition_version,
            definition_fingerprint=start.definition_fingerprint,
            updated_at=now,
        )
        rows.update(run)
        return run

    @question
    def list_acceptances(self, rows: Rows, run: RunKey) -> list[AcceptanceRecord]:
        record = rows.peek(RunRecord, run.dag_id, run.run_id)
        return [] if record is None else self._accepted(rows, record)
