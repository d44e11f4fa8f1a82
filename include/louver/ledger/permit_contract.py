"""The part of the store contract about resources with limits, and the permits of those who use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from louver.ledger.names import TaskKey, Token
from louver.ledger.records import PermitRecord, ResourceRecord
from louver.semaphores import PermitTerms, ResourceLimit, Stage

__all__ = ["PermitWatch", "Permits", "Settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of permits: :class:`louver.semaphores.Plan`."""

    granted: Sequence[PermitRecord] = ()
    expired: Sequence[PermitRecord] = ()
    refused: Sequence[PermitRecord] = ()

    @property
    def changes(self) -> bool:
        """Whether anything came, or would come, of it."""
        return bool(self.granted or self.expired or self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitWatch:
    """
    How a task that waits for a permit stands.

    :param stage: None where it stands in no line (any more).
    :param asked: somebody wants it stopped or paused.
    """

    task: TaskKey
    stage: Stage | None
    asked: bool

    @property
    def wake(self) -> bool:
        """Whether it has something to do, if only to ask again."""
        return self.asked or self.stage is not Stage.WAITING


class Permits(ABC):
    """
    One line for all runs and workers (semantics section 7).

    Whatever frees something grants it in the same transaction, by :func:`louver.semaphores.decide`.
    """

    @abstractmethod
    def take_permit(
        self,
        token: Token,
        needs: Mapping[str, int],
        *,
        limits: Mapping[str, ResourceLimit],
        priority: int,
        terms: PermitTerms,
        now: datetime,
    ) -> PermitRecord | None:
        """
        Take a permit, or a place in the line.

        Who waits already keeps its place; who was granted one takes it. What a process of the task left that
        died is this one's now, unless a rate counts each start.

        :param needs: resource to units.
        :param limits: of the configuration; they are kept for everybody, but where a command has set others.
        :returns: held or waiting; None where nothing of it has a limit.
        :raises ConfigurationError: where it needs more than there can ever be.
        """

    @abstractmethod
    def renew_permit(self, token: Token, *, terms: PermitTerms, now: datetime) -> bool:
        """Renew the lease of a permit; False where this process has none (any more)."""

    @abstractmethod
    def release_permit(
        self, key: TaskKey, *, session: int, terms: PermitTerms, now: datetime
    ) -> Settled | None:
        """
        Give a permit back, or leave the line.

        :param session: the one that asked last, as far as the caller knows; where a later one has asked
            since, nothing is done.
        :returns: what that led to; None where nothing was done.
        """

    @abstractmethod
    def settle_permits(
        self, *, limits: Mapping[str, ResourceLimit], terms: PermitTerms, now: datetime
    ) -> Settled:
        """Do what time has brought: end leases and turns, and grant what is free. Limits as for a take."""

    @abstractmethod
    def plan_permits(self, *, now: datetime) -> Settled:
        """What :meth:`settle_permits` would do, as the permits are before it; nothing is written."""

    @abstractmethod
    def list_permit_watches(self, keys: Iterable[TaskKey]) -> list[PermitWatch]:
        """How these tasks stand, in the order given."""

    @abstractmethod
    def list_permits(self) -> list[PermitRecord]:
        """All permits and places, in order of the tasks."""

    @abstractmethod
    def list_resources(self) -> list[ResourceRecord]:
        """All resources with limits, in order of their names."""

    @abstractmethod
    def set_resource(self, limit: ResourceLimit, *, by: str, terms: PermitTerms, now: datetime) -> Settled:
        """
        Set a resource's limits by command: they hold until :meth:`unset_resource`, whatever is configured.

        :param by: who does it.
        """

    @abstractmethod
    def unset_resource(
        self,
        resource: str,
        *,
        limits: Mapping[str, ResourceLimit],
        terms: PermitTerms,
        now: datetime,
    ) -> bool:
        """
        Forget a resource's limits, and go by those of the configuration; without any, everybody is let in.

        :param limits: of the configuration. They count in the same moment: nobody slips in between.
        :returns: whether there was anything to forget.
        """
