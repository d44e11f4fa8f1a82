"""What happened to a run or a task as the platform's own tables tell it; see :mod:`louver.history`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from louver.states import Precision, TaskState

__all__ = ["PLATFORM", "PlatformEvent"]

PLATFORM = "airflow"
"""Source of what only the platform's tables tell of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEvent:
    """
    Something that happened, as the platform's tables tell it.

    :param said: the platform's own word: a state, or what somebody asked for.
    :param at: when; where only bounds are known, the later one.
    :param since: the earlier bound; None where the time is exact, or where there is none.
    :param precision: ``unknown`` is a gap: it must have happened, and its time was overwritten.
    :param means: the states that Louver may have recorded the same event as.
    :param trigger: as in a transition.
    :param actor: the person, where it was one.
    :param source: ``airflow``, or ``api`` or ``cli`` where a person asked for it there.
    :param unless_recorded: what more there is to say where the ledger knows nothing of it.
    :param task_id: None for what concerns the whole run.
    """

    said: str
    at: datetime
    trigger: str
    task_id: str | None = None
    map_index: int = -1
    since: datetime | None = None
    precision: Precision = Precision.EXACT
    means: frozenset[TaskState] = frozenset()
    try_number: int | None = None
    actor: str | None = None
    reason: str | None = None
    unless_recorded: str | None = None
    source: str = PLATFORM
