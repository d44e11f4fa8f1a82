"""The cluster policies that are measured beside each other, each live for the length of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["POLICIES", "foreign", "louver", "none"]

_FOREIGN = "somebody_else"


@contextmanager
def none() -> Iterator[None]:
    """No policy at all."""
    from airflow import settings

    settings.task_instance_mutation_hook.is_noop = True  # type: ignore[attr-defined]
    yield


@contextmanager
def louver() -> Iterator[None]:
    """Louver's."""
    from airflow import settings

    from louver_provider.cluster_policies import PLUGIN, install

    os.environ["AIRFLOW__LOUVER__BUCKETS"] = "2020-01-01:16, 2026-01-01:64"
    install()
    try:
        yield
    finally:
        del os.environ["AIRFLOW__LOUVER__BUCKETS"]
        settings.get_policy_plugin_manager().unregister(name=PLUGIN)
        settings.task_instance_mutation_hook.is_noop = True  # type: ignore[attr-defined]


@contextmanager
def foreign() -> Iterator[None]:
    """One that does nothing."""
    from airflow import settings
    from airflow.policies import hookimpl

    class Nothing:
        @hookimpl
        def task_instance_mutation_hook(self, task_instance: Any, dag_run: Any) -> None:
            return

    manager = settings.get_policy_plugin_manager()
    manager.register(Nothing(), name=_FOREIGN)
    settings.task_instance_mutation_hook.is_noop = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        manager.unregister(name=_FOREIGN)
        settings.task_instance_mutation_hook.is_noop = True  # type: ignore[attr-defined]


POLICIES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "none": none,
    "empty": foreign,
    "louver": louver,
}
"""In the order in which they take turns."""
