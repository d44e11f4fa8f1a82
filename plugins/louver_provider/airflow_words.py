"""Airflow's words for what happens to a task, and what Louver calls the same (semantics section 1)."""

from __future__ import annotations

from collections.abc import Mapping

from louver.states import TaskState

__all__ = ["BEFORE_START", "EXPLAINED", "MEANS", "TERMINAL"]

_S = TaskState

_ENDED_OTHERWISE = frozenset({_S.SKIPPED, _S.CANCELLED, _S.LOST})

MEANS: Mapping[str, frozenset[TaskState]] = {
    "scheduled": frozenset({_S.QUEUED}),
    "queued": frozenset(),
    "running": frozenset({_S.STARTING}),
    "awaiting_input": frozenset({_S.PAUSED}),
    "deferred": frozenset({_S.BLOCKED}),
    "up_for_reschedule": frozenset(),
    "up_for_retry": frozenset({_S.RETRY_WAIT}),
    "restarting": frozenset({_S.QUEUED, _S.RETRY_WAIT}),
    "success": frozenset({_S.SUCCEEDED}),
    "failed": frozenset({_S.FAILED, _S.STOPPED, _S.LOST}),
    "skipped": _ENDED_OTHERWISE,
    "upstream_failed": _ENDED_OTHERWISE,
    "removed": _ENDED_OTHERWISE,
}
"""Airflow's states, and what Louver may have recorded the same as; nothing where it has no state for it."""

BEFORE_START = ("scheduled", "queued")
"""The states before a process begins, in their order."""

TERMINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""The states in which Airflow does nothing more about a task."""

EXPLAINED = {
    "heartbeat timeout": "its supervisor gave no sign of life for too long",
    "state mismatch": "the executor reported an end that Airflow did not know of",
    "stuck in queued reschedule": "it was queued for too long, and is queued again",
    "stuck in queued tries exceeded": "it was queued for too long, too often",
}
"""What events of the log mean that are no states."""
