"""The part of the store contract for nodes that used up their retries (row W8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime

from louver.errors import ConfigurationError, require_aware
from louver.ledger.records import TaskRecord, TransitionRecord
from louver.states import FailureKind, TaskState

__all__ = ["BY_PEOPLE", "DEAD", "DeadLetter", "DeadLetterFilter", "DeadLetters"]

DEAD = (TaskState.FAILED, TaskState.LOST)
"""States of a task that nothing tries again by itself."""

BY_PEOPLE = ("approval:rejected", "user:marked")
"""By these triggers a person ended the task: nobody has to be told, and no retry was used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """
    A task that failed for good, or was lost, in one generation.

    :param end: the transition by which it did.
    :param task: as it is now.
    :param retried: it was cleared or marked since, or its run was made again; what ``task`` tells is of that.
    """

    end: TransitionRecord
    task: TaskRecord
    retried: bool

    @property
    def kind(self) -> FailureKind | None:
        """Why it failed; of one that was retried since, as far as the reason tells."""
        if not self.retried:
            return self.task.failure_kind
        if self.end.to_state is TaskState.LOST:
            return FailureKind.LOST
        said = (self.end.reason or "").partition(":")[0]
        return next((kind for kind in FailureKind if kind.value == said), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """
    Which dead letters to list, the newest first.

    :param since: that ended at that time or later.
    :param kinds: any of these; empty means all.
    :param retried: those that were retried since, too.
    :param leave_out: tasks of these names, which are no nodes.
    :param after: go on behind this one, the last one of the page before.
    :param limit: how many at most, 1 to 10,000.
    :raises ConfigurationError: for another limit, or a naive time.
    """

    dag_id: str | None = None
    run_id: str | None = None
    since: datetime | None = None
    kinds: tuple[FailureKind, ...] = ()
    retried: bool = False
    leave_out: tuple[str, ...] = ()
    after: DeadLetter | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 10_000:
            raise ConfigurationError(f"a page holds 1 to 10,000 dead letters, not {self.limit}")
        if self.since is not None:
            require_aware("since", self.since)


class DeadLetters(ABC):
    """Questions about tasks that need somebody, one query each, however many runs there are."""

    @abstractmethod
    def list_dead_letters(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """
        The tasks that failed for good or were lost, the newest end first, each generation once.

        Not those that a person ended (:data:`BY_PEOPLE`). Those of one moment are in falling order of their
        names, then of chain and version.
        """
