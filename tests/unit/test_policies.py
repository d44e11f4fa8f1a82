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
