"""Who may use a resource now, and who waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.errors import ConfigurationError
from louver.ledger.names import TaskKey
from louver.retry_budgets import Rate
from louver.semaphores import (
    Permit,
    Resource,
    ResourceLimit,
    Stage,
    decide,
    parse_resources,
    too_large,
)

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
LEASE = 30 * SECOND


def resource(name="api", limit=None, rate=None, full_at=NOW):
    parsed = None if rate is None else Rate.parse(rate)
    return Resource(limit=ResourceLimit(resource=name, limit=limit, rate=parsed), full_at=full_at)


def permit(number, stage=Stage.WAITING, *, priority=1, until=None, **needs):
    if stage is not Stage.WAITING and until is None:
        until = NOW + LEASE
    return Permit(
        task=TaskKey("dag", f"run-{number}", "act"),
        needs=needs or {"api": 1},
        priority=priority,
        sequence=number,
        stage=stage,
        until=until,
    )


def numbers(permits):
    return [one.sequence for one in permits]


def granted(resources, *permits, now=NOW):
    return numbers(decide({one.limit.resource: one for one in resources}, permits, now=now).granted)


# One decision


def test_as_many_are_served_as_there_is_in_the_order_of_asking():
    line = [permit(3), permit(1), permit(2), permit(4)]
    assert granted([resource(limit=2)], *line) == [1, 2]


def test_priority_goes_before_the_order_of_asking():
    line = [permit(1), permit(2, priority=5), permit(3, priority=5)]
    assert granted([resource(limit=2)], *line) == [2, 3]


def test_a_large_need_is_not_overtaken_by_small_ones():
    held = permit(1, Stage.HELD, api=2)
    assert granted([resource(limit=4)], held, permit(2, api=3), permit(3)) == []


def test_who_needs_two_keeps_both_from_those_behind():
    both = [resource("a", limit=1), resource("b", limit=1)]
    line = [permit(1, Stage.HELD, a=1), permit(2, a=1, b=1), permit(3, b=1)]
    assert granted(both, *line) == []
    assert granted(both, *line[1:]) == [2]


def test_what_has_no_limit_is_had_by_everybody():
    assert granted([], permit(1, api=1000), permit(2, api=1000)) == [1, 2]


def test_who_waits_for_a_closed_resource_keeps_nothing_from_others():
    both = [resource("a", limit=0), resource("b", limit=1)]
    assert granted(both, permit(1, a=1, b=1), permit(2, b=1)) == [2]


def test_who_waits_for_its_time_keeps_only_its_rate_from_others():
    both = [resource("a", rate="1/h", full_at=NOW + timedelta(hours=1)), resource("b", limit=1)]
    line = [permit(1, a=1, b=1), permit(2, b=1), permit(3, a=1)]
    assert granted(both, *line) == [2]
    # Its time has come, and the other one is in use: now it keeps that too.
    line[1] = permit(2, Stage.HELD, b=1, until=NOW + timedelta(hours=2))
    assert granted(both, *line, permit(4, b=1), now=NOW + timedelta(hours=1)) == []


def test_a_lowered_limit_drains():
    held = [permit(number, Stage.HELD) for number in range(3)]
    assert granted([resource(limit=1)], *held, permit(9)) == []
    assert granted([resource(limit=1)], permit(9)) == [9]


@pytest.mark.parametrize("stage", [Stage.HELD, Stage.GRANTED])
def test_what_has_run_out_is_free_at_that_moment_and_not_before(stage):
    late = permit(1, stage, until=NOW + LEASE)
    resources = {"api": resource(limit=1)}

    before = decide(resources, [late, permit(2)], now=NOW + LEASE - timedelta(microseconds=1))
    after = decide(resources, [late, permit(2)], now=NOW + LEASE)

    assert (before.changes, before.next_at) == (False, NOW + LEASE)
    assert (numbers(after.expired), numbers(after.granted)) == ([1], [2])


def test_a_need_that_a_lowered_limit_makes_impossible_holds_nobody_up():
    plan = decide({"api": resource(limit=2)}, [permit(1, api=3), permit(2, api=2)], now=NOW)
    assert (numbers(plan.refused), numbers(plan.granted)) == ([1], [2])


def test_a_rate_lets_its_number_begin_at_once_and_then_one_by_one():
    known = resource(rate="2/min")
    plan = decide({"api": known}, [permit(1), permit(2), permit(3)], now=NOW)
    assert numbers(plan.granted) == [1, 2]
    assert plan.next_at == NOW + 30 * SECOND

    later = {"api": replace(known, full_at=plan.full_at["api"])}
    assert numbers(decide(later, [permit(3), permit(4)], now=plan.next_at).granted) == [3]


def test_units_count_for_a_rate():
    plan = decide({"api": resource(rate="10/s")}, [permit(1, api=7), permit(2, api=4)], now=NOW)
    assert numbers(plan.granted) == [1]
    assert plan.next_at == NOW + timedelta(milliseconds=100)


def test_another_rate_misses_as_many_as_the_one_before():
    known = resource(rate="2/min", full_at=NOW + 60 * SECOND)
    changed = known.under(ResourceLimit(resource="api", rate=Rate.parse("4/h")), NOW)
    assert changed.full_at == NOW + timedelta(minutes=30)
    assert known.under(ResourceLimit(resource="api", limit=3), NOW).full_at == NOW


@pytest.mark.parametrize(
    ("limit", "units", "problem"),
    [
        ({"limit": 2}, 2, None),
        ({"limit": 2}, 3, "it needs 3 of api, which has 2; raise the limit or need less"),
        ({"limit": 0}, 3, None),
        ({"rate": "2/s"}, 3, "it needs 3 of api, whose rate is 2/s; raise the rate or need less"),
    ],
)
def test_what_can_never_be_had_is_said_with_its_figures(limit, units, problem):
    assert too_large({"api": units, "other": 99}, {"api": ResourceLimit.checked("api", **limit)}) == problem


# Whatever happens

_NAMES = "abc"
_NEEDS = st.dictionaries(st.sampled_from(_NAMES), st.integers(1, 3), min_size=1, max_size=3)
_LIMITS = st.fixed_dictionaries({name: st.integers(3, 5) for name in _NAMES})


class World:
    """Tasks that ask, hold and give back; some die."""

    def __init__(self, limits, rates=None):
        self.resources = {
            name: resource(name, limit=limit, rate=(rates or {}).get(name)) for name, limit in limits.items()
        }
        self.permits = {}
        self.now = NOW
        self.asked = 0
        self.served = []

    def ask(self, needs, priority=1):
        self.asked += 1
        new = permit(self.asked, priority=priority, **needs)
        self.permits[new.task] = new
        return new

    def give(self, index):
        inside = [one for one in self.permits.values() if one.stage is Stage.HELD]
        if inside:
            del self.permits[inside[index % len(inside)].task]

    def settle(self):
        plan = decide(self.resources, self.permits.values(), now=self.now)
        for one in (*plan.expired, *plan.refused):
            del self.permits[one.task]
        for one in plan.granted:
            self.permits[one.task] = replace(one, stage=Stage.HELD, until=self.now + LEASE)
            self.served.append((self.now, one))
        for name, full_at in plan.full_at.items():
            self.resources[name] = replace(self.resources[name], full_at=full_at)
        return plan

    def used(self):
        counted = Counter()
        for one in self.permits.values():
            if one.stage is not Stage.WAITING:
                counted.update(one.needs)
        return counted


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), _NEEDS, st.integers(1, 2)),
        st.tuples(st.just("give"), st.integers(0, 5), st.none()),
        st.tuples(st.just("pass"), st.integers(1, 20), st.none()),
    ),
    max_size=40,
)


@given(limits=_LIMITS, steps=_STEPS)
def test_there_is_never_more_in_use_than_there_is(limits, steps):
    world = World(limits)
    for what, one, other in steps:
        if what == "ask":
            world.ask(one, other)
        elif what == "give":
            world.give(one)
        else:
            world.now += one * SECOND
        world.settle()
        assert all(world.used()[name] <= limits[name] for name in limits)
        # Nothing is left undone: whoever can be served has been.
        assert not decide(world.resources, world.permits.values(), now=world.now).changes


@given(limits=_LIMITS, steps=_STEPS, needs=_NEEDS, more=st.lists(_NEEDS, max_size=30))
def test_nobody_is_overtaken_for_ever_however_many_come_later(limits, steps, needs, more):
    world = World(limits)
    for what, one, _ in steps:
        if what == "ask":
            world.ask(one)
        world.settle()
    mine = world.ask(needs)
    before_me = len(world.permits)
    for turn in range(before_me):
        # Somebody new comes each time that one gives back.
        world.ask(more[turn % len(more)] if more else needs)
        world.settle()
        world.give(0)
        world.settle()
    assert mine.task in {one.task for _, one in world.served}


@given(limits=_LIMITS, needs=st.lists(_NEEDS, min_size=1, max_size=15))
def test_all_are_served_in_the_end_without_a_deadlock(limits, needs):
    world = World(limits)
    for one in needs:
        world.ask(one)
    for _ in needs:
        world.settle()
        world.give(0)
    assert (len(world.served), world.permits) == (len(needs), {})


@given(limits=_LIMITS, needs=st.lists(_NEEDS, min_size=1, max_size=15))
def test_where_all_holders_die_their_leases_free_the_line(limits, needs):
    world = World(limits)
    for one in needs:
        world.ask(one)
    while any(one.stage is Stage.WAITING for one in world.permits.values()):
        plan = world.settle()
        if plan.next_at is not None:
            world.now = plan.next_at
    assert len(world.served) == len(needs)


@given(
    asks=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3000)), min_size=1, max_size=40),
)
def test_within_any_time_no_more_begin_than_the_rate_has(asks):
    rate = Rate.parse("3/s")
    world = World({"a": 1000}, {"a": "3/s"})
    for units, wait in asks:
        world.ask({"a": units})
        world.now += timedelta(milliseconds=wait)
        world.settle()
    while any(one.stage is Stage.WAITING for one in world.permits.values()):
        plan = world.settle()
        world.now = plan.next_at or world.now
    begun = [(at, one.needs["a"]) for at, one in world.served]
    for first, (start, _) in enumerate(begun):
        for last in range(first, len(begun)):
            units = sum(units for _, units in begun[first : last + 1])
            assert units <= rate.count + (begun[last][0] - start) / rate.interval
    assert [one.sequence for _, one in world.served] == list(range(1, len(asks) + 1))


# The setting


def test_limits_are_read_in_each_form():
    found = parse_resources('{"payments-api": {"limit": 4, "rate": "50/min"}, "licence": 1, "search": "5/s"}')
    assert {name: str(limit) for name, limit in found.items()} == {
        "payments-api": "4 at a time and 50/min",
        "licence": "1 at a time",
        "search": "5/s",
    }
    assert dict(parse_resources(" ")) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4", 'it must be a JSON object, as {"payments-api": {"limit": 4, "rate": "50/min"}}'),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a b": 1}', "'a b' cannot be a resource"),
        ('{"a": true}', "a: must be a limit as 4"),
        ('{"a": -1}', "a: limit must be a whole number from 0 to 1000000"),
        ('{"a": {"limit": 1.5}}', "a: limit must be a whole number"),
        ('{"a": {"limit": false}}', "a: limit must be a whole number"),
        ('{"a": {}}', "a: give a limit, a rate, or both"),
        ('{"a": {"rate": 5}}', 'a: rate must be text as "50/min"'),
        ('{"a": "5/week"}', "a: '5/week' is no rate"),
        ('{"a": {"limt": 1}}', "a: unknown member 'limt'; there are limit and rate"),
    ],
)
def test_what_cannot_be_a_limit_is_refused_by_name(text, words):
    with pytest.raises(ConfigurationError) as refused:
        parse_resources(text)
    assert words in str(refused.value)
