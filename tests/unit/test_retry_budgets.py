"""Retry budgets: how they are read, what they let through, and how long they make others wait."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.errors import ConfigurationError
from louver.retry_budgets import Account, Draw, Rate, RetryBudget, WhenEmpty, draw, parse_retry_budgets

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
LONG = timedelta(days=30)


def budget(rate: str, *, name: str = "api", when_empty: WhenEmpty = WhenEmpty.WAIT) -> RetryBudget:
    return RetryBudget(resource=name, rate=Rate.parse(rate), when_empty=when_empty)


def account(rate: str, full_in: float = 0, **given: object) -> Account:
    return Account(budget=budget(rate, **given), full_at=NOW + full_in * SECOND)  # type: ignore[arg-type]


BAD_RATES = ("", "20", "0/min", "-1/min", "1.5/min", "20/m", "20/MIN", "20 / min", "020/s", "1e3/s")


# Reading


def test_a_rate_alone_and_an_object_are_read() -> None:
    found = parse_retry_budgets('{"payments-api": "20/min", "search": {"rate": "5/s", "when_empty": "fail"}}')
    assert dict(found) == {
        "payments-api": budget("20/min", name="payments-api"),
        "search": budget("5/s", name="search", when_empty=WhenEmpty.FAIL),
    }


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_nothing_is_no_budget(text: str) -> None:
    assert dict(parse_retry_budgets(text)) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("20/min", "it is not JSON: Extra data"),
        ("[1]", "it must be a JSON object"),
        ('"20/min"', "it must be a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"api": 20}', "api: must be a rate as"),
        ('{"api": null}', "api: must be a rate as"),
        ('{"api": ["20/min"]}', "api: must be a rate as"),
        ('{"api": {}}', "api: rate must be text"),
        ('{"api": {"rate": 20}}', "api: rate must be text"),
        ('{"api": {"rate": "20/min", "burst": 5}}', "api: unknown member 'burst'"),
        ('{"api": {"rate": "20/min", "when_empty": "stop"}}', "must be wait or fail, not 'stop'"),
        ('{"api": {"rate": "20/min", "when_empty": null}}', "must be wait or fail, not None"),
        ('{"api": "1/s", "api": "2/s"}', "'api' stands twice"),
        ('{"api": {"rate": "1/s", "rate": "2/s"}}', "'rate' stands twice"),
        ('{"": "1/s"}', "'' cannot be a resource"),
        ('{"a b": "1/s"}', "'a b' cannot be a resource"),
        ('{"-a": "1/s"}', "'-a' cannot be a resource"),
        *(
            (f'{{"api": "{rate}"}}', f"api: '{rate}' is no rate; give one as 20/min, with s, min, h or d")
            for rate in BAD_RATES
        ),
        ('{"api": "1000000/s"}', "'1000000/s' is no rate"),
        ('{"api": "\\u0663/s"}', "is no rate"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_retry_budgets(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "interval"),
    [("20/min", 3), ("1/d", 86400), ("7/s", 0.142858), ("3/min", 20), ("999999/s", 0.000002)],
)
def test_one_comes_back_in_equal_intervals_and_never_too_soon(text: str, interval: float) -> None:
    rate = Rate.parse(text)
    assert str(rate) == text
    assert rate.interval == timedelta(seconds=interval)
    assert rate.span >= rate.interval * rate.count


# Deciding


def test_a_full_one_lets_it_through_and_says_what_is_left() -> None:
    found = draw([account("20/min")], longest_wait=LONG, now=NOW)
    assert (found.granted, found.wait) == (True, timedelta(0))
    assert found.reason == "retry budget: api has 19 of 20/min left"


def test_an_empty_one_puts_it_off_until_its_turn() -> None:
    # All 20 are missing, and 3 more were put off already.
    found = draw([account("20/min", 69)], longest_wait=LONG, now=NOW)
    assert (found.granted, found.wait) == (True, 12 * SECOND)
    assert found.reason == "retry budget of api used up (20/min): put off by 12 s"
    assert found.shares[0].left == 0


def test_an_empty_one_that_fails_says_so() -> None:
    found = draw([account("20/min", 60, when_empty=WhenEmpty.FAIL)], longest_wait=LONG, now=NOW)
    assert (found.granted, found.wait) == (False, timedelta(0))
    assert found.reason == "retry budget of api used up (20/min)"


def test_a_turn_too_far_away_is_not_taken() -> None:
    found = draw([account("2/h", 3 * 3600)], longest_wait=timedelta(hours=1), now=NOW)
    assert found.granted is False
    assert found.reason == (
        "retry budget of api used up (2/h): the next one is 9000 s away, max_delay is 3600 s"
    )


def test_of_several_the_slowest_counts_and_one_that_fails_goes_first() -> None:
    full, slow = account("5/s", name="c"), account("1/min", 60, name="b")
    assert draw([full, slow], longest_wait=LONG, now=NOW).wait == 60 * SECOND
    failing = account("1/s", 1, name="a", when_empty=WhenEmpty.FAIL)
    found = draw([full, slow, failing], longest_wait=LONG, now=NOW)
    assert (found.granted, found.reason) == (False, "retry budget of a used up (1/s)")
    assert [share.budget.resource for share in found.shares] == ["a", "b", "c"]


def test_no_budget_lets_everything_through() -> None:
    assert draw([], longest_wait=timedelta(0), now=NOW).granted is True


RATES = st.builds(Rate, count=st.integers(1, 50), unit=st.sampled_from(["s", "min", "h", "d"]))
STEPS = st.lists(
    st.timedeltas(timedelta(0), timedelta(seconds=30)) | st.just(timedelta(0)), min_size=1, max_size=80
)


def play(rate: Rate, steps: list[timedelta], when_empty: WhenEmpty, longest: timedelta) -> list[datetime]:
    """One draw after each of these times; when the retries that were granted are made."""
    wanted = RetryBudget(resource="api", rate=rate, when_empty=when_empty)
    full_at, now, made = NOW, NOW, []
    for step in steps:
        now += step
        found: Draw = draw([Account(budget=wanted, full_at=full_at)], longest_wait=longest, now=now)
        assert 0 <= found.shares[0].left < rate.count
        assert timedelta(0) <= found.wait <= longest
        if found.granted:
            full_at = found.shares[0].full_at
            made.append(now + found.wait)
    return made


@given(
    rate=RATES,
    steps=STEPS,
    when_empty=st.sampled_from(list(WhenEmpty)),
    longest=st.timedeltas(timedelta(0), LONG),
)
def test_no_window_of_time_sees_more_than_a_full_bucket_and_what_came_back_in_it(
    rate: Rate, steps: list[timedelta], when_empty: WhenEmpty, longest: timedelta
) -> None:
    made = play(rate, steps, when_empty, longest)
    assert made == sorted(made)
    for first, begin in enumerate(made):
        for last in range(first, len(made)):
            assert last - first + 1 <= rate.count + (made[last] - begin) // rate.interval


@given(rate=RATES, steps=STEPS)
def test_who_may_wait_is_always_let_through_and_no_later_than_needed(
    rate: Rate, steps: list[timedelta]
) -> None:
    made = play(rate, steps, WhenEmpty.WAIT, timedelta(days=365))
    assert len(made) == len(steps)
    asked = NOW
    for number, (step, when) in enumerate(zip(steps, made, strict=True)):
        asked += step
        # It comes at once, or exactly when the one before that emptied the bucket lets it.
        after_the_one_before = made[number - 1] + rate.interval if number else asked
        assert when == asked or when <= max(asked, after_the_one_before)


@given(before=RATES, rate=RATES, full_in=st.timedeltas(timedelta(0), timedelta(days=40)))
def test_another_rate_refills_nothing_and_has_nobody_wait_longer_than_its_own_interval(
    before: Rate, rate: Rate, full_in: timedelta
) -> None:
    new = RetryBudget(resource="api", rate=rate)
    found = Account(budget=new, full_at=NOW + full_in).at_rate_of(before, NOW)
    missing = (found.full_at - NOW) / rate.interval
    if before == rate:
        assert found.full_at == NOW + full_in
    else:
        assert missing == min(-(-full_in // before.interval), rate.count)
        assert draw([found], longest_wait=LONG, now=NOW).wait <= rate.interval
