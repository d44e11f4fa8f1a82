"""
What the context and the lifecycle of a step need from outside, as Protocols.

They never import each other's adapters: Airflow's runtime and the embedded engine fill these in.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from louver.clock import Clock
from louver.ledger.contract import Ledger
from louver.ledger.names import Token
from louver.ledger.records import ApprovalRecord, CommandRecord, PermitRecord, TransitionRecord
from louver.ledger.requests import ApprovalRequest
from louver.sessions import Change

__all__ = [
    "Interrupted",
    "Liveness",
    "Parked",
    "Places",
    "StepLog",
    "StepRuntime",
    "Supervised",
    "Waits",
    "tell_transition",
]


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


class Places(Protocol):
    """Where an attempt may keep files; see :mod:`louver.artifacts`."""

    def make(self, token: Token) -> Path:
        """The directory of the attempt that the token holds, made where it is not there."""


class Supervised(Protocol):
    """What a step's code meets of its supervision; see :mod:`louver.supervision`."""

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was asked for."""

    @property
    def pause_requested(self) -> bool:
        """Whether a pause was asked for and is not reached yet."""

    def checkpoint(self) -> None:
        """Where the step may be interrupted."""

    def saved(self) -> None:
        """There is a state to go on from."""

    @property
    def may_park(self) -> bool:
        """Whether the step can be gone on with later."""

    def performing(self) -> AbstractContextManager[None]:
        """Around an act on the world outside: the process is not to end in the middle of it."""

    def ask(self, change: Change, *, nonce: str, request: ApprovalRequest) -> ApprovalRecord:
        """Record that the task parks to ask people for an approval; :class:`Parked` is to be raised then."""

    def tell_progress(self, done: Any, total: Any = None, unit: Any = None) -> None:
        """Tell how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRuntime:
    """
    One process at work on one task.

    :param supervision: carries out what people ask of the task; None where nobody can ask.
    :param places: where it may keep files; None where it may not.
    """

    ledger: Ledger
    token: Token
    clock: Clock
    liveness: Liveness
    log: StepLog
    supervision: Supervised | None = None
    places: Places | None = None

    def now(self) -> datetime:
        """The current time, aware UTC."""
        return self.clock.now()


class Interrupted(BaseException):
    """
    The process is asked to end by its platform, as by SIGTERM; raised in the step's own code.

    A ``BaseException``, so that code which catches ``Exception`` does not run on.
    """


class Parked(BaseException):
    """
    The task has parked to wait for a person, its slot given back; its process ends here.

    A ``BaseException``, as Airflow's own park signals are, so that user code which catches ``Exception``
    cannot swallow it. The ledger has recorded the park already.

    :param request: the approval that is asked for; None where a person paused the task.
    :param nonce: what the resume must present.
    :param pause: the command that paused it, otherwise None.
    """

    def __init__(
        self, request: ApprovalRecord | None, nonce: str, *, pause: CommandRecord | None = None
    ) -> None:
        self.request = request
        self.nonce = nonce
        self.pause = pause
        what = f"approval {request.request_id}" if request is not None else "a resume"
        task = request.task if request is not None else pause.task if pause is not None else ""
        super().__init__(f"{task} waits for {what}")


class Waits(BaseException):
    """
    The task waits for what others have of a resource, its slot given back; its process ends here.

    A ``BaseException``, as :class:`Parked` is. The ledger has recorded it already.

    :param permit: its place in the line.
    """

    def __init__(self, permit: PermitRecord) -> None:
        self.permit = permit
        super().__init__(f"{permit.task} waits for {', '.join(permit.units)}")
