"""What the benchmark of buckets says about its samples; nothing is timed here."""

from __future__ import annotations

import pytest
from benchmarks.buckets.creation import Creation
from benchmarks.buckets.figures import aims, longer_line, ratio, table


def creation(louver: float) -> Creation:
    """Three rounds, the second on a machine that was busy."""
    rounds = (1.0, 5.0, 1.0)
    taken = {
        name: [factor * seconds for seconds in rounds]
        for name, factor in (("none", 2.0), ("empty", 1.0), ("louver", louver))
    }
    return Creation(elapsed=taken, cpu=taken)


LINES = {"SQLite": {100: {"take": [0.001, 0.002, 0.009], "settle": [0.002]}, 1000: {"take": [0.006]}}}


def test_rounds_are_compared_with_each_other() -> None:
    assert ratio([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]) == 2.0
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("microseconds", "louver", "kept"),
    [(5.0, 2.04, [True, True]), (5.1, 2.04, [False, True]), (4.9, 2.05, [True, False])],
)
def test_an_aim_is_kept_up_to_its_limit(microseconds: float, louver: float, kept: list[bool]) -> None:
    assert [aim.kept for aim in aims({"louver": microseconds}, creation(louver), {})] == kept


def test_the_table_has_every_figure_and_verdict() -> None:
    text = table({"louver": 2.5, "airflow + empty": 1.25}, creation(3.0), LINES, tasks=10_000)
    assert "airflow + empty          1.25" in text
    assert "louver                   3.00     3.00    1.500     3.000" in text
    assert "SQLite        100 take 2.00, settle 2.00" in text
    assert "a turn on SQLite, 1000 and 100 in the line: 1.500 times" in text
    assert (text.count("  ok "), text.count("MISSED")) == (2, 1)


def test_the_longest_line_is_compared_with_the_shortest() -> None:
    assert longer_line(LINES["SQLite"]) == pytest.approx(1.5)
