"""The part of the store contract that keeps a ledger whole and small: verifying, collecting, cleaning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from louver.ledger.findings import Cleaned, Orphan, OrphanPage, StandingPage, Verdict
from louver.ledger.names import RunKey
from louver.ledger.records import EffectRecord

__all__ = ["Maintenance"]


class Maintenance(ABC):
    """
    What :mod:`louver.maintenance` drives, by pages, so that a ledger of any size needs little memory and no
    long transaction.
    """

    # Verifying

    @abstractmethod
    def list_run_keys(
        self, *, dag_id: str | None = None, after: RunKey | None = None, limit: int = 100
    ) -> list[RunKey]:
        """
        The runs that any row of the audit trail tells of, in order of their names.

        Also those that have no row of their own (any more): see :meth:`verify_run`.
        """

    @abstractmethod
    def verify_run(self, key: RunKey, *, limit: int = 1) -> Verdict:
        """
        Whether all that the ledger has of the run is as it was written (semantics section 1).

        :param limit: how many findings are wanted; no more is read than they take.
        """

    @abstractmethod
    def verify_events(
        self, *, dag_id: str | None = None, after: tuple[Any, ...] | None = None, limit: int = 1
    ) -> Verdict:
        """The same of a page of the accepted events; ``after`` is that of the page before."""

    @abstractmethod
    def verify_payloads(self, *, after: tuple[Any, ...] | None = None, limit: int = 1) -> Verdict:
        """
        Whether a page of the payloads lies where its rows look for it, and whether these are there.

        Not the values: those are looked at with their rows. Definitions that no run has are no finding.
        """

    # Collecting garbage

    @abstractmethod
    def list_orphans(
        self, *, saved_before: datetime, after: str | None = None, limit: int = 500
    ) -> OrphanPage:
        """
        The payloads among the next so many that no row refers to.

        One that is not what was signed is none of them: whose it is, nobody can say.

        :param saved_before: younger ones are left out.
        :param after: where the page before ended.
        """

    @abstractmethod
    def remove_orphans(self, payload_ids: Iterable[str], *, saved_before: datetime) -> tuple[Orphan, ...]:
        """
        Remove those of these payloads that are orphans still.

        A process that saves one of them at this moment keeps it.

        :returns: what was removed.
        """

    # Cleaning

    @abstractmethod
    def plan_cleaning(self, key: RunKey, *, before: datetime, effects: bool = False) -> Cleaned | None:
        """What :meth:`clean_run` would do; nothing is written, and no right to do so is needed."""

    @abstractmethod
    def clean_run(self, key: RunKey, *, before: datetime, effects: bool = False) -> Cleaned | None:
        """
        Remove a run that is over, with all that belongs to it alone.

        It stays where it is not over (by its steps and effects, and not only by the state that is stored),
        where something of it is younger, and where one of its effects waits for a person. Effects whose key
        is unique beyond the run stay: they keep it from being done again.

        :param before: when all of it has to have ended.
        :param effects: remove these effects too.
        :returns: None where the run is not in the ledger.
        """

    @abstractmethod
    def list_standing_effects(
        self,
        *,
        before: datetime,
        dag_id: str | None = None,
        after: tuple[Any, ...] | None = None,
        limit: int = 500,
    ) -> StandingPage:
        """
        Of the next so many effects those that have outlived their run, and ended before that time.

        None that waits for a person, or that a process is at work on.
        """

    @abstractmethod
    def clean_effects(self, effects: Iterable[EffectRecord], *, before: datetime) -> tuple[EffectRecord, ...]:
        """Remove those of these effects, with their payloads, that still are as :meth:`list_standing_effects`
        wants them; what was removed."""
