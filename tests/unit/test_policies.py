"""Retries: how often, how soon, and what another attempt cannot mend (rows T4, T8)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver import errors
from louver.errors import DefinitionError
from louver.policies import Backoff, RetryPolicy, classify, decide_retry
from louver.states import FailureKind

SECOND = timedelta(seconds=1)
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

FATAL = [
    (errors.EffectConflict(), FailureKind.EFFECT_CONFLICT),
    (errors.EffectUnknown(), FailureKind.EFFECT_UNKNOWN),
    (errors.ApprovalRejected(), FailureKind.APPROVAL_REJECTED),
    (errors.ApprovalExpired(), FailureKind.APPROVAL_EXPIRED),
    (errors.ApprovalStale("the payload"), FailureKind.APPROVAL_STALE),
    (errors.DefinitionChanged(), FailureKind.DEFINITION_CHANGED),
    (errors.IntegrityError(), FailureKind.INTEGRITY),
    (errors.ValueRefused("$", "no"), FailureKind.RESULT_INVALID),
    (errors.EventConflict("run-1"), FailureKind.EXCEPTION),
    (errors.UpstreamUndone(), FailureKind.EXCEPTION),
    (errors.ConfigurationError(), FailureKind.EXCEPTION),
]
PASSING = [
    RuntimeError("boom"),
    errors.EffectNotPerformed(),
    errors.EffectInProgress("busy", until=NOW),
]


@pytest.mark.parametrize(
    ("changes", "attribute"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"max_attempts": 1001}, "retry.max_attempts"),
        ({"max_attempts": True}, "retry.max_attempts"),
        ({"max_attempts": 2.0}, "retry.max_attempts"),
        ({"max_attempts": "2"}, "retry.max_attempts"),
        ({"delay": -SECOND}, "retry.delay_seconds"),
        ({"delay": 5}, "retry.delay_seconds"),
        ({"delay": timedelta(days=31)}, "retry.delay_seconds"),
        ({"max_delay": -SECOND}, "retry.max_delay_seconds"),
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any], attribute: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        RetryPolicy(**changes)
    assert caught.value.attribute == attribute


def test_the_bounds_themselves_are_allowed() -> None:
    RetryPolicy(max_attempts=1, delay=timedelta(0), max_delay=timedelta(0))
    RetryPolicy(max_attempts=1000, delay=timedelta(days=30), max_delay=timedelta(days=30))


def test_fixed_and_exponential_delays() -> None:
    fixed = RetryPolicy(max_attempts=9, delay=2 * SECOND)
    doubling = RetryPolicy(
        max_attempts=9, delay=2 * SECOND, backoff=Backoff.EXPONENTIAL, max_delay=10 * SECOND
    )
    assert [fixed.delay_after(n).total_seconds() for n in (1, 2, 3, 4)] == [2, 2, 2, 2]
    assert [doubling.delay_after(n).total_seconds() for n in (1, 2, 3, 4)] == [2, 4, 8, 10]


@given(
    delay=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30)),
    bound=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30)),
    backoff=st.sampled_from(Backoff),
    failures=st.integers(min_value=1, max_value=100_000),
)
def test_a_delay_never_shrinks_and_never_passes_its_bound(
    delay: timedelta, bound: timedelta, backoff: Backoff, failures: int
) -> None:
    policy = RetryPolicy(max_attempts=2, delay=delay, backoff=backoff, max_delay=bound)
    assert policy.delay_after(failures) <= bound
    assert policy.delay_after(failures) <= policy.delay_after(failures + 1)


@pytest.mark.parametrize(("error", "kind"), FATAL, ids=lambda value: type(value).__name__)
def test_what_another_attempt_cannot_mend(error: Exception, kind: FailureKind) -> None:
    assert classify(error) == (kind, False)
    decision = decide_retry(RetryPolicy(max_attempts=5), error, failures=1)
    assert (decision.retry, decision.kind, decision.delay) == (False, kind, timedelta(0))


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_tried_again_until_the_last_attempt(error: Exception) -> None:
    policy = RetryPolicy(max_attempts=3, delay=SECOND)
    decisions = [decide_retry(policy, error, failures=failures) for failures in (1, 2, 3, 4)]
    assert [decision.retry for decision in decisions] == [True, True, False, False]
    assert {decision.kind for decision in decisions} == {FailureKind.EXCEPTION}
    assert decisions[0].delay == SECOND
    assert decisions[2].reason == "attempt 3 of 3 was the last"


@pytest.mark.parametrize("jitter", [-0.1, 1.1, True, "0.1", float("nan")])
def test_a_jitter_that_is_none_is_refused(jitter: object) -> None:
    with pytest.raises(DefinitionError, match=r"retry\.jitter"):
        RetryPolicy(jitter=jitter)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", ["ValueError", ["a b"], ["x:"], [5], ["a.b"]])
@pytest.mark.parametrize("attribute", ["fatal", "retryable"])
def test_what_is_no_exception_is_refused(attribute: str, names: object) -> None:
    with pytest.raises(DefinitionError, match=f"retry.{attribute}"):
        RetryPolicy(**{attribute: names})  # type: ignore[arg-type]


def test_jitter_stays_within_its_part_and_spreads_those_who_failed_together() -> None:
    policy = RetryPolicy(max_attempts=9, delay=timedelta(seconds=100), jitter=0.2)
    waits = [policy.delay_after(1, seed=f"run-{number}") for number in range(200)]
    assert all(timedelta(seconds=80) <= wait <= timedelta(seconds=120) for wait in waits)
    assert len(set(waits)) == 200
    assert max(waits) - min(waits) > timedelta(seconds=30)
    assert policy.delay_after(1, seed="run-0") == waits[0]
    assert policy.delay_after(2, seed="run-0") != waits[0]


def test_no_delay_is_longer_than_the_longest() -> None:
    policy = RetryPolicy(delay=timedelta(seconds=100), max_delay=timedelta(seconds=100), jitter=1)
    assert max(policy.delay_after(1, seed=str(number)) for number in range(50)) <= timedelta(seconds=100)


class Declined(ValueError):
    """The card was declined."""


@pytest.mark.parametrize(
    ("policy", "error", "retry"),
    [
        (RetryPolicy(max_attempts=2, fatal=["ValueError"]), ValueError(), False),
        (RetryPolicy(max_attempts=2, fatal=["ValueError"]), Declined(), False),
        (RetryPolicy(max_attempts=2, fatal=["ValueError"]), KeyError(), True),
        (RetryPolicy(max_attempts=2, fatal=[f"{__name__}:Declined"]), Declined(), False),
        (RetryPolicy(max_attempts=2, fatal=["other:Declined", "Declined"]), Declined(), True),
        (RetryPolicy(max_attempts=2, retryable=["OSError"]), ConnectionError(), True),
        (RetryPolicy(max_attempts=2, retryable=["OSError"]), ValueError(), False),
        (RetryPolicy(max_attempts=2, retryable=["OSError"], fatal=["TimeoutError"]), TimeoutError(), False),
    ],
)
def test_the_lists_of_exceptions(policy: RetryPolicy, error: Exception, retry: bool) -> None:
    assert decide_retry(policy, error, failures=1).retry is retry
