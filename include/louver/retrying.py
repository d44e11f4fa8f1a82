"""
From a failure to the next attempt: the step's own policy first, then the budgets of its resources.

What does not come here: a lost process. It is no sign that a resource is in trouble, so its retry draws on no
budget (semantics section 8), nor does that of a process that had to be killed: nobody is left to put it off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from louver.errors import LedgerUnavailable
from louver.policies import RetryDecision, RetryPolicy
from louver.ports import StepRuntime
from louver.retry_budgets import Draw, RetryBudget

__all__ = ["decided_by", "draw_on"]


def draw_on(
    budgets: Collection[RetryBudget], decision: RetryDecision, *, policy: RetryPolicy, runtime: StepRuntime
) -> RetryDecision:
    """
    The decision, once the budgets have been asked about the retry that it wants.

    Where the ledger cannot be reached the retry is made uncounted. That is no way around the budget: the next
    attempt opens the ledger before any code of the step, so as long as the ledger is away the resource is
    left alone. A failure made final by an outage of the ledger would have the run undone for nothing.

    :param budgets: of the step's resources; none, where nothing is configured for them.
    :param policy: the step's; its ``max_delay`` also bounds how long a budget puts a retry off.
    :raises Superseded: where this process has been replaced.
    """
    if not decision.retry or not budgets:
        return decision
    try:
        drawn = runtime.ledger.draw_retry(
            runtime.token, budgets, longest_wait=policy.max_delay, now=runtime.now()
        )
    except LedgerUnavailable as error:
        runtime.log.tell("budget.unknown", "the retry budget could not be asked; trying again: %s", error)
        return replace(decision, reason=f"{decision.reason}; its retry budget could not be asked")
    runtime.log.tell("budget.drawn" if drawn.granted else "budget.refused", "%s", drawn.reason)
    return decided_by(drawn, decision)


def decided_by(drawn: Draw, decision: RetryDecision) -> RetryDecision:
    """The decision after what the budgets say; where they make it wait, the longer wait counts."""
    reason = f"{decision.reason}; {drawn.reason}"
    if not drawn.granted:
        return replace(decision, retry=False, delay=timedelta(0), reason=reason)
    return replace(decision, delay=max(decision.delay, drawn.wait), reason=reason)
