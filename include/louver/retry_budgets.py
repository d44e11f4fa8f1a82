"""
Retry budgets: an outage of a resource is not amplified by everybody's retries (rows T4 and O13).

A budget is a token bucket: ``20/min`` holds 20 retries and gets one back every 3 s, so within any time ``t``
at most ``20 + t/3 s`` retries are let through. It is counted over all Dags, runs and workers, in the ledger;
here is the decision, a pure function. The bucket is kept as one moment, when it will be full again (the
"theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371): each retry moves that moment on,
also beyond the present. So whoever finds the bucket empty is given a turn of its own instead of asking again
and again, and those who wait do not come back together.

Sources of the rule: "Addressing Cascading Failures" in the SRE book (budgets for retries), Finagle's
``RetryBudget`` (a leaky token bucket).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any

from louver.errors import ConfigurationError
from louver.resources import by_resource

__all__ = ["Account", "Draw", "Rate", "RetryBudget", "Share", "WhenEmpty", "draw", "parse_retry_budgets"]

_RATE = re.compile(r"([1-9][0-9]{0,5})/(s|min|h|d)", re.ASCII)
_PERIODS = {
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_NOTHING = timedelta(0)


class WhenEmpty(str, Enum):
    """What becomes of a retry that the budget does not have."""

    WAIT = "wait"
    FAIL = "fail"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """
    So many in a time.

    :param count: 1 to 999999.
    :param unit: ``s``, ``min``, ``h`` or ``d``.
    """

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> Rate:
        """
        Read a rate as ``20/min``.

        :raises ConfigurationError: where it is none.
        """
        match = _RATE.fullmatch(text)
        if match is None:
            raise ConfigurationError(f"{text!r} is no rate; give one as 20/min, with s, min, h or d")
        return cls(count=int(match[1]), unit=match[2])

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"

    @property
    def interval(self) -> timedelta:
        """How long it takes to get one back; rounded up to a microsecond, so never too soon."""
        return -(-_PERIODS[self.unit] // self.count)

    @property
    def span(self) -> timedelta:
        """How long it takes to get all of them back."""
        return self.interval * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """
    How many retries a resource takes.

    :param resource: its name, as steps have it.
    :param when_empty: ``wait`` puts a retry off until the budget has one for it; ``fail`` makes the failure
        final.
    """

    resource: str
    rate: Rate
    when_empty: WhenEmpty = WhenEmpty.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """
    A budget, and how it stands.

    :param full_at: when all of its retries are there again; in the past where they are there.
    """

    budget: RetryBudget
    full_at: datetime

    def at_rate_of(self, before: Rate, now: datetime) -> Account:
        """
        The account under its budget's rate, where it was kept under another one.

        As many retries are missing as before, at most all of them; those that were put off until a turn under
        the other rate keep it, and are counted no more.
        """
        rate = self.budget.rate
        if before == rate:
            return self
        missing = -(-max(self.full_at - now, _NOTHING) // before.interval)
        return Account(budget=self.budget, full_at=now + rate.interval * min(missing, rate.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    What one budget has to say to a retry.

    :param left: retries that it has left, this one taken.
    :param wait: until it has this one; nothing where it has it now.
    :param full_at: of its account, this one taken.
    """

    budget: RetryBudget
    left: int
    wait: timedelta
    full_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """
    What the budgets of a step say to a retry.

    :param granted: it may be made, after ``wait``; one is taken from each. Otherwise nothing is taken.
    :param wait: the longest that one of them makes it wait.
    :param reason: with its figures, for people.
    :param shares: what each says, in order of the resources' names.
    """

    granted: bool
    wait: timedelta
    reason: str
    shares: Sequence[Share]


def draw(accounts: Iterable[Account], *, longest_wait: timedelta, now: datetime) -> Draw:
    """
    Whether a retry may be made, and when: it needs one from every budget.

    :param accounts: of the resources that the step names, as they stand.
    :param longest_wait: rather than wait longer, the retry is not made.
    """
    found = (_share(account, now) for account in accounts)
    shares = tuple(sorted(found, key=lambda share: share.budget.resource))
    slowest = max(shares, key=lambda share: share.wait, default=None)
    if slowest is None or slowest.wait <= _NOTHING:
        left = ", ".join(
            f"{share.budget.resource} has {share.left} of {share.budget.rate} left" for share in shares
        )
        return Draw(granted=True, wait=_NOTHING, reason=f"retry budget: {left}", shares=shares)
    failing = [
        share for share in shares if share.wait > _NOTHING and share.budget.when_empty is WhenEmpty.FAIL
    ]
    if failing:
        return Draw(granted=False, wait=_NOTHING, reason=_used_up(failing[0]), shares=shares)
    used_up, wait = _used_up(slowest), slowest.wait
    if wait > longest_wait:
        far = f"{used_up}: the next one is {_text(wait)} away, max_delay is {_text(longest_wait)}"
        return Draw(granted=False, wait=_NOTHING, reason=far, shares=shares)
    return Draw(granted=True, wait=wait, reason=f"{used_up}: put off by {_text(wait)}", shares=shares)


def _share(account: Account, now: datetime) -> Share:
    rate = account.budget.rate
    full_at = max(account.full_at, now) + rate.interval
    missing = full_at - now
    return Share(
        budget=account.budget,
        left=max(rate.span - missing, _NOTHING) // rate.interval,
        wait=max(missing - rate.span, _NOTHING),
        full_at=full_at,
    )


def _used_up(share: Share) -> str:
    return f"retry budget of {share.budget.resource} used up ({share.budget.rate})"


def _text(duration: timedelta) -> str:
    return f"{round(duration.total_seconds(), 1):g} s" if duration < timedelta(days=1) else f"{duration}"


def parse_retry_budgets(text: str) -> Mapping[str, RetryBudget]:
    """
    Read budgets from JSON, strictly.

    ::

        {"payments-api": "20/min", "search": {"rate": "5/s", "when_empty": "fail"}}

    :param text: empty for none.
    :returns: by resource.
    :raises ConfigurationError: naming the resource and what is wrong with it.
    """
    said = by_resource(text, example='{"payments-api": "20/min"}')
    return MappingProxyType({name: _budget(name, value) for name, value in said.items()})


def _budget(resource: str, value: Any) -> RetryBudget:
    given = {"rate": value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise ConfigurationError(f'{resource}: must be a rate as "20/min", or an object with "rate"')
    unknown = sorted(set(given) - {"rate", "when_empty"})
    if unknown:
        raise ConfigurationError(
            f"{resource}: unknown member {unknown[0][:80]!r}; there are rate and when_empty"
        )
    rate, when_empty = given.get("rate"), given.get("when_empty", str(WhenEmpty.WAIT))
    if not isinstance(rate, str):
        raise ConfigurationError(f'{resource}: rate must be text as "20/min"')
    if when_empty not in [str(choice) for choice in WhenEmpty]:
        raise ConfigurationError(f"{resource}: when_empty must be wait or fail, not {when_empty!r}")
    try:
        return RetryBudget(resource=resource, rate=Rate.parse(rate), when_empty=WhenEmpty(when_empty))
    except ConfigurationError as error:
        raise ConfigurationError(f"{resource}: {error}") from None
