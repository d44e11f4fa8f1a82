"""What the ledger's rows are named by, and the words that they are written in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from louver.states import Source

__all__ = [
    "CommandState",
    "Decision",
    "EffectKind",
    "EffectState",
    "OnUnknown",
    "RunKey",
    "TaskKey",
    "Token",
    "Verb",
    "place_of",
]


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """Names a run."""

    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True, order=True)
class TaskKey:
    """Names a task of a run; ``map_index`` is -1 where it is not mapped."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def run(self) -> RunKey:
        """The run it belongs to."""
        return RunKey(self.dag_id, self.run_id)

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{self.place}"

    @property
    def place(self) -> str:
        """Task and map index within the run, for people."""
        return place_of(self.task_id, self.map_index)


def place_of(task_id: str, map_index: int) -> str:
    """``work``, or ``work[3]`` where it is mapped."""
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """
    The right of one process to write about one task (semantics section 1, Fencing).

    Every write of that process is conditional on it; ``session`` rises each time a process opens the task.
    """

    key: TaskKey
    incarnation: int
    generation: int
    attempt: int
    try_number: int
    session: int
    process: str
    source: Source


class EffectState(str, Enum):
    """What is known of an effect (semantics section 3)."""

    STARTED = "started"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    UNDO_FAILED = "undo_failed"

    def __str__(self) -> str:
        return self.value


class EffectKind(str, Enum):
    """A step's own effect, or the undo of one."""

    FORWARD = "forward"
    UNDO = "undo"

    def __str__(self) -> str:
        return self.value


class OnUnknown(str, Enum):
    """What the author wants done when nobody knows whether an effect happened."""

    VERIFY = "verify"
    RETRY = "retry"
    MANUAL = "manual"

    def __str__(self) -> str:
        return self.value


class Decision(str, Enum):
    """How an approval request ended; ``pending`` while it has not."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    STOPPED = "stopped"
    EXPIRED = "expired"
    VOID = "void"

    def __str__(self) -> str:
        return self.value


class Verb(str, Enum):
    """
    What a command wants; one that stands before another is carried out first.

    ``cancel`` is the orchestration's own stop: nobody gives it by hand.
    """

    STOP = "stop"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"

    def __str__(self) -> str:
        return self.value


class CommandState(str, Enum):
    """Where a command stands."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value
