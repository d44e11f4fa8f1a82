"""The points where a process can be killed: what they are called, and that they do what they are told."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from louver import crash_points
from louver.effects import ACTS
from louver.errors import ConfigurationError
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.testing import crashes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "crash-points.md"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)

TAKEN = ["take_lease.before", "take_lease.inside", "take_lease.after"]


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    yield
    crashes.disarm()


def take(ledger: Ledger) -> None:
    ledger.take_lease("one", "me", lease_until=NOW, now=NOW)


def test_the_points_are_those_of_all_operations_that_write_and_of_both_acts() -> None:
    points = crashes.points()
    operations = {name for name in Ledger.__abstractmethods__ if not name.startswith("_")}
    writing = {point.rpartition(".")[0] for point in points} - set(ACTS.values())

    assert len(points) == len(set(points)) == 3 * len(writing) + 2 * len(ACTS)
    assert writing < operations
    # What is left over looks, and does not write.
    looking = ("get_", "list_", "load_", "find_", "count_", "plan_", "verify_", "survey", "evidence", "close")
    assert [name for name in sorted(operations - writing) if not name.startswith(looking)] == []


def test_the_docs_have_a_row_for_each_point_and_for_no_other() -> None:
    told = re.findall(r"^\| `([a-z_.]+)` \| \d+ \| (?:\d+|one statement) \|", PAGE.read_text(), re.MULTILINE)

    assert told == sorted(crashes.points())


def test_what_is_reached_is_recorded_in_order_and_only_meanwhile(ledger: Ledger) -> None:
    take(ledger)
    with crashes.recording() as reached:
        take(ledger)
        take(ledger)
    take(ledger)

    assert reached == [*TAKEN, *TAKEN]
    assert set(reached) <= set(crashes.points())


def test_a_question_reaches_no_point(ledger: Ledger) -> None:
    with crashes.recording() as reached:
        assert ledger.get_lease("one") is None

    assert reached == []


@pytest.mark.parametrize("hit", [1, 2, 3])
def test_something_is_done_at_one_hit_of_one_point_alone(ledger: Ledger, hit: int) -> None:
    takes, done = [0], []
    crashes.act_at("take_lease.inside", lambda: done.append(takes[0]), hit=hit)
    for _ in range(4):
        takes[0] += 1
        take(ledger)

    assert done == [hit]


def test_what_was_armed_before_is_armed_no_more(ledger: Ledger) -> None:
    done: list[str] = []
    crashes.act_at("take_lease.before", lambda: done.append("first"))
    crashes.act_at("take_lease.after", lambda: done.append("second"))
    take(ledger)
    assert done == ["second"]

    crashes.act_at("take_lease.after", lambda: done.append("third"))
    crashes.disarm()
    take(ledger)
    assert done == ["second"]


def test_what_is_raised_at_a_point_is_raised_by_the_operation(ledger: Ledger) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt() -> None:
        raise Interrupted

    crashes.act_at("take_lease.inside", interrupt)
    with pytest.raises(Interrupted):
        take(ledger)
    # Inside, so nothing of it was kept.
    assert ledger.get_lease("one") is None


@pytest.mark.parametrize(
    ("point", "hit", "said"),
    [
        ("commit_effect.behind", 1, "is no crash point; there are: accept_definition.before, "),
        ("get_lease.before", 1, "is no crash point"),
        ("take_lease.before", 0, "not 0"),
    ],
)
def test_a_point_that_nobody_reaches_cannot_be_armed(point: str, hit: int, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        crashes.kill_at(point, hit=hit)


def test_without_a_test_nothing_happens_at_a_point() -> None:
    assert crash_points._hook is None
    crash_points.reach("anything at all")


DYING = """
from datetime import datetime, timezone
from louver.ledger import open_ledger
from louver.testing import crashes

now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
crashes.kill_at("take_lease.inside", hit=2)
with open_ledger("memory://") as ledger:
    for number in range(3):
        print("taking", number, flush=True)
        ledger.take_lease("one", "me", lease_until=now, now=now)
"""


def test_a_process_is_killed_there_and_says_no_last_word() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DYING], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGKILL, "taking 0\ntaking 1\n", "")
