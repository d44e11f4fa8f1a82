"""Listing runs, page by page, where the store says that it can (``Capability.LISTING``)."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from louver.ledger.names import RunKey
from louver.ledger.records import RunRecord
from louver.ledger.requests import Capability, RunFilter
from louver.states import RunState
from louver.testing.scene import Scene, check

__all__ = [
    "check_list_runs_by_state",
    "check_list_runs_by_time_takes_the_first_moment_and_leaves_the_last",
    "check_list_runs_of_one_moment_are_in_order_of_their_names",
    "check_list_runs_page_by_page_gives_each_once",
    "check_list_runs_page_by_page_while_runs_are_added",
    "check_list_runs_page_by_page_while_two_add_runs_at_once",
    "check_list_runs_tells_them_apart_and_the_newest_comes_first",
]

_ROUNDS = 5


def _begin(scene: Scene, run_id: str, *, dag_id: str | None = None, now: datetime | None = None) -> RunRecord:
    start = scene.start(key=RunKey(dag_id or scene.run.dag_id, run_id))
    return scene.ledger.open_run(start, now=now or scene.tick())


def _listed(scene: Scene, **wanted: Any) -> list[RunRecord]:
    """Those of this check's Dag that meet the filter."""
    return scene.ledger.list_runs(RunFilter(dag_id=scene.run.dag_id, **wanted))


def _pages(scene: Scene, *, limit: int, **wanted: Any) -> list[list[RunRecord]]:
    pages = [_listed(scene, limit=limit, **wanted)]
    while pages[-1]:
        pages.append(_listed(scene, limit=limit, after=pages[-1][-1], **wanted))
    return pages[:-1]


@check
def check_list_runs_tells_them_apart_and_the_newest_comes_first(scene: Scene) -> None:
    """Runs are found by Dag, by id, and by both."""
    if not scene.offers(Capability.LISTING):
        return
    dag_id = scene.run.dag_id
    first = scene.begin(key=RunKey(dag_id, f"z-{scene.id}"))
    second = scene.begin(key=RunKey(dag_id, f"a-{scene.id}"))
    other = scene.begin(key=RunKey(f"other-{scene.id}", f"a-{scene.id}"))

    scene.equal(scene.ledger.list_runs(RunFilter(dag_id=dag_id)), [second, first], "the runs of a Dag")
    scene.equal(
        scene.ledger.list_runs(RunFilter(run_id=f"a-{scene.id}")), [other, second], "the runs of an id"
    )
    both = scene.ledger.list_runs(RunFilter(dag_id=dag_id, run_id=f"a-{scene.id}"))
    scene.equal(both, [second], "the run of a Dag and an id")
    scene.equal(
        scene.ledger.list_runs(RunFilter(dag_id=f"none-{scene.id}")), [], "the runs of an unknown Dag"
    )
    everything = [run for run in scene.ledger.list_runs(RunFilter(limit=10_000)) if scene.id in run.run_id]
    scene.equal(everything, [other, second, first], "all runs")


@check
def check_list_runs_by_state(scene: Scene) -> None:
    """Any of the states that are named, as the runs stand now; none named means all."""
    if not scene.offers(Capability.LISTING):
        return
    for state in RunState:
        run = _begin(scene, state.value)
        scene.ledger.set_run_state(run.key, state, reason=None, now=scene.tick())

    def found(*states: RunState) -> list[str]:
        return sorted(run.run_id for run in _listed(scene, states=states))

    scene.equal(found(RunState.FAILED), ["failed"], "those of one state")
    scene.equal(found(RunState.STOPPED, RunState.FAILED), ["failed", "stopped"], "those of two states")
    scene.equal(found(), sorted(state.value for state in RunState), "all")

    changed = RunKey(scene.run.dag_id, RunState.FAILED.value)
    scene.ledger.set_run_state(changed, RunState.COMPENSATING, reason=None, now=scene.tick())
    scene.equal(found(RunState.FAILED), [], "those of a state that the run has left")
    scene.equal(found(RunState.COMPENSATING), ["compensating", "failed"], "those of its new state")


@check
def check_list_runs_by_time_takes_the_first_moment_and_leaves_the_last(scene: Scene) -> None:
    """``since`` is part of what is asked for, ``until`` is not; with a state both must hold."""
    if not scene.offers(Capability.LISTING):
        return
    runs = [_begin(scene, f"run-{number}") for number in range(4)]
    scene.ledger.set_run_state(runs[2].key, RunState.PAUSED, reason=None, now=scene.tick())
    times = [run.created_at for run in runs]

    def found(**wanted: Any) -> list[str]:
        return [run.run_id for run in _listed(scene, **wanted)]

    scene.equal(found(since=times[2]), ["run-3", "run-2"], "since the third")
    scene.equal(found(until=times[2]), ["run-1", "run-0"], "until the third")
    scene.equal(found(since=times[1], until=times[3]), ["run-2", "run-1"], "between")
    scene.equal(found(since=times[1], until=times[1]), [], "of no time")
    scene.equal(found(since=times[1], states=(RunState.PAUSED,)), ["run-2"], "by time and state")


