"""``louver.step`` marks a function and does nothing else (row T9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import louver
from louver.errors import DefinitionError
from louver.marks import StepMark, mark_of, step
from louver.policies import RetryPolicy
from louver.timeouts import Timeouts

RETRY = RetryPolicy(max_attempts=4)
TIMEOUTS = Timeouts(attempt=timedelta(minutes=5))


def plain(x: int) -> int:
    return x + 1


def test_a_marked_function_is_the_same_function() -> None:
    def double(x: int) -> int:
        return 2 * x

    marked = step(tags=["bank"], retry=RETRY, timeouts=TIMEOUTS, queue="slow", resources={"bank": 1})(double)

    assert marked is double
    assert marked(3) == 6
    assert mark_of(marked) == StepMark(
        tags=("bank",), retry=RETRY, timeouts=TIMEOUTS, queue="slow", resources={"bank": 1}
    )


def test_a_function_without_a_mark_says_nothing() -> None:
    assert mark_of(plain) == StepMark()


def test_the_mark_is_there_under_the_name_that_the_product_gives_it() -> None:
    assert louver.step is step
    assert not hasattr(louver, "unheard_of")


@pytest.mark.parametrize(
    ("arguments", "attribute"),
    [
        ({"tags": "bank"}, "tags"),
        ({"retry": 3}, "retry"),
        ({"timeouts": 60}, "timeouts"),
        ({"on_failure": "ignore"}, "on_failure"),
    ],
)
def test_a_mark_that_says_nonsense_is_refused(arguments: dict[str, Any], attribute: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        step(**arguments)

    assert refused.value.attribute == attribute


def test_a_function_is_marked_once() -> None:
    def work() -> None:
        pass

    with pytest.raises(DefinitionError, match="marked already"):
        step(queue="a")(step(queue="b")(work))


def test_what_cannot_be_marked_is_said() -> None:
    with pytest.raises(DefinitionError, match="marks a function"):
        step()(5)  # type: ignore[type-var]
    with pytest.raises(DefinitionError, match="cannot mark it"):
        step()(len)
