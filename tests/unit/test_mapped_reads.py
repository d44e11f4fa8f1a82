"""What the tasks of a mapped step read of a mapped step before it: one item each, all of it if they look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock
from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.engine.inline import run_inline
from louver.errors import NoResult
from louver.inputs import gather
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey, TaskKey
from louver.sessions import Change
from louver.signing import SigningKeys
from louver.states import Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(hours=1)
RUN = RunKey("work", "run-1")
DEFINITION = Definition(
    name="work",
    version="1",
    nodes=[
        Step(name="items", task="business:items"),
        Step(name="double", task="business:double", over={"item": "items"}),
        Step(name="show", task="business:show", over={"item": "double"}, after=["items"]),
    ],
)


class Counting(MemoryLedger):
    """Counts the results that are read, by step."""

    def __init__(self) -> None:
        super().__init__(keys=SigningKeys.unsigned())
        self.read: Counter[str] = Counter()

    def load_result(self, key: TaskKey) -> Any:
        self.read[key.task_id] += 1
        return super().load_result(key)


def run(ledger: MemoryLedger, count: int, show: Callable[..., Any]) -> Any:
    tasks = {"items": lambda: list(range(count)), "double": lambda item: 2 * item, "show": show}
    return run_inline(DEFINITION, tasks, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id)


def of(item: int) -> int:
    return item


@pytest.mark.parametrize("count", [1, 8, 32])
def test_each_task_reads_the_one_item_that_is_its_own(count: int) -> None:
    ledger = Counting()
    assert run(ledger, count, of).value == [2 * item for item in range(count)]
    assert ledger.read["double"] == count


def test_who_looks_at_the_whole_list_is_shown_it() -> None:
    def look(item: int, ctx: TaskContext) -> Any:
        assert dict(ctx.upstream) == {"items": [0, 1, 2], "double": [0, 2, 4]}
        assert list(ctx.upstream) == ["double", "items"]
        assert ctx.upstream.copy() == ctx.upstream | {} == dict(ctx.upstream)
        assert "other" not in ctx.upstream
        return (item, ctx.input("double"), ctx.input("other", "none"))

    shown = run(Counting(), 3, look).value
    assert shown == [(item, [0, 2, 4], "none") for item in (0, 2, 4)]


def test_an_item_that_was_marked_by_hand_is_missing_for_its_own_task_alone() -> None:
    ledger = Counting()
    run(ledger, 3, of)
    key = TaskKey("work", RUN.run_id, "double", 1)
    record = ledger.get_task(key)
    assert record is not None
    cleared = Change(to=TaskState.PENDING, trigger="user:cleared")
    ledger.mark(key, cleared, session=record.session, source=Source.API, now=LATER)
    done = Change(to=TaskState.SUCCEEDED, trigger="user:marked")
    ledger.mark(key, done, session=record.session + 1, source=Source.API, now=LATER)
    show = DEFINITION.node("show")

    def given(index: int) -> Any:
        return gather(DEFINITION, show, TaskKey("work", RUN.run_id, "show", index), ledger)

    assert (given(0).arguments, given(2).arguments) == ({"item": 0}, {"item": 4})
    # Of the list as a whole there is nothing to show.
    assert dict(given(0).upstream) == {"items": [0, 1, 2]}
    with pytest.raises(NoResult, match=r"double\[1\] was marked as succeeded by hand"):
        given(1)
