"""How far a step is, is told on every store, and never at the step's expense (rows T8 and T13)."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from fractions import Fraction

import pytest
from support.supervised import RUN, SECOND, Stage

from louver.states import TaskState


class Unit(str, Enum):
    ROWS = "rows"


class Odd:
    """Not even its own conversion works."""

    def __float__(self):
        raise RuntimeError("not now")


@pytest.fixture
def stage(ledger):
    return Stage(ledger)


def told(stage, *given, **named):
    """What the ledger has of a step that has said this, and has succeeded."""
    closing = stage.live(lambda ctx: ctx.progress(*given, **named))
    assert closing.state is TaskState.SUCCEEDED, closing.error
    touches = stage.ledger.list_touches(RUN)
    return touches[0] if touches else None


@pytest.mark.parametrize(
    ("done", "total", "unit"),
    [
        (3, 10, "rows"),
        (0.5, None, None),
        (Decimal("2.5"), Fraction(7, 2), "GiB"),
        (True, 10**18, ""),
        (1, 2, Unit.ROWS),
        (1, 2, "Zeilen äöü"),
    ],
)
def test_numbers_of_any_kind_and_a_unit_are_kept(stage, done, total, unit):
    touch = told(stage, done, total, unit)
    assert (touch.done, touch.total) == (float(done), None if total is None else float(total))
    assert touch.unit == (unit.value if isinstance(unit, Unit) else unit)
    assert touch.persist_failures == 0


@pytest.mark.parametrize("unit", ["a\0b", "\ud800", 5, b"rows", object()])
def test_a_unit_that_cannot_be_kept_is_left_out(stage, unit):
    touch = told(stage, 1, 2, unit)
    assert (touch.done, touch.total, touch.unit, touch.persist_failures) == (1.0, 2.0, None, 1)


@pytest.mark.parametrize(
    "total", ["lots", float("nan"), float("inf"), 10**400, Decimal("NaN"), object(), [1], Odd(), 1j]
)
def test_a_total_that_is_no_number_is_left_out(stage, total):
    touch = told(stage, 1, total, "rows")
    assert (touch.done, touch.total, touch.unit, touch.persist_failures) == (1.0, None, "rows", 1)


@pytest.mark.parametrize("done", ["half", None, float("nan"), float("-inf"), 10**400, Odd()])
def test_what_does_not_say_how_much_says_nothing(stage, done):
    touch = told(stage, done, 2, "rows")
    # All that is told is that something was not.
    assert (touch.done, touch.total, touch.persist_failures) == (None, None, 1)


def test_the_log_says_so_once_and_without_the_value(stage):
    def work(ctx):
        for number in range(3):
            ctx.progress(number, "4111 1111", "card\0")
            stage.clock.sleep(2 * SECOND)

    assert stage.live(work).state is TaskState.SUCCEEDED
    left_out = [line for line in stage.log.lines if "left out" in line]
    assert left_out == [
        "total of the progress is left out: it is no finite number",
        "unit of the progress is left out: text with a NUL cannot be stored",
    ]
    assert not any("4111" in line or "card" in line for line in stage.log.lines)
    (touch,) = stage.ledger.list_touches(RUN)
    assert (touch.done, touch.persist_failures) == (2.0, 6)
