"""Looking at many runs at once."""

from __future__ import annotations

from collections.abc import Iterable

from louver.ledger.names import Decision, RunKey
from louver.ledger.records import ApprovalRecord, CommandRecord, RunRecord, TaskRecord, TouchRecord
from louver.ledger.rows import Rows
from louver.ledger.survey_contract import Survey
from louver.ledger.transactions import Transactional, question

__all__ = ["SurveyOperations"]


class SurveyOperations(Transactional):
    """The part of the contract that surveys."""

    @question
    def survey(self, rows: Rows, runs: Iterable[RunKey]) -> Survey:
        wanted = sorted(set(runs))
        found = rows.of_runs(RunRecord, wanted)
        incarnations = {run.key: run.incarnation for run in found}
        commands = rows.of_runs(CommandRecord, wanted, closed_at=None)
        approvals = rows.of_runs(ApprovalRecord, wanted, decision=Decision.PENDING)
        return Survey(
            runs=tuple(found),
            tasks=tuple(
                task
                for task in rows.of_runs(TaskRecord, wanted)
                # One of a run of this id that was deleted tells nothing of the run as it is now.
                if task.incarnation == incarnations.get(task.key.run)
            ),
            touches=tuple(rows.of_runs(TouchRecord, wanted)),
            commands=tuple(sorted(commands, key=lambda command: (command.sent_at, command.command_id))),
            approvals=tuple(sorted(approvals, key=lambda asked: (asked.sequence, asked.request_id))),
        )
