"""
What the context and the lifecycle of a step need from outside, as Protocols.

They never import each other's adapters: Airflow's runtime and the embedded engine fill these in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from louver.clock import Clock
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.records import ApprovalRecord, TransitionRecord

__all__ = ["Liveness", "Parked", "StepLog", "StepRuntime", "tell_transition"]


class StepLog(Protocol):
    """Where a step's life is told to people: ids, hashes and states alone (rows B7, O9)."""

    def tell(self, action: str, message: str, *args: object) -> None:
        """
        One line.

        :param action: stable name of what happened, as ``effect.committed``.
        :param message: with ``%s`` places for ``args``.
        """


def tell_transition(log: StepLog, row: TransitionRecord) -> None:
    """One line about a transition, with its reason where it has one."""
    reason = f": {row.reason}" if row.reason else ""
    log.tell("state", "state %s -> %s (%s)%s", row.from_state, row.to_state, row.trigger, reason)


class Liveness(Protocol):
    """Judges whether the process behind a token still acts."""

    def proves_dead(self, process: str) -> bool:
        """Whether it is certain that it acts no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRuntime:
    """One process at work on one task."""

    ledger: Ledger
    token: Token
    clock: Clock
    liveness: Liveness
    log: StepLog

    def now(self) -> datetime:
        """The current time, aware UTC."""
        return self.clock.now()


class Parked(BaseException):
    """
    The task has parked to wait for a person; its process ends here.

    A ``BaseException``, as Airflow's own park signals are, so that user code which catches ``Exception``
    cannot swallow it. The ledger has recorded the park already.

    :param request: what is asked.
    :param nonce: what the resume must present.
    """

    def __init__(self, request: ApprovalRecord, nonce: str) -> None:
        self.request = request
        self.nonce = nonce
        super().__init__(f"{request.task} waits for approval {request.request_id}")
