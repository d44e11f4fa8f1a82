"""The part of the store contract for people: what waits for them, what they settle (semantics 3 and 4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from louver.ledger.names import CommandState, Decision, EffectState
from louver.ledger.records import EffectRecord
from louver.states import RunState, Source, TaskState

__all__ = ["Census", "HumanQueue", "Word"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """
    What a person says about an effect, for the audit trail.

    :param actor: who says it.
    :param reason: why.
    :param source: by which way.
    """

    actor: str | None
    reason: str | None = field(repr=False)
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """
    How many rows of each kind are in each state; states without any are left out.

    :param workflows: the runs again, those of each Dag apart, in order of their ids.
    """

    runs: Mapping[RunState, int]
    workflows: Mapping[str, Mapping[RunState, int]]
    tasks: Mapping[TaskState, int]
    effects: Mapping[EffectState, int]
    approvals: Mapping[Decision, int]
    commands: Mapping[CommandState, int]


class HumanQueue(ABC):
    """
    What the commands for people stand on.

    What is settled leaves a row in the side chain of the task that began the effect: its state stays, and
    trigger, actor and reason tell who said what. The seal of a run that is over is renewed with it.
    """

    @abstractmethod
    def find_effects(
        self, *, states: Collection[EffectState] = (), key: str | None = None
    ) -> list[EffectRecord]:
        """
        Effects of all runs, undos included, in order of their start.

        :param states: any of these; empty means all.
        :param key: whatever its scope.
        """

    @abstractmethod
    def count_states(self, *, live: bool = False) -> Census:
        """
        What there is, in which states.

        :param live: only of runs that are not over, and what waits for a person, whatever became of its run.
        """

    @abstractmethod
    def settle_effect(
        self, record: EffectRecord, *, undone: bool, word: Word, now: datetime
    ) -> EffectRecord | None:
        """
        A person says what has become of an effect that is ``unknown`` or ``undo_failed``.

        :param undone: nothing of it is left: it is ``undone``, by an undo that is committed with it, and its
            key opens the next epoch. Otherwise it stands: it is ``committed``, with ``None`` as its result
            where it had none, and is not undone any more.
        :returns: None, and nothing done, where it is no longer as ``record`` shows it, or is being undone at
            this moment.
        :raises LedgerError: for an undo, and for an effect in another state.
        """

    @abstractmethod
    def reopen_undo(self, record: EffectRecord, *, word: Word, now: datetime) -> EffectRecord | None:
        """
        An effect that is ``undo_failed``, as it was before its undo was given up, to be undone again.

        :returns: None, and nothing done, where it is no longer as ``record`` shows it.
        :raises LedgerError: for an effect in another state.
        """

    @abstractmethod
    def renew_effect(self, record: EffectRecord, *, word: Word, now: datetime) -> EffectRecord | None:
        """
        Open the next epoch of a ``committed`` effect: its key may be used once more, with any intent.

        :returns: the new epoch, ``failed`` until somebody begins it; None, and nothing done, where ``record``
            is no longer the newest epoch, or no longer as it shows it.
        :raises LedgerError: for an undo, and for an effect in another state.
        """
