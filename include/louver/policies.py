"""
Policies as pure functions: an input in, a frozen decision with its reason out.

Retries live here. Timeouts, jitter, exception lists and retry budgets (rows T4, T5) have their place here
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from louver import errors
from louver.errors import DefinitionError
from louver.states import FailureKind

__all__ = [
    "INFRASTRUCTURE_BUDGET",
    "Backoff",
    "RetryDecision",
    "RetryPolicy",
    "classify",
    "decide_retry",
]

INFRASTRUCTURE_BUDGET = 2
"""How many lost processes a step survives beyond its own retries (semantics section 8)."""

_MAX_ATTEMPTS = 1000
_MAX_DELAY = timedelta(days=30)

# What another attempt cannot mend: the same input leads to the same refusal.
_FATAL: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (errors.EffectConflict, FailureKind.EFFECT_CONFLICT),
    (errors.EffectUnknown, FailureKind.EFFECT_UNKNOWN),
    (errors.ApprovalRejected, FailureKind.APPROVAL_REJECTED),
    (errors.ApprovalExpired, FailureKind.APPROVAL_EXPIRED),
    (errors.ApprovalStale, FailureKind.APPROVAL_STALE),
    (errors.DefinitionChanged, FailureKind.DEFINITION_CHANGED),
    (errors.IntegrityError, FailureKind.INTEGRITY),
    (errors.ValueRefused, FailureKind.RESULT_INVALID),
    (errors.DefinitionError, FailureKind.EXCEPTION),
    (errors.ConfigurationError, FailureKind.EXCEPTION),
    (errors.EventRejected, FailureKind.EXCEPTION),
    (errors.CompensationFailed, FailureKind.EXCEPTION),
    (errors.UpstreamUndone, FailureKind.EXCEPTION),
    (errors.TaskCancelled, FailureKind.EXCEPTION),
)


class Backoff(str, Enum):
    """How the delay grows from one retry to the next."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    How often and how soon a failed step is tried again.

    :param max_attempts: 1 to 1000, the first one included; lost processes are counted apart.
    :param delay: before the first retry; 0 to 30 days.
    :param backoff: ``fixed``, or ``exponential``, which doubles the delay each time.
    :param max_delay: upper bound of a single delay.
    :raises DefinitionError: where a number is out of range; bool is no number.
    """

    max_attempts: int = 1
    delay: timedelta = timedelta(0)
    backoff: Backoff = Backoff.FIXED
    max_delay: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= _MAX_ATTEMPTS:
            raise DefinitionError(
                f"must be a whole number from 1 to {_MAX_ATTEMPTS}", attribute="retry.max_attempts"
            )
        for name, value in (("delay", self.delay), ("max_delay", self.max_delay)):
            if not isinstance(value, timedelta) or not timedelta(0) <= value <= _MAX_DELAY:
                raise DefinitionError("must be from 0 to 30 days", attribute=f"retry.{name}_seconds")

    def delay_after(self, failures: int) -> timedelta:
        """The wait after the given number of failures (1 or more)."""
        if self.backoff is Backoff.FIXED:
            return min(self.delay, self.max_delay)
        # The exponent is bounded so that a long row of failures cannot overflow a timedelta.
        return min(self.delay * (1 << min(failures - 1, 20)), self.max_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """
    Whether to try again.

    :param retry: True for another attempt.
    :param kind: the failure kind, for the audit trail.
    :param delay: the wait before it.
    :param reason: why, for people.
    """

    retry: bool
    kind: FailureKind
    delay: timedelta
    reason: str


def classify(error: BaseException) -> tuple[FailureKind, bool]:
    """The failure kind of an error, and whether another attempt could help."""
    for kind_of_error, kind in _FATAL:
        if isinstance(error, kind_of_error):
            return kind, False
    if isinstance(error, errors.TimeoutReached) and error.overrun is not None:
        return FailureKind(error.overrun.kind), True
    return FailureKind.EXCEPTION, True


def decide_retry(policy: RetryPolicy, error: BaseException, *, failures: int) -> RetryDecision:
    """
    What follows a failure.

    :param policy: the step's policy.
    :param error: what was raised.
    :param failures: failures of this generation, this one included.
    """
    kind, retryable = classify(error)
    if not retryable:
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason="another attempt cannot help")
    if failures >= policy.max_attempts:
        reason = f"attempt {failures} of {policy.max_attempts} was the last"
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason=reason)
    return RetryDecision(
        retry=True,
        kind=kind,
        delay=policy.delay_after(failures),
        reason=f"attempt {failures} of {policy.max_attempts} failed",
    )
