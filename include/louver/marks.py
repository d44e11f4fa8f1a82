"""
A mark on a function: how it is run wherever a workflow makes a step of it (row T9).

The mark is an attribute of the function and nothing more: the function stays what it was, is called as it
was, and nothing is registered anywhere. What a step says itself comes before the mark, the mark before what
the workflow says for all its steps (row W8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from louver.errors import DefinitionError
from louver.node_checks import ON_FAILURE, check_choice, texts_in
from louver.policies import RetryPolicy
from louver.timeouts import Timeouts

__all__ = ["StepMark", "mark_of", "step"]

T = TypeVar("T", bound=Callable[..., Any])

_ATTRIBUTE = "__louver_step__"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """
    What a function says of itself as a step; ``None`` where it says nothing.

    :param tags: words for people and for who groups steps.
    :param retry: how often it is tried.
    :param timeouts: how long it may take.
    :param queue: Airflow's queue.
    :param priority: Airflow's priority weight.
    :param on_failure: ``fail`` or ``continue``.
    :param resources: what it shares with others, by name, to units.
    :param compensate: the function that undoes it, or its path.
    :param on_unknown: of the effect that a step with ``compensate`` is: ``manual`` or ``retry``.
    """

    tags: tuple[str, ...] = ()
    retry: RetryPolicy | None = None
    timeouts: Timeouts | None = None
    queue: str | None = None
    priority: int | None = None
    on_failure: str | None = None
    resources: Mapping[str, int] | None = None
    compensate: Callable[..., Any] | str | None = None
    on_unknown: str | None = None


def step(
    *,
    tags: Sequence[str] = (),
    retry: RetryPolicy | None = None,
    timeouts: Timeouts | None = None,
    queue: str | None = None,
    priority: int | None = None,
    on_failure: str | None = None,
    resources: Mapping[str, int] | None = None,
    compensate: Callable[..., Any] | str | None = None,
    on_unknown: str | None = None,
) -> Callable[[T], T]:
    """
    Mark a function; it is returned as it is.

    :param tags: words for people and for who groups steps.
    :param retry: how often it is tried.
    :param timeouts: how long it may take.
    :param queue: Airflow's queue.
    :param priority: Airflow's priority weight.
    :param on_failure: ``fail`` or ``continue``.
    :param resources: what it shares with others, by name, to units.
    :param compensate: the function that undoes it, or its path; looked up when a workflow uses the mark.
    :param on_unknown: ``manual`` or ``retry``.
    :raises DefinitionError: for what can be seen to be wrong here; the rest is seen where a step is made.
    """
    mark = StepMark(
        tags=texts_in(tags, node=None, attribute="tags"),
        retry=retry,
        timeouts=timeouts,
        queue=queue,
        priority=priority,
        on_failure=on_failure,
        resources=resources,
        compensate=compensate,
        on_unknown=on_unknown,
    )
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise DefinitionError("must be a RetryPolicy", attribute="retry")
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise DefinitionError("must be Timeouts", attribute="timeouts")
    if on_failure is not None:
        check_choice(on_failure, ON_FAILURE, node=None, attribute="on_failure")

    def marked(function: T) -> T:
        if not callable(function):
            raise DefinitionError("louver.step(...) marks a function; write it as @louver.step(...)")
        if _ATTRIBUTE in getattr(function, "__dict__", {}):
            raise DefinitionError("the function is marked already; write one louver.step(...)")
        try:
            setattr(function, _ATTRIBUTE, mark)
        except AttributeError:
            raise DefinitionError("louver.step(...) cannot mark it; write a function around it") from None
        return function

    return marked


def mark_of(function: Callable[..., Any]) -> StepMark:
    """The function's mark; an empty one where it has none."""
    mark = getattr(function, _ATTRIBUTE, None)
    return mark if isinstance(mark, StepMark) else StepMark()
