"""What the benchmark of workflows says about what Airflow recorded; nothing is timed here."""

from __future__ import annotations

import json

import pytest
from benchmarks.workflows.report import as_json, as_table
from benchmarks.workflows.results import LOUVER, PLAIN, Results, RunTimes, Shape, aims_of


def chain(gap: float, *, steps: int = 3, closing: float = 0.0) -> RunTimes:
    """Steps of one second with a gap between them; told in another order than they ran."""
    tasks = {
        (f"step_{number}", -1): (number * (1 + gap), number * (1 + gap) + 1)
        for number in reversed(range(steps))
    }
    last = max(end for _, end in tasks.values())
    if closing:
        tasks["compensate", -1] = (last, last + closing / 2)
        tasks["outcome", -1] = (last + closing / 2, last + closing)
    return RunTimes(tasks=tasks)


def shape(*, louver: float, plain: float = 0.1) -> Shape:
    runs = {
        LOUVER: [chain(louver, closing=0.5), chain(louver, closing=0.7)],
        PLAIN: [chain(plain), chain(plain)],
    }
    return Shape(name="chain", store="SQLite", steps=3, runs=runs)


def test_closing_tasks_do_not_count_as_business() -> None:
    run = chain(0.1, closing=0.5)
    assert run.business == pytest.approx(3.2)
    assert run.closing == pytest.approx(0.5)
    assert chain(0.1).closing == 0


def test_advances_are_those_between_the_steps_in_the_order_in_which_they_ran() -> None:
    assert chain(0.1, closing=0.5).advances == pytest.approx((0.1, 0.1))


def test_the_overhead_is_against_the_plain_dag_and_spread_over_the_steps() -> None:
    found = shape(louver=0.25)
    assert found.overhead == pytest.approx(3.5 / 3.2 - 1)
    assert found.added == pytest.approx(100)
    assert found.closing == pytest.approx(0.6)


def test_aims_are_kept_and_missed() -> None:
    results = Results(
        machine={"Python": "3"},
        steps=300,
        parsed={LOUVER: [1.2, 2.6, 1.2], PLAIN: [1.0, 2.0, 1.0]},
        chains=[shape(louver=0.12)],
        fans=[shape(louver=0.3)],
    )
    verdicts = {aim.what: (round(aim.value, 2), aim.verdict) for aim in aims_of(results)}
    assert verdicts["parsing 300 steps, times plain"] == (1.2, "ok")
    assert verdicts["SQLite: from task to task"] == (0.12, "ok")
    chains = [aim.verdict for aim in aims_of(results) if aim.what == "SQLite: chain, overhead"]
    assert chains == ["ok", "MISSED"]
    table = as_table(results, aims_of(results))
    assert "1.20 times" in table
    assert json.loads(json.dumps(as_json(results, aims_of(results))))["parsed"][LOUVER] == [1.2, 2.6, 1.2]


def test_what_was_not_asked_for_has_no_aim() -> None:
    assert aims_of(Results(machine={})) == []
