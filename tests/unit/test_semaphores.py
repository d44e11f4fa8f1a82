"""What resources take, and what can never be had of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from louver.errors import ConfigurationError
from louver.retry_budgets import Rate
from louver.semaphores import Resource, ResourceLimit, less_at_once, parse_resources, too_large

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


def test_another_rate_misses_as_many_as_the_one_before():
    limit = ResourceLimit(resource="api", rate=Rate.parse("2/min"))
    known = Resource(limit=limit, full_at=NOW + 60 * SECOND)
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


@pytest.mark.parametrize(
    ("limit", "before", "less"),
    [
        ({"limit": 2}, {"limit": 3}, True),
        ({"limit": 3}, {"limit": 3}, False),
        ({"limit": 3, "rate": "2/s"}, {"limit": 3}, True),
        ({"limit": 0}, {"limit": 3}, False),
        ({"limit": 3}, {"limit": 0}, True),
        ({"rate": "9/h"}, {"rate": "9/s"}, False),
    ],
)
def test_a_limit_is_less_where_a_need_cannot_be_had_any_more(limit, before, less):
    assert less_at_once(ResourceLimit.checked("api", **limit), ResourceLimit.checked("api", **before)) is less


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
