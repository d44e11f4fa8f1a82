"""
Events as Airflow's own metrics: counters and timings, over StatsD or OpenTelemetry, as Airflow is set.

A name is ``louver.`` and words of fixed lists, never a key, a run or a tenant.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.configuration import conf

from louver.events.event import EVENT_TYPES, Event

__all__ = ["METRICS", "AirflowMetrics", "airflow_stats"]


def _metric(event_type: str) -> tuple[str, str]:
    """The counter of these events, and the timing of what they end."""
    family, _, name = event_type.partition(".")
    family = "run" if family == "workflow" else family
    return f"louver.{family}.{name}", f"louver.{family}.duration"


_NAMES = {
    # That a run has advanced says again what the step's own event says.
    event_type: _metric(event_type)
    for event_type in EVENT_TYPES
    if event_type != "workflow.advanced"
}

METRICS = frozenset(name for names in _NAMES.values() for name in names) - {"louver.task.duration"}
"""All names that there can be; how long a task takes Airflow tells itself."""


class AirflowMetrics:
    """
    Counts events.

    :param stats: Airflow's module of that name.
    """

    def __init__(self, stats: Any) -> None:
        self._stats = stats

    def emit(self, event: Event) -> None:
        """Count it, and record how long what it ends took."""
        names = _NAMES.get(event.type)
        if names is None:
            return
        counter, duration = names
        tags = {"dag_id": event.dag_id}
        self._stats.incr(counter, tags=tags)
        if event.seconds is not None:
            self._stats.timing(duration, timedelta(seconds=event.seconds), tags=tags)


def airflow_stats() -> Any:
    """
    Airflow's ``stats`` for this process, ready for use.

    Airflow has it twice: the task runner makes the SDK's ready, its servers the other one. What runs by
    itself, as the reconciler and the commands do, has to make it ready for itself.
    """
    from airflow.sdk.observability import stats as sdk_stats

    if _is_ready(sdk_stats):
        return sdk_stats
    from airflow.observability import stats
    from airflow.observability.metrics import stats_utils

    if not _is_ready(stats):
        stats.initialize(
            factory=stats_utils.get_stats_factory(),
            export_legacy_names=conf.getboolean("metrics", "legacy_names_on", fallback=True),
        )
    return stats


def _is_ready(stats: Any) -> bool:
    # Airflow does not say so in public. Made ready twice, it would export through two backends.
    return stats.incr.__globals__.get("_factory") is not None