@check
def check_list_runs_of_one_moment_are_in_order_of_their_names(scene: Scene) -> None:
    """Text is ordered by code points, falling as the times do, so that every store gives the same pages."""
    if not scene.offers(Capability.LISTING):
        return
    names = ["Z", "a", "a-1", "a1", "z", "é", "\uff5e", "\U0001f680"]
    now = scene.tick()
    for name in (*names[::2], *names[1::2]):
        _begin(scene, name, now=now)
    before = _begin(scene, "zz-before", now=scene.after(-1))
    after = _begin(scene, "0-after", now=scene.after(1))

    expected = [after.run_id, *reversed(names), before.run_id]
    scene.equal([run.run_id for run in _listed(scene)], expected, "the runs")
    pages = [[run.run_id for run in page] for page in _pages(scene, limit=2)]
    scene.equal([name for page in pages for name in page], expected, "the runs, page by page")

    for dag_id in ("one", "two"):
        _begin(scene, scene.id, dag_id=f"{dag_id}-{scene.id}", now=now)
    dags = [run.dag_id for run in scene.ledger.list_runs(RunFilter(run_id=scene.id))]
    scene.equal(dags, [f"two-{scene.id}", f"one-{scene.id}"], "runs of two Dags")


@check
def check_list_runs_page_by_page_gives_each_once(scene: Scene) -> None:
    """A page holds as many as were asked for, the last one the rest; filters hold on every page."""
    if not scene.offers(Capability.LISTING):
        return
    # Two at each moment, so that pages end between runs of one moment too.
    moments = [scene.tick() for _ in range(4)]
    runs = [
        _begin(scene, f"{number}-{name}", now=moment)
        for number, moment in enumerate(moments)
        for name in "ab"
    ]
    newest_first = list(reversed(runs))

    for limit, sizes in {1: [1] * 8, 3: [3, 3, 2], 4: [4, 4], 8: [8], 100: [8]}.items():
        pages = _pages(scene, limit=limit)
        scene.equal([len(page) for page in pages], sizes, f"the sizes of pages of {limit}")
        scene.equal([run for page in pages for run in page], newest_first, f"the runs in pages of {limit}")

    some = [run for page in _pages(scene, limit=2, since=moments[1], until=moments[3]) for run in page]
    scene.equal(some, newest_first[2:6], "those of a time, page by page")
    none = [run for page in _pages(scene, limit=3, states=(RunState.FAILED,)) for run in page]
    scene.equal(none, [], "those of a state that none has")


@check
def check_list_runs_page_by_page_while_runs_are_added(scene: Scene) -> None:
    """A page goes on behind a place in the order, whatever was added, or made again, since."""
    if not scene.offers(Capability.LISTING):
        return
    runs = [_begin(scene, f"run-{number}") for number in range(6)]

    first = _listed(scene, limit=2)
    scene.equal(first, [runs[5], runs[4]], "the first page")
    _begin(scene, "run-6")
    # The last one of that page is made again, and so it is the newest now.
    again = scene.start(key=first[-1].key, marker="another")
    scene.ledger.open_run(again, now=scene.tick())
    second = _listed(scene, limit=2, after=first[-1])
    scene.equal(second, [runs[3], runs[2]], "the second page")
    third = _listed(scene, limit=2, after=second[-1])
    scene.equal(third, [runs[1], runs[0]], "the third page")
    scene.equal(_listed(scene, limit=2, after=third[-1]), [], "the page after the last")


@check
def check_list_runs_page_by_page_while_two_add_runs_at_once(scene: Scene) -> None:
    """What was there at the first page is found once, however many runs begin meanwhile."""
    if not scene.offers(Capability.LISTING):
        return
    other = scene.open_ledger()
    runs = [_begin(scene, f"run-{number}") for number in range(6)]

    def add(number: int) -> list[RunRecord]:
        key = RunKey(scene.run.dag_id, f"new-{number}")
        return [other.open_run(scene.start(key=key), now=scene.after(1 + number))]

    def look() -> list[RunRecord]:
        return [run for page in _pages(scene, limit=2) for run in page]

    for number in range(_ROUNDS):
        found, _ = scene.all_of(scene.at_once(look, partial(add, number)))

        old = [run for run in found if run.run_id.startswith("run-")]
        scene.equal(old, list(reversed(runs)), "those that were there, in their order")
        scene.equal(len(set(found)), len(found), "how many there are, each counted once")
