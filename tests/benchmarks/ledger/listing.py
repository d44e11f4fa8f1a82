"""Questions that people ask of a full ledger: which runs are there, in what state, since when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from benchmarks.ledger.filling import BEGIN, EVERY
from benchmarks.ledger.rounds import in_turns, timed
from benchmarks.ledger.stats import Series
from louver.ledger.contract import Ledger
from louver.ledger.requests import RunFilter
from louver.states import RunState

__all__ = ["Answered", "ask_all"]

_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question, how many runs it found, and how long that took."""

    question: str
    wanted: RunFilter
    found: int
    taken: Series


def ask_all(ledger: Ledger, runs: int, *, rounds: int, count: int) -> list[Answered]:
    """Ask every question in turns."""
    asked = _questions(ledger, runs)
    taken = in_turns(
        [timed(name, _asking(ledger, wanted)) for name, wanted in asked.items()],
        rounds=rounds,
        count=count,
        warm_up=3,
    )
    return [
        Answered(question=name, wanted=wanted, found=len(ledger.list_runs(wanted)), taken=taken[name])
        for name, wanted in asked.items()
    ]


def _asking(ledger: Ledger, wanted: RunFilter) -> Callable[[int], Callable[[int], object]]:
    return lambda count: lambda number: ledger.list_runs(wanted)


def _questions(ledger: Ledger, runs: int) -> dict[str, RunFilter]:
    middle = BEGIN + runs // 2 * EVERY
    day = {"since": middle, "until": middle + timedelta(days=1)}
    return {
        "the newest": RunFilter(limit=_PAGE),
        "the newest, page 20": _page(ledger, RunFilter(limit=_PAGE), 20),
        "the oldest": RunFilter(until=BEGIN + _PAGE * EVERY, limit=_PAGE),
        "of one Dag": RunFilter(dag_id="dag-07", limit=_PAGE),
        "of one Dag, page 10": _page(ledger, RunFilter(dag_id="dag-07", limit=_PAGE), 10),
        "by a frequent state": RunFilter(states=(RunState.SUCCEEDED,), limit=_PAGE),
        "by a rare state": RunFilter(states=(RunState.RUNNING,), limit=_PAGE),
        "by a state that none has": RunFilter(states=(RunState.STOPPED,), limit=_PAGE),
        "by two states": RunFilter(states=(RunState.FAILED, RunState.WAITING_APPROVAL), limit=_PAGE),
        "of one Dag, by a rare state": RunFilter(dag_id="dag-07", states=(RunState.RUNNING,), limit=_PAGE),
        "of one Dag, by a state that none has": RunFilter(
            dag_id="dag-07", states=(RunState.STOPPED,), limit=_PAGE
        ),
        "of one day": RunFilter(**day, limit=_PAGE),
        "of one day and Dag": RunFilter(dag_id="dag-07", **day, limit=_PAGE),
        "of one day, by a rare state": RunFilter(**day, states=(RunState.RUNNING,), limit=_PAGE),
        "by its id": RunFilter(run_id=f"scheduled__{middle.isoformat()}", limit=_PAGE),
    }


def _page(ledger: Ledger, wanted: RunFilter, number: int) -> RunFilter:
    """The filter for a later page; in a ledger too small for that, for the last one that is full."""
    for _ in range(number - 1):
        found = ledger.list_runs(wanted)
        if len(found) < wanted.limit:
            break
        wanted = replace(wanted, after=found[-1])
    return wanted
