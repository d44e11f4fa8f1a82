"""Looking for nodes that used up their retries."""

from __future__ import annotations

from louver.ledger.dead_letter_contract import DeadLetter, DeadLetterFilter
from louver.ledger.rows import Rows
from louver.ledger.transactions import Transactional, question

__all__ = ["DeadLetterOperations"]


class DeadLetterOperations(Transactional):
    """The part of the contract that lists dead letters."""

    @question
    def list_dead_letters(self, rows: Rows, wanted: DeadLetterFilter) -> list[DeadLetter]:
        return rows.dead_letters(wanted)
