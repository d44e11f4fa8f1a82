"""Body of ``stats``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from louver.ledger.contract import Ledger
from louver.ledger.human_queue_contract import Census
from louver.ledger.records import RetryBudgetRecord
from louver_provider.cli.common import louver_command, show
from louver_provider.cli.listings import LIVE, runs_of
from louver_provider.cli.stats_definition import SECTIONS
from louver_provider.hooks.ledger import get_ledger

__all__ = ["stats"]

Row = dict[str, Any]


@louver_command
def stats(args: Namespace) -> None:
    """``airflow louver stats [SECTION]``"""
    ledger = get_ledger()
    rows = _census_rows(ledger.count_states(live=not args.all))
    rows += _budget_rows(ledger.list_retry_budgets())
    if args.section in (None, "observations"):
        rows.append(_row("observations", "persist_failures", _persist_failures(ledger)))
    wanted = SECTIONS if args.section is None else (args.section,)
    show(args, [row for section in wanted for row in rows if row["what"] == section])


def _row(what: str, state: str, count: int, *, workflow: str | None = None) -> Row:
    return {"what": what, "workflow": workflow, "state": state, "count": count}


def _census_rows(census: Census) -> list[Row]:
    counted: dict[str, Mapping[Any, int]] = {
        "tasks": census.tasks,
        "runs": census.runs,
        "effects": census.effects,
        "approvals": census.approvals,
        "commands": census.commands,
    }
    rows = [
        _row(what, str(state), count) for what, states in counted.items() for state, count in states.items()
    ]
    return rows + [
        _row("workflows", str(state), count, workflow=dag_id)
        for dag_id, states in census.workflows.items()
        for state, count in states.items()
    ]


def _budget_rows(budgets: Iterable[RetryBudgetRecord]) -> list[Row]:
    """How many retries the budgets have let through, and how many they have not."""
    return [
        _row("retries", f"{state} by {budget.resource} ({budget.rate})", count)
        for budget in budgets
        for state, count in (("let through", budget.drawn), ("refused", budget.refused))
    ]


def _persist_failures(ledger: Ledger) -> int:
    return sum(
        touch.persist_failures
        for page in runs_of(ledger, states=LIVE)
        for touch in ledger.survey(run.key for run in page).touches
    )
