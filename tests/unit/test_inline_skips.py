"""What never ran in an embedded run is written down when the run ends, so that it can be cleaned away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock
from louver.definition import Definition, Step
from louver.engine.inline import run_inline
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.maintenance import clean_runs, verify_ledger
from louver.states import Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
S = TaskState


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


def step(name: str, **given: Any) -> Step:
    return Step(name=name, task=f"business:{name}", **given)


def fail() -> None:
    raise RuntimeError("no")


def one() -> int:
    return 1


def of(item: int) -> int:
    return item


Story = tuple[list[Step], Mapping[str, Callable[..., Any]], Mapping[tuple[str, int], tuple[TaskState, str]]]

BRANCH: Story = (
    [step("pick", branch=True), step("a", after=["pick"]), step("b", after=["pick"]), step("c", after=["b"])],
    {"pick": lambda: "a", "a": one, "b": one, "c": one},
    {
        ("b", -1): (S.SKIPPED, "a branch went another way"),
        ("c", -1): (S.SKIPPED, "join all_succeeded: b skipped"),
    },
)
EMPTY: Story = (
    [
        step("items"),
        step("each", over={"item": "items"}),
        step("again", over={"item": "each"}),
        step("after", after=["items"]),
    ],
    {"items": list, "each": of, "again": of, "after": one},
    {
        ("each", -1): (S.SKIPPED, "there is nothing to map it over"),
        ("again", -1): (S.SKIPPED, "join all_succeeded: each skipped"),
    },
)
UPSTREAM: Story = (
    [step("bad"), step("items"), step("each", over={"item": "items"}, after=["bad"])],
    {"bad": fail, "items": lambda: [1, 2], "each": of},
    {("each", -1): (S.SKIPPED, "join all_succeeded: items succeeded, bad failed")},
)
FAST: Story = (
    [step("bad"), step("items", after=["bad"]), step("each", over={"item": "items"})],
    {"bad": fail, "items": list, "each": of},
    {
        ("items", -1): (S.CANCELLED, "the workflow fails fast: bad failed"),
        ("each", -1): (S.CANCELLED, "the workflow fails fast: bad failed"),
    },
)


@pytest.mark.parametrize(
    ("story", "aggregation"),
    [
        pytest.param(BRANCH, "skip_downstream", id="a branch not taken"),
        pytest.param(EMPTY, "skip_downstream", id="nothing to map over"),
        pytest.param(UPSTREAM, "skip_downstream", id="an upstream that failed"),
        pytest.param(FAST, "fail_fast", id="failing fast"),
    ],
)
def test_a_run_with_steps_that_never_ran_is_over_and_can_be_cleaned_away(
    ledger: Ledger, story: Story, aggregation: str
) -> None:
    nodes, functions, never = story
    definition = Definition(name="work", version="1", nodes=nodes, aggregation=aggregation)
    clock = FixedClock(NOW)

    result = run_inline(definition, functions, ledger=ledger, clock=clock, run_id=RUN.run_id)

    ends = {
        (row.task_id, row.map_index): (row.to_state, row.reason)
        for row in ledger.list_transitions(RUN)
        if row.to_state in (S.SKIPPED, S.CANCELLED) and row.source is Source.ENGINE
    }
    assert ends == dict(never)
    assert {name: result.states[name] for name, _ in never} == {
        name: state for (name, _), (state, _) in never.items()
    }
    told = ledger.list_transitions(RUN)
    again = run_inline(definition, functions, ledger=ledger, clock=clock, run_id=RUN.run_id)
    assert (again.state, again.states) == (result.state, result.states)
    assert ledger.list_transitions(RUN) == told
    assert verify_ledger(ledger, limit=9).findings == ()
    cleaned = clean_runs(ledger, before=NOW + timedelta(days=400), remove=True)
    assert [one.kept for one in cleaned] == [None]
    assert ledger.get_run(RUN) is None
