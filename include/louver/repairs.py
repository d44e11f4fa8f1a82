"""
What reconciling may do: each repair a value that says what, about whom and why.

They are decided by :mod:`louver.reconcile` and carried out by who has the platform at hand. A chain of
repairs is carried out in order, as far as each comes about: what was seen may have changed meanwhile, and
then the next round sees it afresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import CommandRecord, RunRecord, TaskRecord
from louver.sessions import Change
from louver.sightings import Shown
from louver.states import RunState

__all__ = [
    "CancelTask",
    "Chain",
    "CloseCommand",
    "CloseRun",
    "Compensate",
    "Deliver",
    "EndOnPlatform",
    "Expire",
    "Mark",
    "PassAnswerOn",
    "Repair",
    "SetRunState",
    "WakeExpired",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    Append transitions to the task's side chain, and fence whoever held it.

    :param seen: the record that this was decided by; None where there was none. Another one now: do nothing.
    :param max_tries: the platform's, where that is to be remembered.
    """

    task: TaskKey
    seen: TaskRecord | None
    changes: tuple[Change, ...]
    max_tries: int | None = None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOnPlatform:
    """
    Have the platform end its task, and the process inside, where there is one.

    :param try_number: of the platform's row; another one now: do nothing.
    :param while_shown: what the row has to show.
    :param retry_in: the platform tries it again after so long; None where it is not to.
    :param skipped: it is shown as skipped then, and not as failed: the orchestration has cancelled it.
    """

    task: TaskKey
    try_number: int
    while_shown: Shown
    retry_in: timedelta | None
    skipped: bool = False
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCommand:
    """
    Close a command that nobody will carry out (any more).

    :param carried_out: what it wanted has come about.
    """

    command: CommandRecord
    carried_out: bool
    why: str

    @property
    def task(self) -> TaskKey:
        """Whom it was for."""
        return self.command.task


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Wake a parked task for a command that its sender could not deliver."""

    command: CommandRecord
    why: str

    @property
    def task(self) -> TaskKey:
        """Whom it is for."""
        return self.command.task


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAnswerOn:
    """Give a parked task the answer that the platform has recorded and not acted upon."""

    task: TaskKey
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask:
    """
    A task that fails fast with the run.

    :param seen: its record; None where it was never opened.
    :param ask: a process holds it, or a person is asked: it is told to end. Otherwise it is marked.
    """

    task: TaskKey
    seen: TaskRecord | None
    ask: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Record that a request for approval has expired."""

    task: TaskKey
    request_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeExpired:
    """Wake a parked task whose request has expired, where the platform's own time-out did not."""

    task: TaskKey
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunState:
    """Store what a run that goes on is doing."""

    run: RunKey
    state: RunState
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRun:
    """Compute what became of a run, store and seal it."""

    run: RunKey
    state: RunState
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensate:
    """
    Have the run compensated by a task of its own.

    :param number: which one for this run, from 1.
    :param outstanding: fingerprint of the effects it is started for.
    """

    run: RunRecord
    number: int
    outstanding: str
    why: str


Repair = (
    Mark
    | CancelTask
    | EndOnPlatform
    | CloseCommand
    | Deliver
    | PassAnswerOn
    | Expire
    | WakeExpired
    | SetRunState
    | CloseRun
    | Compensate
)

Chain = tuple[Repair, ...]
"""Repairs that only make sense one after the other."""
