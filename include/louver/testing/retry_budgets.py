"""Retry budgets: one count for everybody who shares the ledger (rows T4 and O13)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from louver.errors import Superseded
from louver.ledger.names import RunKey, Token
from louver.ledger.records import RetryBudgetRecord
from louver.retry_budgets import Draw, Rate, RetryBudget, WhenEmpty
from louver.testing.scene import Scene, check

__all__ = [
    "check_draw_retry_at_once_gives_each_to_one",
    "check_draw_retry_at_once_of_several_in_any_order_gives_all_or_none",
    "check_draw_retry_by_a_superseded_process_is_refused",
    "check_draw_retry_counts_over_all_tasks_and_runs",
    "check_draw_retry_gets_them_back_one_by_one",
    "check_draw_retry_is_kept",
    "check_draw_retry_of_an_empty_budget_that_fails_takes_nothing",
    "check_draw_retry_of_an_empty_budget_waits_for_a_turn_of_its_own",
    "check_draw_retry_that_would_wait_too_long_takes_nothing",
    "check_draw_retry_under_another_rate_misses_as_many_as_before",
    "check_list_retry_budgets_shows_all_that_were_asked",
]

_LONG = timedelta(hours=1)
_ROUNDS = 5


def _budget(
    scene: Scene, rate: str, *, name: str = "api", when_empty: WhenEmpty = WhenEmpty.WAIT
) -> RetryBudget:
    """A budget that no other check has."""
    return RetryBudget(resource=f"{scene.id}-{name}", rate=Rate.parse(rate), when_empty=when_empty)


def _draw(
    scene: Scene,
    token: Token,
    budgets: Iterable[RetryBudget],
    *,
    longest_wait: timedelta = _LONG,
) -> Draw:
    return scene.ledger.draw_retry(token, budgets, longest_wait=longest_wait, now=scene.now)


def _stands(scene: Scene, budget: RetryBudget) -> RetryBudgetRecord:
    found = [row for row in scene.ledger.list_retry_budgets() if row.resource == budget.resource]
    return scene.found(next(iter(found), None), "the budget's row")


def _waits(scene: Scene, token: Token, budget: RetryBudget, times: int) -> list[float]:
    """Seconds that each of so many retries waits; all of them must be granted."""
    drawn = [_draw(scene, token, [budget]) for _ in range(times)]
    scene.equal([draw.granted for draw in drawn], [True] * times, "what is granted")
    return [draw.wait.total_seconds() for draw in drawn]


@check
def check_draw_retry_is_kept(scene: Scene) -> None:
    """A budget that is new is full; what was taken of it is missing until it is back."""
    token, budget = scene.launch("act"), _budget(scene, "20/min")

    drawn = _draw(scene, token, [budget])

    scene.equal((drawn.granted, drawn.wait), (True, timedelta(0)), "what is said")
    scene.equal([share.left for share in drawn.shares], [19], "what is left")
    expected = RetryBudgetRecord(
        resource=budget.resource,
        rate="20/min",
        full_at=scene.after(3),
        drawn=1,
        refused=0,
        updated_at=scene.now,
    )
    scene.equal(_stands(scene, budget), expected, "the row")


@check
def check_draw_retry_counts_over_all_tasks_and_runs(scene: Scene) -> None:
    """It is the resource's budget, and nobody's of those who use it."""
    budget = _budget(scene, "3/min", when_empty=WhenEmpty.FAIL)
    other = RunKey(scene.run.dag_id, "run-2")
    tokens = [scene.launch("act"), scene.launch("look"), scene.launch("act", run=other)]
    late = scene.launch("look", run=other)

    granted = [_draw(scene, token, [budget]).granted for token in (*tokens, late)]

    scene.equal(granted, [True, True, True, False], "what is granted")


@check
def check_draw_retry_gets_them_back_one_by_one(scene: Scene) -> None:
    """Evenly over the time, and never more than all of them."""
    token, budget = scene.launch("act"), _budget(scene, "2/min", when_empty=WhenEmpty.FAIL)

    def granted(times: int) -> list[bool]:
        return [_draw(scene, token, [budget]).granted for _ in range(times)]

    scene.equal(granted(3), [True, True, False], "of a full one")
    scene.tick(29.999999)
    scene.equal(granted(1), [False], "a moment before one is back")
    scene.tick(0.000001)
    scene.equal(granted(2), [True, False], "once one is back")
    scene.tick(86400)
    scene.equal(granted(3), [True, True, False], "after a long time")


@check
def check_draw_retry_of_an_empty_budget_waits_for_a_turn_of_its_own(scene: Scene) -> None:
    """Those who wait do not come back together; what comes back is theirs first."""
    token, budget = scene.launch("act"), _budget(scene, "2/min")

    scene.equal(_waits(scene, token, budget, 5), [0, 0, 30, 60, 90], "the waits")
    scene.tick(45)
    # Turns at 30, 60 and 90 s are taken; the next one is at 120 s.
    scene.equal(_waits(scene, token, budget, 2), [75, 105], "the waits of those who come later")
    scene.equal(_stands(scene, budget).drawn, 7, "how many it has let through")


@check
def check_draw_retry_of_an_empty_budget_that_fails_takes_nothing(scene: Scene) -> None:
    """Neither from it nor from another one that has some; the refusal is counted."""
    token = scene.launch("act")
    full, empty = (
        _budget(scene, "5/min", name="a"),
        _budget(scene, "1/h", name="b", when_empty=WhenEmpty.FAIL),
    )
    _draw(scene, token, [empty])
    scene.tick()

    drawn = _draw(scene, token, [full, empty])

    scene.equal((drawn.granted, drawn.wait), (False, timedelta(0)), "what is said")
    scene.holds(empty.resource in drawn.reason and "1/h" in drawn.reason, "the reason must give the figures")
    rows = [_stands(scene, budget) for budget in (full, empty)]
    scene.equal([(row.drawn, row.refused) for row in rows], [(0, 1), (1, 1)], "the counts")
    scene.equal(
        [share.left for share in _draw(scene, token, [full]).shares], [4], "what is left of the full one"
    )


@check
def check_draw_retry_that_would_wait_too_long_takes_nothing(scene: Scene) -> None:
    """The longest wait itself is allowed; a turn that nobody takes is left for the next."""
    token, budget = scene.launch("act"), _budget(scene, "1/min")
    _draw(scene, token, [budget])

    for longest, granted in ((59, False), (60, True), (119, False), (120, True)):
        drawn = _draw(scene, token, [budget], longest_wait=timedelta(seconds=longest))
        scene.equal(drawn.granted, granted, f"whether it waits, where {longest} s is the longest")
    scene.equal(_stands(scene, budget).refused, 2, "how many were refused")


@check
def check_draw_retry_under_another_rate_misses_as_many_as_before(scene: Scene) -> None:
    """Raising the rate helps at once; changing it refills nothing."""
    token = scene.launch("act")
    few, more = _budget(scene, "2/d", when_empty=WhenEmpty.FAIL), _budget(scene, "4/min")
    _draw(scene, token, [few])
    _draw(scene, token, [few])

    waits = _waits(scene, token, more, 4)

    scene.equal(waits, [0, 0, 15, 30], "the waits: two of four are missing")
    scene.equal(_stands(scene, more).rate, "4/min", "the rate that is kept")
    drawn = _draw(scene, token, [few])
    scene.equal(drawn.granted, False, "whether the old rate, come back, has one")


@check
def check_draw_retry_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """It decides nothing any more, and takes nothing."""
    budget = _budget(scene, "1/min")
    old = scene.launch("act")
    new = scene.launch("act", try_number=2)

    scene.refused(Superseded, partial(_draw, scene, old, [budget]), "a draw by the old process")

    scene.equal(_draw(scene, new, [budget]).wait, timedelta(0), "the wait of the new one")


@check
def check_draw_retry_at_once_gives_each_to_one(scene: Scene) -> None:
    """From a budget that nobody has asked before, and from one that is known."""
    other = scene.open_ledger()
    mine, its = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        budget = _budget(scene, "1/h", name=f"api-{number}", when_empty=WhenEmpty.FAIL)
        for expected in (1, 0):
            drawn = scene.all_of(
                scene.at_once(
                    partial(scene.ledger.draw_retry, mine, [budget], longest_wait=_LONG, now=scene.now),
                    partial(other.draw_retry, its, [budget], longest_wait=_LONG, now=scene.now),
                )
            )
            scene.equal(sum(draw.granted for draw in drawn), expected, "how many were granted")
            scene.tick()
        stands = _stands(scene, budget)
        scene.equal((stands.drawn, stands.refused), (1, 3), "the counts")


@check
def check_draw_retry_at_once_of_several_in_any_order_gives_all_or_none(scene: Scene) -> None:
    """Nobody gets one of two while somebody else gets the other, and nobody waits for ever."""
    other = scene.open_ledger()
    mine, its = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        pair = [_budget(scene, "1/h", name=f"{name}-{number}", when_empty=WhenEmpty.FAIL) for name in "ab"]
        drawn = scene.all_of(
            scene.at_once(
                partial(scene.ledger.draw_retry, mine, pair, longest_wait=_LONG, now=scene.now),
                partial(other.draw_retry, its, pair[::-1], longest_wait=_LONG, now=scene.now),
            )
        )
        scene.equal(sum(draw.granted for draw in drawn), 1, "how many were granted")
        scene.equal([_stands(scene, budget).drawn for budget in pair], [1, 1], "what was taken of each")
        scene.tick()


@check
def check_list_retry_budgets_shows_all_that_were_asked(scene: Scene) -> None:
    """In order of their names; looking makes none."""
    token = scene.launch("act")
    scene.equal(_of(scene), [], "before anybody has asked")
    budgets = [_budget(scene, "1/s", name=name) for name in ("b", "a", "c")]

    _draw(scene, token, budgets)

    scene.equal(_of(scene), sorted(budget.resource for budget in budgets), "their names")


def _of(scene: Scene) -> list[str]:
    rows = scene.ledger.list_retry_budgets()
    return [row.resource for row in rows if row.resource.startswith(scene.id)]
