"""
Policies as pure functions: an input in, a frozen decision with its reason out.

Retries live here (row T4), and how a run is compensated (case E06); timeouts in :mod:`louver.timeouts`, retry
budgets in :mod:`louver.retry_budgets`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from hashlib import blake2b

from louver import errors
from louver.errors import DefinitionError
from louver.states import FailureKind

__all__ = [
    "INFRASTRUCTURE_BUDGET",
    "ON_UNDO_FAILURE",
    "UNDO_RETRY",
    "Backoff",
    "CompensationPolicy",
    "RetryDecision",
    "RetryPolicy",
    "classify",
    "decide_retry",
]

INFRASTRUCTURE_BUDGET = 2
"""How many lost processes a step survives beyond its own retries (semantics section 8)."""

_EXCEPTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*|[A-Za-z_]\w*", re.ASCII)
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
    :param jitter: 0 to 1: each delay is made longer or shorter by up to this part of it, so that those who
        failed together do not come back together.
    :param fatal: exceptions that end the step at once, as ``package.module:Class``, or the bare name of a
        built-in one; subclasses count.
    :param retryable: where given, only these are tried again; ``fatal`` comes first.
    :raises DefinitionError: where a number is out of range, or a name no exception's; bool is no number.
    """

    max_attempts: int = 1
    delay: timedelta = timedelta(0)
    backoff: Backoff = Backoff.FIXED
    max_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.0
    fatal: Sequence[str] = ()
    retryable: Sequence[str] = ()

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= _MAX_ATTEMPTS:
            raise DefinitionError(
                f"must be a whole number from 1 to {_MAX_ATTEMPTS}", attribute="retry.max_attempts"
            )
        for name, value in (("delay", self.delay), ("max_delay", self.max_delay)):
            if not isinstance(value, timedelta) or not timedelta(0) <= value <= _MAX_DELAY:
                raise DefinitionError("must be from 0 to 30 days", attribute=f"retry.{name}_seconds")
        if type(self.jitter) not in (int, float) or not 0 <= self.jitter <= 1:
            raise DefinitionError("must be a number from 0 to 1", attribute="retry.jitter")
        for name in ("fatal", "retryable"):
            object.__setattr__(self, name, _exception_names(name, getattr(self, name)))

    def delay_after(self, failures: int, *, seed: str = "") -> timedelta:
        """
        The wait after the given number of failures (1 or more).

        :param seed: who waits; the jitter is drawn from it, so the same task waits the same time again.
        """
        # The exponent is bounded so that a long row of failures cannot overflow a timedelta.
        factor = 1 if self.backoff is Backoff.FIXED else 1 << min(failures - 1, 20)
        delay = min(self.delay * factor, self.max_delay)
        if not self.jitter:
            return delay
        drawn = int.from_bytes(blake2b(f"{seed}:{failures}".encode(), digest_size=8).digest(), "big") / 2**64
        return min(delay * (1 + self.jitter * (2 * drawn - 1)), self.max_delay)


def _exception_names(attribute: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or any(
        not isinstance(name, str) or not _EXCEPTION.fullmatch(name) for name in names
    ):
        raise DefinitionError(
            "must be a list of exceptions, as 'ValueError' or 'package.module:Class'",
            attribute=f"retry.{attribute}",
        )
    return tuple(names)


def _is_one_of(error: BaseException, names: Sequence[str]) -> bool:
    """Whether the error's class, or one that it derives from, is named."""
    return any(
        f"{kind.__module__}:{kind.__qualname__}" in names
        or (kind.__module__ == "builtins" and kind.__qualname__ in names)
        for kind in type(error).__mro__
    )


UNDO_RETRY = RetryPolicy(max_attempts=3, delay=timedelta(seconds=1))
"""How often an undo is tried, unless the workflow says otherwise."""

ON_UNDO_FAILURE = ("go_on", "stop")
"""What an undo that failed means for those that are still to come (case E06)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationPolicy:
    """
    How a run is compensated.

    :param on_failure: what follows an undo that failed after its attempts, or an effect that nobody can find
        out about. ``go_on``: the rest is undone. ``stop``: nothing more is, until a person has seen to it.
        Either way the effect waits for a person, and the run ends ``compensation_failed``.
    :param retry: how often and how soon an undo is tried again, where that is safe; its closing task waits
        meanwhile.
    :raises DefinitionError: where it is neither, or no policy.
    """

    on_failure: str = "go_on"
    retry: RetryPolicy = UNDO_RETRY

    def __post_init__(self) -> None:
        if self.on_failure not in ON_UNDO_FAILURE:
            raise DefinitionError(
                f"must be one of {', '.join(ON_UNDO_FAILURE)}", attribute="compensation.on_failure"
            )
        if not isinstance(self.retry, RetryPolicy):
            raise DefinitionError("must be a RetryPolicy", attribute="compensation.retry")

    @property
    def stops(self) -> bool:
        """Whether the first failure ends it."""
        return self.on_failure == "stop"


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


def decide_retry(
    policy: RetryPolicy, error: BaseException, *, failures: int, seed: str = ""
) -> RetryDecision:
    """
    What follows a failure.

    :param policy: the step's policy.
    :param error: what was raised.
    :param failures: failures of this generation, this one included.
    :param seed: who waits, for the jitter.
    """
    kind, retryable = classify(error)
    if not retryable:
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason="another attempt cannot help")
    if _is_one_of(error, policy.fatal):
        reason = "the step's policy calls it fatal"
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason=reason)
    if policy.retryable and kind is FailureKind.EXCEPTION and not _is_one_of(error, policy.retryable):
        reason = "the step's policy does not try it again"
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason=reason)
    if failures >= policy.max_attempts:
        reason = f"attempt {failures} of {policy.max_attempts} was the last"
        return RetryDecision(retry=False, kind=kind, delay=timedelta(0), reason=reason)
    return RetryDecision(
        retry=True,
        kind=kind,
        delay=policy.delay_after(failures, seed=seed),
        reason=f"attempt {failures} of {policy.max_attempts} failed",
    )
