"""The part of the store contract about what all runs and workers share: the retry budgets of resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime, timedelta

from louver.ledger.names import Token
from louver.ledger.records import RetryBudgetRecord
from louver.retry_budgets import Draw, RetryBudget

__all__ = ["Budgets"]


class Budgets(ABC):
    """Counts that are one for all, however many workers ask at once."""

    @abstractmethod
    def draw_retry(
        self, token: Token, budgets: Iterable[RetryBudget], *, longest_wait: timedelta, now: datetime
    ) -> Draw:
        """
        Take one retry from each of the budgets, or from none and say why: :func:`louver.retry_budgets.draw`.

        A retry that has to wait is taken all the same: the turn that it waits for is its own. A budget that
        is asked for the first time is full; one whose rate has changed misses as many as before.

        :param budgets: each resource once.
        :param longest_wait: rather than wait longer, nothing is taken.
        """

    @abstractmethod
    def list_retry_budgets(self) -> list[RetryBudgetRecord]:
        """How the budgets stand that were ever asked, in order of the resources' names."""
