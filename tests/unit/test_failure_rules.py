"""The failure rules: the page in the docs, and the embedded engine (row T15)."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest
from support.failure_rules import (
    AGGREGATIONS,
    ENDS,
    JOINS,
    ON_FAILURE,
    Case,
    cases,
    end_as,
    rules_workflow,
    table,
)

from louver.context import TaskContext
from louver.engine.inline import run_inline
from louver.ledger import open_ledger
from louver.states import RunState, TaskState
from louver.supervision import ControlSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "failure-rules.md"
BEGIN, END = "<!-- written by tests/unit/test_failure_rules.py -->\n", "<!-- end -->\n"


def test_the_page_in_the_docs_is_what_the_rules_say() -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}{table()}\n{END}{after}"
    if os.environ.get("LOUVER_WRITE_DOCS"):
        PAGE.write_text(wanted)
    assert page == wanted, "write it anew with LOUVER_WRITE_DOCS=1"


def test_there_is_a_row_for_every_combination() -> None:
    found = {(case.aggregation, case.on_failure, case.end) for case in cases()}
    assert len(found) == len(AGGREGATIONS) * len(ON_FAILURE) * len(ENDS) == 20
    assert all(set(JOINS) <= case.states.keys() for case in cases())


def test_what_is_cancelled_cancels_nothing() -> None:
    cancelled = [case for case in cases() if case.end is TaskState.CANCELLED]
    assert {case.states["settled"] for case in cancelled} == {TaskState.SUCCEEDED}
    assert {case.run for case in cancelled} == {RunState.CANCELLED}


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.workflow}-{case.end}")
def test_the_embedded_engine_keeps_to_them(case: Case) -> None:
    run_id = f"run-{uuid4().hex[:8]}"
    with open_ledger("memory://") as ledger:

        def odd(ctx: TaskContext, end: str) -> None:
            end_as(ctx, end, ledger)

        done = run_inline(
            rules_workflow(case.aggregation, case.on_failure),
            {
                "good": lambda: None,
                "odd": odd,
                "rules:join": lambda one, two: 1,
                "rules:after": lambda given: 2,
            },
            {"end": str(case.end)},
            ledger=ledger,
            run_id=run_id,
            control=ControlSettings(control_interval=ControlSettings().control_interval * 0),
        )
    assert (dict(done.states), done.state) == (dict(case.states), case.run)
