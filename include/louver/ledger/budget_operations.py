"""The retry budgets of resources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from louver.ledger.names import Token
from louver.ledger.records import RetryBudgetRecord
from louver.ledger.rows import Rows
from louver.ledger.transactions import Transactional, decision, question
from louver.retry_budgets import Account, Draw, Rate, RetryBudget, draw

__all__ = ["BudgetOperations"]


class BudgetOperations(Transactional):
    """The part of the contract that concerns retry budgets."""

    @decision
    def draw_retry(
        self,
        rows: Rows,
        token: Token,
        budgets: Iterable[RetryBudget],
        *,
        longest_wait: timedelta,
        now: datetime,
    ) -> Draw:
        self._hold(rows, token)
        # In one order, so that two that need the same ones never wait for each other.
        wanted = sorted(budgets, key=lambda budget: budget.resource)
        known = [_locked(rows, budget, now) for budget in wanted]
        accounts = [
            Account(budget=budget, full_at=record.full_at).at_rate_of(Rate.parse(record.rate), now)
            for budget, record in zip(wanted, known, strict=True)
        ]
        drawn = draw(accounts, longest_wait=longest_wait, now=now)
        for record, account, share in zip(known, accounts, drawn.shares, strict=True):
            rows.update(
                replace(
                    record,
                    rate=str(account.budget.rate),
                    full_at=share.full_at if drawn.granted else account.full_at,
                    drawn=record.drawn + drawn.granted,
                    refused=record.refused + (not drawn.granted),
                    updated_at=now,
                )
            )
        return drawn

    @question
    def list_retry_budgets(self, rows: Rows) -> list[RetryBudgetRecord]:
        return rows.find(RetryBudgetRecord)


def _locked(rows: Rows, budget: RetryBudget, now: datetime) -> RetryBudgetRecord:
    """The budget's row, made where there is none; whoever makes it at the same moment waits for the other."""
    known = rows.get(RetryBudgetRecord, budget.resource)
    if known is not None:
        return known
    fresh = RetryBudgetRecord(
        resource=budget.resource,
        rate=str(budget.rate),
        full_at=now,
        drawn=0,
        refused=0,
        updated_at=now,
    )
    if rows.insert(fresh):
        return fresh
    return rows.get(RetryBudgetRecord, budget.resource) or fresh
