"""What all runs and workers share: how the budgets of resources stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from louver.ledger.records.base import Record

__all__ = ["RetryBudgetRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudgetRecord(Record):
    """
    How the retry budget of a resource stands.

    :param rate: under which ``full_at`` was reckoned, as ``20/min``.
    :param full_at: when all of its retries are there again.
    :param drawn: retries that it has let through, ever.
    :param refused: retries that it has not.
    """

    TABLE: ClassVar[str] = "retry_budget"
    PRIMARY: ClassVar[tuple[str, ...]] = ("resource",)

    resource: str
    rate: str
    full_at: datetime
    drawn: int
    refused: int
    updated_at: datetime
