"""The part of the store contract about definitions that change under a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from louver.ledger.names import RunKey, Token
from louver.ledger.records import AcceptanceRecord, RunRecord
from louver.ledger.requests import RunStart

__all__ = ["Versions"]


class Versions(ABC):
    """Which definitions a run went on under, and who accepted them."""

    @abstractmethod
    def accept_definition(
        self, token: Token, start: RunStart, *, instead_of: str, reason: str, now: datetime
    ) -> RunRecord:
        """
        Go on under another definition; that it is compatible, the caller has seen (:mod:`louver.versions`).

        From then on the run's record names this one. What was saved before stays readable, and what people
        were asked before is stale by its own rule. Repeated, it is told what is recorded.

        :param start: with the definition that the run is to go on under.
        :param instead_of: fingerprint of the definition that it was compared with.
        :raises DefinitionChanged: where the run is under yet another definition by now, or was under this one
            and has left it.
        """

    @abstractmethod
    def list_acceptances(self, run: RunKey) -> list[AcceptanceRecord]:
        """
        What the run has accepted, in this order; nothing of a run of this id that was deleted.

        :raises IntegrityError: where one is not what was signed.
        """
