"""The part of the store contract that looks at many runs at once: what reconciling them needs (section 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from louver.ledger.names import RunKey
from louver.ledger.records import ApprovalRecord, CommandRecord, RunRecord, TaskRecord, TouchRecord

__all__ = ["Survey", "Surveys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """
    How some runs stand at one moment.

    :param tasks: those that have a record of the run as it is now.
    :param touches: their newest signs of life.
    :param commands: that are still to be carried out, in order of sending.
    :param approvals: requests that nobody has decided, in order of asking.
    """

    runs: tuple[RunRecord, ...]
    tasks: tuple[TaskRecord, ...]
    touches: tuple[TouchRecord, ...]
    commands: tuple[CommandRecord, ...]
    approvals: tuple[ApprovalRecord, ...]


class Surveys(ABC):
    """Questions about many runs, each one query for each table, however many tasks there are."""

    @abstractmethod
    def survey(self, runs: Iterable[RunKey]) -> Survey:
        """How these runs stand; those that the ledger does not know are left out."""
