"""Whose turn it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.ledger.names import TaskKey
from louver.permit_turns import decide, in_line
from louver.retry_budgets import Rate
from louver.semaphores import Permit, Resource, ResourceLimit, Stage, less_at_once, too_large

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


class Lines:
    """Who waits, and how many of them a decision looked at."""

    def __init__(self, permits):
        self.waiting = sorted((one for one in permits if one.stage is Stage.WAITING), key=in_line)
        self.looks = 0

    def __call__(self, name) -> Iterator[Permit]:
        for one in self.waiting:
            if name in one.needs:
                self.looks += 1
                yield one


def decided(resources, permits, *, now=NOW, **more):
    known = list(permits)
    inside = [one for one in known if one.stage is not Stage.WAITING]
    return decide(resources, inside, Lines(known), now=now, **more)


def granted(resources, *permits, now=NOW):
    return numbers(decided({one.limit.resource: one for one in resources}, permits, now=now).granted)


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
    plan = decided({}, [permit(1, api=1000), permit(2, api=1000)], touched=["api"])
    assert numbers(plan.granted) == [1, 2]


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

    before = decided(resources, [late, permit(2)], now=NOW + LEASE - timedelta(microseconds=1))
    after = decided(resources, [late, permit(2)], now=NOW + LEASE)

    assert (before.changes, before.next_at) == (False, NOW + LEASE)
    assert (numbers(after.expired), numbers(after.granted)) == ([1], [2])


def test_a_need_that_a_lowered_limit_makes_impossible_holds_nobody_up():
    plan = decided({"api": resource(limit=2)}, [permit(1, api=3), permit(2, api=2)], now=NOW)
    assert (numbers(plan.refused), numbers(plan.granted)) == ([1], [2])


def test_a_rate_lets_its_number_begin_at_once_and_then_one_by_one():
    known = resource(rate="2/min")
    plan = decided({"api": known}, [permit(1), permit(2), permit(3)], now=NOW)
    assert numbers(plan.granted) == [1, 2]
    assert plan.next_at == NOW + 30 * SECOND

    later = {"api": replace(known, full_at=plan.full_at["api"])}
    assert numbers(decided(later, [permit(3), permit(4)], now=plan.next_at).granted) == [3]


def test_units_count_for_a_rate():
    plan = decided({"api": resource(rate="10/s")}, [permit(1, api=7), permit(2, api=4)], now=NOW)
    assert numbers(plan.granted) == [1]
    assert plan.next_at == NOW + timedelta(milliseconds=100)


def test_of_those_behind_who_cannot_be_served_nobody_is_looked_at():
    line = [permit(number) for number in range(1000)]
    lines = Lines(line)
    held = permit(1001, Stage.HELD)

    nobody = decide({"api": resource(limit=1)}, [held], lines, now=NOW)
    assert (nobody.changes, lines.looks) == (False, 1)

    lines.looks = 0
    some = decide({"api": resource(limit=4)}, [held], lines, now=NOW)
    assert (numbers(some.granted), lines.looks) == ([0, 1, 2], 4)

    lines.looks = 0
    closed = decide({"api": resource(limit=0)}, [held], lines, now=NOW)
    assert (closed.changes, lines.looks) == (False, 0)


def test_a_line_that_nothing_has_to_do_with_is_not_looked_at():
    lines = Lines([permit(1, a=1), permit(2, b=1)])
    two = {"a": resource("a", limit=1), "b": resource("b", limit=1)}
    assert numbers(decide(two, [], lines, now=NOW, touched=["b"]).granted) == [2]
    assert lines.looks == 1


def test_who_waits_for_two_things_is_not_served_before_those_ahead_in_the_other_line():
    two = {"a": resource("a", limit=3), "b": resource("b", limit=2)}
    line = [permit(1, Stage.HELD, a=2), permit(2, a=2), permit(3, a=1, b=1), permit(4, b=1)]
    assert decided(two, line, touched=["b"]).granted == ()


def test_needs_that_a_lowered_limit_makes_impossible_are_found_wherever_they_stand():
    line = [permit(1), permit(2, api=2), permit(3, api=3)]
    plan = decided({"api": resource(limit=2)}, [permit(9, Stage.HELD, api=2), *line], lowered=["api"])
    assert (numbers(plan.refused), numbers(plan.granted)) == ([3], [])


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
        plan = decided(self.resources, self.permits.values(), now=self.now)
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
        assert not decided(world.resources, world.permits.values(), now=world.now).changes


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


# However little is read, it is as if all were


def by_the_rule(resources, permits, now):
    """The rule, said in full: everybody in the line, one after the other."""
    inside = [one for one in permits if one.stage is not Stage.WAITING and one.until > now]
    used = Counter()
    for one in inside:
        used.update(one.needs)
    full_at = {name: max(one.full_at, now) for name, one in resources.items()}
    kept, granted, refused = set(), [], []
    for one in sorted((one for one in permits if one.stage is Stage.WAITING), key=in_line):
        needs = {name: units for name, units in one.needs.items() if name in resources}
        limits = {name: resources[name].limit for name in needs}
        if any(
            (limit.limit and needs[name] > limit.limit) or (limit.rate and needs[name] > limit.rate.count)
            for name, limit in limits.items()
        ):
            refused.append(one)
            continue
        if any(limit.limit == 0 for limit in limits.values()):
            continue
        rated = {name: limit.rate for name, limit in limits.items() if limit.rate is not None}
        late = any(
            full_at[name] + rate.interval * needs[name] - rate.span > now for name, rate in rated.items()
        )
        fits = all(
            limit.limit is None or used[name] + needs[name] <= limit.limit for name, limit in limits.items()
        )
        first = kept.isdisjoint(needs)
        if first and not late and fits:
            granted.append(one)
            used.update(needs)
            for name, rate in rated.items():
                full_at[name] += rate.interval * needs[name]
        else:
            kept.update(rated if first and late else needs)
    return granted, refused


_LIMIT = st.one_of(
    st.fixed_dictionaries({"limit": st.integers(0, 5)}),
    st.fixed_dictionaries({"limit": st.integers(2, 5)}),
    st.fixed_dictionaries({"rate": st.sampled_from(["1/s", "3/min"])}),
    st.fixed_dictionaries({"limit": st.integers(0, 3), "rate": st.sampled_from(["2/s", "3/min"])}),
)
_ASK = st.tuples(st.just("ask"), _NEEDS, st.integers(1, 2))
_EVENTS = st.lists(
    st.one_of(
        _ASK,
        _ASK,
        _ASK,
        _ASK,
        st.tuples(st.just("give"), st.integers(0, 9), st.none()),
        st.tuples(st.just("leave"), st.integers(0, 9), st.none()),
        st.tuples(st.just("pass"), st.integers(1, 40), st.none()),
        st.tuples(st.just("set"), st.sampled_from(_NAMES), _LIMIT),
        st.tuples(st.just("unset"), st.sampled_from(_NAMES), st.none()),
    ),
    min_size=20,
    max_size=60,
)


class Watched(World):
    """The same, where each decision is told what was touched alone, and compared with the rule."""

    def carry_out(self, plan):
        for one in (*plan.expired, *plan.refused):
            del self.permits[one.task]
        for one in plan.granted:
            self.permits[one.task] = replace(one, stage=Stage.HELD, until=self.now + LEASE)
        for name, full_at in plan.full_at.items():
            self.resources[name] = replace(self.resources[name], full_at=full_at)

    def decide(self, touched, lowered=()):
        granted, refused = by_the_rule(self.resources, list(self.permits.values()), self.now)
        found = [set(), set()]
        # Then all: what only time has brought elsewhere is done by whoever looks at everything.
        for names in (touched, None):
            plan = decided(
                self.resources, self.permits.values(), now=self.now, touched=names, lowered=lowered
            )
            order = numbers(plan.granted)
            assert order == [one for one in numbers(granted) if one in order]
            found[0] |= set(order)
            found[1] |= set(numbers(plan.refused))
            self.carry_out(plan)
        assert found == [set(numbers(granted)), set(numbers(refused))]
        # Nothing is left that the rule would do.
        assert by_the_rule(self.resources, list(self.permits.values()), self.now) == ([], [])


@given(limits=st.fixed_dictionaries(dict.fromkeys(_NAMES, _LIMIT)), events=_EVENTS)
def test_what_is_decided_by_a_part_of_the_line_is_what_the_whole_line_says(limits, events):
    world = Watched({})
    world.resources = {name: resource(name, **limit) for name, limit in limits.items()}
    for what, one, other in events:
        touched, lowered = set(), set()
        if what == "ask":
            if too_large(one, {name: known.limit for name, known in world.resources.items()}):
                continue
            if not any(name in world.resources for name in one):
                continue
            touched = set(world.ask(one, other).needs)
        elif what in ("give", "leave"):
            there = [
                known
                for known in world.permits.values()
                if (known.stage is Stage.WAITING) == (what == "leave")
            ]
            if there:
                gone = world.permits.pop(there[one % len(there)].task)
                touched = set(gone.needs)
        elif what == "pass":
            world.now += one * SECOND
        elif what == "set":
            new = ResourceLimit.checked(one, **other)
            known = world.resources.get(one)
            if known is None or less_at_once(new, known.limit):
                lowered = {one}
            world.resources[one] = (
                Resource(limit=new, full_at=world.now) if known is None else known.under(new, world.now)
            )
            touched = None
        elif world.resources.pop(one, None) is not None:
            touched = {one, *world.resources}
        world.decide(touched, lowered)
