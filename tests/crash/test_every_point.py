"""
A process is killed at each point that it reaches; another one goes on, and nothing has been lost or doubled.

What was seen is the table in ``docs/crash-points.md``. With ``LOUVER_WRITE_DOCS=1`` it is written anew.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from support.nursery import ChildFailed, ChildKilled, Nursery

from crash.stories import STORIES
from crash.story import Story
from louver.testing import crashes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "crash-points.md"

STORES = ("sqlite", "postgresql")

LANES = 2
"""How many cases are under way at once."""

SEEN: dict[tuple[str, str], Counter[str]] = {}
"""By store and story: how often a process was killed at each point, and another one went on well."""


@pytest.mark.parametrize("name", STORIES)
def test_a_process_killed_at_any_point_is_gone_on_from(name, store, new_place, nursery):
    lanes = [new_place() for _ in range(LANES)]
    reached, faults = nursery.call("crash.children:record", story=name, case="unharmed", **lanes[0])
    assert faults == []
    cases = part(STORIES[name], reached)

    with ThreadPoolExecutor(LANES) as pool:
        # Each lane has a ledger of its own, so that one case never waits for another.
        found = pool.map(
            lambda lane: [outcome(nursery, name, lanes[lane], *case) for case in cases[lane::LANES]],
            range(LANES),
        )
        troubles = [trouble for lane in found for trouble in lane if trouble]

    assert troubles == []
    for lane in lanes:
        assert nursery.call("crash.children:look_around", url=lane["url"]) == []
        if store == "sqlite":
            assert integrity_of(lane["url"]) == [("ok",)]
    SEEN[store, name] = Counter(point for point, _ in cases)


def part(story: Story, reached: list[str]) -> list[tuple[str, int]]:
    """
    The point and hit of each case: where processes of this story are killed.

    Between the end of one operation and the beginning of the next nothing is written and nothing is done, so
    that one case stands for both; but for the first hit of each point.
    """
    hits: Counter[str] = Counter()
    cases = []
    for point in reached:
        hits[point] += 1
        cases.append((point, hits[point]))
    first = 0 if story.killed_from is None else cases.index((story.killed_from, 1))
    end = (
        len(cases)
        if story.killed_until is None
        else cases.index((story.killed_until, hits[story.killed_until]))
    )
    return [
        (point, hit)
        for before, (point, hit) in zip(["", *reached], cases, strict=False)
        if hit == 1 or not (point.endswith(".before") and before.endswith(".after"))
        if (point, hit) in cases[first:end]
    ]


def outcome(nursery: Nursery, story: str, place: dict[str, str], point: str, hit: int) -> str | None:
    """What is wrong after a process was killed there and others have gone on; None where nothing is."""
    given = {"story": story, "case": f"{point}-{hit}", **place}
    dying = nursery.start("crash.children:play", killed_at=(point, hit), **given)
    code = dying.code()
    if code != -signal.SIGKILL:
        return f"{point}, hit {hit}: the process ended with code {code} before it came there"
    try:
        faults = nursery.call("crash.children:play", turn=2, **given)
    except (ChildFailed, ChildKilled) as error:
        faults = [str(error)]
    return f"{point}, hit {hit}: {faults}" if faults else None


def integrity_of(url: str) -> list[tuple[str]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall()


# The table


@pytest.fixture
def seen():
    """How often processes were killed, by point, and by store or story; of all of the tests above."""
    if set(SEEN) != {(store, story) for store in STORES for story in STORIES}:
        pytest.skip("only some of the stories were played")
    by_point: dict[str, Counter[str]] = {point: Counter() for point in crashes.points()}
    for (store, story), killed in SEEN.items():
        for point, times in killed.items():
            by_point[point][store] += times
            by_point[point][story] += times
    return by_point


def test_every_point_is_reached_by_some_story(seen):
    assert [point for point, times in seen.items() if not times] == []


def test_a_point_that_one_store_never_reaches_lies_inside_of_one_statement(seen):
    missing = [(store, point) for point, times in seen.items() for store in STORES if not times[store]]

    assert [
        (store, point) for store, point in missing if store != "postgresql" or ".inside" not in point
    ] == []


def test_the_table_in_the_docs_tells_what_was_seen(seen):
    rows = [row_of(point, times) for point, times in sorted(seen.items())]
    if os.environ.get("LOUVER_WRITE_DOCS"):
        write(rows)

    _, _, tables = PAGE.read_text().partition("| point |")
    told = re.findall(r"^\| (?:`|\d).*$", tables, re.MULTILINE)

    # How often is of one day; where, and in which stories, is to be true.
    assert [often(row) for row in told] == [often(row) for row in [*rows, *STORY_ROWS]]


STORY_ROWS = [f"| {number} | {story} |" for number, story in enumerate(STORIES, 1)]


def row_of(point: str, times: Counter[str]) -> str:
    cells = [str(times[store] or "one statement") for store in STORES]
    stories = " ".join(str(number) for number, story in enumerate(STORIES, 1) if times[story])
    return f"| `{point}` | {' | '.join(cells)} | {stories} |"


def often(row: str) -> str:
    return re.sub(r"^(\| `.*?` \|) (\d+|one statement) \| (?:\d+|(one statement)) \|", r"\1 \3 |", row)


def write(rows: list[str]) -> None:
    """Write the tables, which end the page, anew."""
    text, _, _ = PAGE.read_text().partition("| point |")
    tables = [
        "| point | SQLite | Postgres | stories |",
        "|---|---|---|---|",
        *rows,
        "",
        "| story | what happens in it |",
        "|---|---|",
        *STORY_ROWS,
    ]
    PAGE.write_text(text + "".join(f"{line}\n" for line in tables))
