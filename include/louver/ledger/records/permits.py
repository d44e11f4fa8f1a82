"""What tasks share with limits: the resources, and the permits of those who use them or wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from louver.ledger.names import TaskKey
from louver.ledger.records.base import Record
from louver.retry_budgets import Rate
from louver.semaphores import Permit, Resource, ResourceLimit, Stage

__all__ = ["LineRecord", "PermitRecord", "PlaceRecord", "ResourceRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord(Record):
    """
    A resource that has limits.

    :param capacity: units in use at a time; None is no limit.
    :param rate: units that may begin in a time, as ``50/min``; None is no limit.
    :param full_at: see :class:`louver.semaphores.Resource`.
    :param set_by: who set it by command; None where it comes from a configuration.
    """

    TABLE: ClassVar[str] = "resource"
    PRIMARY: ClassVar[tuple[str, ...]] = ("resource",)

    resource: str
    capacity: int | None
    rate: str | None
    full_at: datetime
    set_by: str | None
    updated_at: datetime

    @property
    def limit(self) -> ResourceLimit:
        """Its limits."""
        rate = None if self.rate is None else Rate.parse(self.rate)
        return ResourceLimit(resource=self.resource, limit=self.capacity, rate=rate)

    @property
    def value(self) -> Resource:
        """As the decision takes it."""
        return Resource(limit=self.limit, full_at=self.full_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRecord(Record):
    """
    What a task has of resources, or waits for.

    :param session: that of the process which asked last.
    :param process: that process, to prove its death by.
    :param needs: ``name=units`` for each resource, in order of the names.
    :param granted_at: when its turn came.
    :param until: see :class:`louver.semaphores.Permit`.
    """

    TABLE: ClassVar[str] = "permit"
    PRIMARY: ClassVar[tuple[str, ...]] = ("dag_id", "run_id", "task_id", "map_index")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    incarnation: int
    session: int
    process: str
    needs: tuple[str, ...]
    priority: int
    sequence: int
    stage: Stage
    wanted_at: datetime
    granted_at: datetime | None
    until: datetime | None

    @property
    def task(self) -> TaskKey:
        """The task."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)

    @property
    def units(self) -> Mapping[str, int]:
        """What it needs, resource to units."""
        return _units(self.needs)

    @property
    def places(self) -> tuple[PlaceRecord, ...]:
        """Its places in the lines, where it waits."""
        if self.stage is not Stage.WAITING:
            return ()
        return tuple(
            PlaceRecord(
                resource=name,
                rank=-self.priority,
                sequence=self.sequence,
                dag_id=self.dag_id,
                run_id=self.run_id,
                task_id=self.task_id,
                map_index=self.map_index,
                needs=self.needs,
            )
            for name in self.units
        )

    @property
    def value(self) -> Permit:
        """As the decision takes it."""
        return Permit(
            task=self.task,
            needs=self.units,
            priority=self.priority,
            sequence=self.sequence,
            stage=self.stage,
            until=self.until,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRecord(Record):
    """
    A task's place in the line of one resource, for as long as it waits; one for each that it needs.

    By these the first of a line is found without reading the line. They say nothing that the permits do not
    say.

    :param rank: the priority with its sign changed: who has less goes first.
    :param sequence: of the permit.
    :param needs: all that it needs, as the permit has it.
    """

    TABLE: ClassVar[str] = "place"
    PRIMARY: ClassVar[tuple[str, ...]] = ("resource", "rank", "sequence")

    resource: str
    rank: int
    sequence: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    needs: tuple[str, ...]

    @property
    def value(self) -> Permit:
        """The permit that waits, as the decision takes it."""
        return Permit(
            task=TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index),
            needs=_units(self.needs),
            priority=-self.rank,
            sequence=self.sequence,
            stage=Stage.WAITING,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRecord(Record):
    """
    The one line in which all who need a permit stand.

    Its row is what every decision about permits locks first, so that they come one after the other.

    :param last: the last number that was given out in it.
    """

    TABLE: ClassVar[str] = "line"
    PRIMARY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    last: int


def _units(needs: tuple[str, ...]) -> Mapping[str, int]:
    parts = (need.rpartition("=") for need in needs)
    return {name: int(units) for name, _, units in parts}
