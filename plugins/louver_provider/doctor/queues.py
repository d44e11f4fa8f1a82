"""Which executor queues somebody serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.configuration import conf

__all__ = ["in_one_place", "queues_in", "served_queues"]

_TIMEOUT = 2.0


def served_queues() -> set[str] | None:
    """
    The queues that workers serve now.

    :returns: None where that cannot be told: the executor does not say, or has no notion of queues.
    """
    if "CeleryExecutor" not in conf.get("core", "executor", fallback=""):
        return None
    try:
        from airflow.providers.celery.executors.celery_executor import app
    except ImportError:
        return None
    try:
        # Asks all workers over the broker; who does not answer within the time is taken for gone.
        answers = app.control.inspect(timeout=_TIMEOUT).active_queues()
    except Exception:
        return None
    return queues_in(answers or {})


def queues_in(answers: Mapping[str, Any]) -> set[str]:
    """
    The names in what Celery's workers answer.

    :param answers: by worker, a list of queues; of one that could not say, something else.
    """
    told = [queues for queues in answers.values() if isinstance(queues, list)]
    return {queue["name"] for queues in told for queue in queues}


def in_one_place() -> bool:
    """Whether all tasks run beside the scheduler, whatever their queue."""
    return conf.get("core", "executor", fallback="").strip() == "LocalExecutor"
