"""The part of the store contract by which a person empties what a task has saved."""

from __future__ import annotations

from abc import ABC, abstractmethod

from louver.ledger.names import TaskKey

__all__ = ["SavedStates"]


class SavedStates(ABC):
    """
    What a task goes on from on a retry and after a pause.

    Not its result: that is the task's once it has succeeded.
    """

    @abstractmethod
    def list_states(self, key: TaskKey) -> tuple[str, ...]:
        """The names under which the task's present generation has saved something, in order."""

    @abstractmethod
    def reset_states(self, key: TaskKey) -> tuple[str, ...]:
        """
        Remove them; returns their names.

        A process that is at work is left alone: it may save again. Who begins the task next begins it with
        no state.

        :raises LedgerError: where the task is over; cleared, it begins with no state anyhow.
        """
