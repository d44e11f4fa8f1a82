"""
Named semaphores and rate limits: what they are, and who has or wants something (semantics section 7).

A step that says ``resources={"payments-api": 1}`` needs a **permit** before its code runs. A permit is for
all that the step needs together, or for nothing: so nobody holds one thing while it waits for another, and
there is no deadlock. Whose turn it is decides :mod:`louver.permit_turns`.

A rate limit counts starts, by the generic cell rate algorithm (ITU-T I.371), as retry budgets do: ``50/min``
lets 50 begin at once and one more each 1.2 s. What has begun is counted, however long it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any

from louver.errors import ConfigurationError
from louver.ledger.names import TaskKey
from louver.resources import by_resource, problem_with
from louver.retry_budgets import Account, Rate, RetryBudget

__all__ = [
    "LARGEST_LIMIT",
    "Permit",
    "PermitTerms",
    "Resource",
    "ResourceLimit",
    "Stage",
    "less_at_once",
    "parse_resources",
    "too_large",
]

LARGEST_LIMIT = 1_000_000
"""No limit is larger."""


class Stage(str, Enum):
    """
    Where a permit stands.

    ``waiting``: in the line. ``granted``: its turn has come, and its task has been told or is about to be.
    ``held``: its task's code runs.
    """

    WAITING = "waiting"
    GRANTED = "granted"
    HELD = "held"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimit:
    """
    What a resource takes.

    :param resource: its name, as steps have it.
    :param limit: units in use at a time, 0 to 1000000; 0 lets nobody in. None is no limit.
    :param rate: units that may begin in a time; None is no limit.
    """

    resource: str
    limit: int | None = None
    rate: Rate | None = None

    def __str__(self) -> str:
        parts = ([] if self.limit is None else [f"{self.limit} at a time"]) + (
            [] if self.rate is None else [str(self.rate)]
        )
        return " and ".join(parts) or "no limit"

    @classmethod
    def checked(cls, resource: str, *, limit: Any = None, rate: Any = None) -> ResourceLimit:
        """
        A limit out of what somebody wrote.

        :raises ConfigurationError: naming the resource and what is wrong.
        """
        problem = problem_with(resource)
        if problem is not None:
            raise ConfigurationError(problem)
        if limit is None and rate is None:
            raise ConfigurationError(f"{resource}: give a limit, a rate, or both")
        if limit is not None and (type(limit) is not int or not 0 <= limit <= LARGEST_LIMIT):
            raise ConfigurationError(f"{resource}: limit must be a whole number from 0 to {LARGEST_LIMIT}")
        if rate is not None and not isinstance(rate, str):
            raise ConfigurationError(f'{resource}: rate must be text as "50/min"')
        try:
            return cls(resource=resource, limit=limit, rate=None if rate is None else Rate.parse(rate))
        except ConfigurationError as error:
            raise ConfigurationError(f"{resource}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """
    A limit, and how its rate stands.

    :param full_at: when as many may begin at once again as its rate has; in the past where they may.
    """

    limit: ResourceLimit
    full_at: datetime

    def under(self, limit: ResourceLimit, now: datetime) -> Resource:
        """The resource under another limit; of another rate as many are missing as of the one before."""
        before, rate = self.limit.rate, limit.rate
        if rate is None or before is None:
            return Resource(limit=limit, full_at=now)
        account = Account(budget=RetryBudget(resource=limit.resource, rate=rate), full_at=self.full_at)
        return Resource(limit=limit, full_at=account.at_rate_of(before, now).full_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitTerms:
    """
    How long what was given is good for.

    :param lease: a permit whose process has not renewed it for so long is free again.
    :param grant_ttl: whose turn has come and who has not begun for so long is left out.
    """

    lease: timedelta = timedelta(seconds=60)
    grant_ttl: timedelta = timedelta(seconds=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """
    What one task needs, and where that stands.

    :param needs: resource to units; all of them together.
    :param priority: who has more goes first.
    :param sequence: order of asking.
    :param until: held: the end of its lease. Granted: the end of its turn. Waiting: None.
    """

    task: TaskKey
    needs: Mapping[str, int]
    priority: int
    sequence: int
    stage: Stage
    until: datetime | None = None


def too_large(needs: Mapping[str, int], limits: Mapping[str, ResourceLimit]) -> str | None:
    """
    Why these units can never be had at once; None where they can.

    A limit of 0 refuses nobody: it is how people close a resource for a while.
    """
    for name, units in sorted(needs.items()):
        limit = limits.get(name)
        if limit is None:
            continue
        if limit.limit and units > limit.limit:
            return f"it needs {units} of {name}, which has {limit.limit}; raise the limit or need less"
        if limit.rate is not None and units > limit.rate.count:
            return f"it needs {units} of {name}, whose rate is {limit.rate}; raise the rate or need less"
    return None


def less_at_once(limit: ResourceLimit, before: ResourceLimit) -> bool:
    """Whether there may be needs that could be had before, and can never be had now."""
    return _most(limit) < _most(before)


def _most(limit: ResourceLimit) -> int:
    """The largest need of it; closed for a while, it refuses nobody by its limit."""
    by_rate = LARGEST_LIMIT if limit.rate is None else limit.rate.count
    return min(limit.limit or LARGEST_LIMIT, by_rate)


def parse_resources(text: str) -> Mapping[str, ResourceLimit]:
    """
    Read limits from JSON, strictly.

    ::

        {"payments-api": {"limit": 4, "rate": "50/min"}, "licence": 1, "search": "5/s"}

    :param text: empty for none.
    :returns: by resource.
    :raises ConfigurationError: naming the resource and what is wrong with it.
    """
    said = by_resource(text, example='{"payments-api": {"limit": 4, "rate": "50/min"}}')
    return MappingProxyType({name: _limit(name, value) for name, value in said.items()})


def _limit(resource: str, value: Any) -> ResourceLimit:
    if type(value) is int:
        return ResourceLimit.checked(resource, limit=value)
    if isinstance(value, str):
        return ResourceLimit.checked(resource, rate=value)
    if not isinstance(value, dict):
        raise ConfigurationError(
            f'{resource}: must be a limit as 4, a rate as "50/min", or an object of both'
        )
    unknown = sorted(set(value) - {"limit", "rate"})
    if unknown:
        raise ConfigurationError(f"{resource}: unknown member {unknown[0][:80]!r}; there are limit and rate")
    return ResourceLimit.checked(resource, limit=value.get("limit"), rate=value.get("rate"))
